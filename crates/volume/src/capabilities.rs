//! Describes the abilities of a volume beyond the core of [`Volume`]. Front ends ask for them.
//!
//! Invariant: every ability is a field here and nowhere else. A volume names all fields, so a new
//! ability does not compile until every volume declares it. [`crate::Layer`] passes on the
//! abilities that a decorator does not change. Nothing here allocates.
//!
//! [`Volume`]: crate::Volume

use crate::{Changes, RequestContext, VolumeError};
use std::sync::Arc;

/// Tells front ends which requests need not wait.
pub trait FastPath: Send + Sync {
    /// Returns true if reading the range, or asking for its extents, likely needs no device.
    ///
    /// Never waits itself. The answer may be wrong either way. Front ends serve cached requests at
    /// once and hand the others to threads.
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool;

    /// Writes like [`crate::Volume::write`] with [`crate::Durability::Volatile`], but only if that
    /// need not wait: for a device, for space, or for other writes to drain.
    ///
    /// Returns `Ok(false)` if it would have to wait. Then nothing was written, and the caller hands
    /// the write to a thread that may wait.
    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError>;
}

/// Reports differences from earlier states.
pub trait TrackChanges: Send + Sync {
    /// Returns names of the earlier states that [`TrackChanges::changes_since`] knows, newest
    /// first, at most `count_max`. More may exist and can be asked for.
    fn baselines(&self, count_max: usize) -> Vec<String>;

    /// Returns the changes since the state called `baseline`.
    ///
    /// `None` if there is no such state, or none that can be compared. The caller must then treat
    /// everything as changed.
    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>>;
}

/// Prefetches ranges.
pub trait Prefetch: Send + Sync {
    /// Hints that the range will be read soon. Never fails and never waits for the device.
    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64);

    /// Hints that the caller reads the range next, as one of several reads: the device begins with
    /// it while the caller still executes others.
    ///
    /// Never fails and never waits for the device. Returns true if the device has begun and the
    /// read costs little more than waiting for it. A thread may then execute several such reads one
    /// after the other. Otherwise nothing was begun.
    fn announce(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool;
}

/// The abilities of a volume. It has no default: each volume declares all of them.
#[derive(Clone, Copy)]
pub struct Capabilities<'a> {
    /// If absent: every read counts as cached, and every write as one that waits.
    pub fast_path: Option<&'a dyn FastPath>,
    /// If absent: the volume has no earlier states.
    pub changes: Option<&'a dyn TrackChanges>,
    /// If absent: hints are ignored.
    pub prefetch: Option<&'a dyn Prefetch>,
}

impl Capabilities<'_> {
    /// The core and nothing else. Not for decorators: they have the abilities of the volume below.
    pub const NONE: Capabilities<'static> = Capabilities {
        fast_path: None,
        changes: None,
        prefetch: None,
    };

    /// Returns the names of the abilities that are present.
    pub fn names(&self) -> Vec<&'static str> {
        let Self {
            fast_path,
            changes,
            prefetch,
        } = self;
        let fast_path = fast_path.map(|_| "fast_path");
        let changes = changes.map(|_| "changes");
        let prefetch = prefetch.map(|_| "prefetch");
        [fast_path, changes, prefetch]
            .into_iter()
            .flatten()
            .collect()
    }

    /// As [`FastPath::is_cached`].
    pub fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        self.fast_path
            .is_none_or(|fast| fast.is_cached(context, offset_bytes, len_bytes))
    }

    /// As [`FastPath::write_now`].
    pub fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        match self.fast_path {
            Some(fast) => fast.write_now(context, offset_bytes, data),
            None => Ok(false),
        }
    }

    /// As [`TrackChanges::baselines`].
    pub fn baselines(&self, count_max: usize) -> Vec<String> {
        self.changes
            .map_or_else(Vec::new, |changes| changes.baselines(count_max))
    }

    /// As [`TrackChanges::changes_since`].
    pub fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        self.changes?.changes_since(baseline)
    }

    /// As [`Prefetch::prefetch`].
    pub fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        if let Some(ahead) = self.prefetch {
            ahead.prefetch(context, offset_bytes, len_bytes);
        }
    }

    /// As [`Prefetch::announce`].
    pub fn announce(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        self.prefetch
            .is_some_and(|ahead| ahead.announce(context, offset_bytes, len_bytes))
    }
}

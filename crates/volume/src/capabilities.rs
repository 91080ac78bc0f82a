//! What a volume can do beyond the core of [`Volume`].
//!
//! Invariant: every ability is a field here and nowhere else. A volume names all fields, so one that
//! is new does not compile until every volume has said whether it has it; [`crate::Layer`] passes on
//! what a decorator does not change. Front ends ask; nothing here allocates.
//!
//! [`Volume`]: crate::Volume

use crate::{Changes, RequestContext, VolumeError};
use std::sync::Arc;

/// Which requests need not wait.
pub trait FastPath: Send + Sync {
    /// True if reading the range, or asking for its extents, is likely to need no device. Never
    /// waits itself; may be wrong both ways. Front ends serve cached requests at once and hand
    /// the others to threads.
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool;

    /// Does what [`crate::Volume::write`] does with [`crate::Durability::Volatile`], but only if it
    /// need not wait: for a device, for room, for others' writes to drain. `Ok(false)` if it would
    /// have to; then nothing was written, and the caller hands the write to a thread that may wait.
    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError>;
}

/// What differs from earlier states.
pub trait TrackChanges: Send + Sync {
    /// Names of the earlier states that [`TrackChanges::changes_since`] knows, newest first, at
    /// most `count_max`; there may be more that can be asked for.
    fn baselines(&self, count_max: usize) -> Vec<String>;

    /// What changed since the state called `baseline`; `None` if there is no such state, or none
    /// that can be compared, so that the caller has to take everything for changed.
    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>>;
}

/// Fetching ahead.
pub trait Prefetch: Send + Sync {
    /// A hint that the range will be read soon; never an error, never waits for the device.
    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64);
}

/// The abilities of a volume. Has no default: whoever makes one says all of them.
#[derive(Clone, Copy)]
pub struct Capabilities<'a> {
    /// Without: every read is taken for cached, every write for one that waits.
    pub fast_path: Option<&'a dyn FastPath>,
    /// Without: the volume has no earlier states.
    pub changes: Option<&'a dyn TrackChanges>,
    /// Without: hints are ignored.
    pub prefetch: Option<&'a dyn Prefetch>,
}

impl Capabilities<'_> {
    /// The core and nothing else. Not for decorators: they have what is below them.
    pub const NONE: Capabilities<'static> = Capabilities {
        fast_path: None,
        changes: None,
        prefetch: None,
    };

    /// Names of the abilities that are there.
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
}

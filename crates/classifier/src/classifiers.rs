//! All served volumes of a server, and the policy in force. The server makes one.
//!
//! Invariant: the layouts of all volumes together take at most the memory that was given. A volume
//! that nobody uses takes none. A layout begins anew when a policy begins, because it knows
//! nothing of writes before.

use crate::counts::{ClassCounts, Counts};
use crate::served::Served;
use io_class::layout::Counters;
use io_class::{CLASSES, Contents, Facts, Policy};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use units::IoClass;
use volume::{RequestContext, Volume};

/// A new volume gets this part of the memory that is left, so that later ones get some too.
const PART_OF_LEFT: u64 = 2;
/// Less is not worth a layout, bytes.
const MEMORY_BYTES_MIN: u64 = 64 << 10;

/// Knowledge of the blocks of one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutStatus {
    /// Name of the volume.
    pub name: String,
    /// Cost. `None` while it is being read.
    pub cost: Option<Counters>,
    /// Everything was read, and nothing was written since.
    pub is_complete: bool,
    /// There is no memory for it: all its blocks are unknown.
    pub is_left_out: bool,
}

/// A read of a file whose name and size the front end knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileRead<'a> {
    /// Path from the root of its file system.
    pub path: &'a [u8],
    /// Size of the file, bytes.
    pub size_bytes: u64,
    /// Offset in the file, bytes.
    pub offset_bytes: u64,
    /// Length of the request, bytes.
    pub len_bytes: u64,
}

/// See the module's head.
pub struct Classifiers {
    is_active: AtomicBool,
    policy: RwLock<Option<Arc<Policy>>>,
    memory_bytes_max: u64,
    served: Mutex<BTreeMap<String, Weak<Served>>>,
    counts: Counts,
}

impl Classifiers {
    /// Makes one without a policy. `memory_bytes_max` is for all layouts.
    pub fn new(memory_bytes_max: u64) -> Self {
        Self {
            is_active: AtomicBool::new(false),
            policy: RwLock::default(),
            memory_bytes_max,
            served: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Returns true while a policy is in force.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    /// Replaces the policy, from the next request on. `None`: all requests are unclassified. The
    /// caller sets one at a time.
    pub fn set(&self, policy: Option<Arc<Policy>>) {
        let (was_active, is_active) = (self.is_active(), policy.is_some());
        // Layouts are reset while no request asks for them: a reset waits for a step.
        let reset = || self.all().iter().for_each(|served| served.reset());
        match is_active {
            true => {
                if !was_active {
                    // Writes until now are not known.
                    reset();
                }
                *self.policy.write() = policy;
                self.is_active.store(true, Ordering::SeqCst);
            }
            false => {
                self.is_active.store(false, Ordering::SeqCst);
                *self.policy.write() = None;
                if was_active {
                    // Frees memory.
                    reset();
                }
            }
        }
    }

    /// Returns what is known of a volume; begins to learn if nobody uses it yet.
    pub(crate) fn serve(&self, key: &str, name: &str, source: Arc<dyn Volume>) -> Arc<Served> {
        let mut served = self.served.lock();
        served.retain(|_, one| one.strong_count() > 0);
        let known = served.get(key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let live = served.values().filter_map(Weak::upgrade);
            let taken: u64 = live.map(|one| one.memory_bytes_max).sum();
            let part = self.memory_bytes_max.saturating_sub(taken) / PART_OF_LEFT;
            let bytes = if part < MEMORY_BYTES_MIN { 0 } else { part };
            let new = Arc::new(Served::new(name, source, bytes));
            served.insert(key.to_owned(), Arc::downgrade(&new));
            new
        })
    }

    /// Returns the class of a read of a file, and counts it. 0 without a policy.
    pub fn class_of_file(&self, context: RequestContext, file: &FileRead<'_>) -> IoClass {
        if !self.is_active() {
            return IoClass(0);
        }
        let policy = self.policy.read();
        let class = policy.as_ref().map(|policy| {
            policy.classify(&Facts {
                contents: Contents::File {
                    size_bytes: file.size_bytes,
                    offset_bytes: file.offset_bytes,
                },
                origin: context.origin,
                offset_bytes: file.offset_bytes,
                len_bytes: file.len_bytes,
                file_path: Some(file.path),
                ..Facts::default()
            })
        });
        let class = class.unwrap_or_default();
        self.count(class, false, file.len_bytes);
        class
    }

    /// Forgets what is known of the blocks of a volume, which has other contents now.
    pub fn forget(&self, key: &str) {
        let served = self.served.lock().get(key).and_then(Weak::upgrade);
        if let Some(served) = served {
            served.reset();
        }
    }

    /// Returns the class of a request: offset and length, and whether it writes. 0: no policy.
    #[inline]
    pub(crate) fn class_of(
        &self,
        served: &Served,
        context: RequestContext,
        asked: (u64, u64),
        is_write: bool,
    ) -> IoClass {
        match self.is_active() {
            false => IoClass(0),
            true => self.class_by_policy(served, context, asked, is_write),
        }
    }

    fn class_by_policy(
        &self,
        served: &Served,
        context: RequestContext,
        (offset_bytes, len_bytes): (u64, u64),
        is_write: bool,
    ) -> IoClass {
        let policy = self.policy.read();
        let Some(policy) = &*policy else {
            return IoClass(0);
        };
        let pattern = policy
            .asks_pattern()
            .then(|| served.pattern(offset_bytes, len_bytes));
        policy.classify(&Facts {
            contents: served.contents(offset_bytes),
            wire_class: context.class.0,
            origin: context.origin,
            volume: &served.name,
            offset_bytes,
            len_bytes,
            is_write,
            pattern,
            ..Facts::default()
        })
    }

    #[inline]
    pub(crate) fn count(&self, class: IoClass, is_write: bool, bytes: u64) {
        if self.is_active() {
            self.counts.add(class, is_write, bytes);
        }
    }

    fn all(&self) -> Vec<Arc<Served>> {
        let served = self.served.lock();
        served.values().filter_map(Weak::upgrade).collect()
    }

    /// Reads about `reads_max` times from each volume whose layout is not complete. Returns true if
    /// more is left. Does nothing without a policy.
    pub fn step(&self, reads_max: u64) -> bool {
        let mut has_more = false;
        for served in self.all() {
            if self.is_active() {
                has_more |= served.step(reads_max);
            }
        }
        has_more
    }

    /// Returns the counts of all classes since the start.
    pub fn counts(&self) -> [ClassCounts; CLASSES] {
        self.counts.read()
    }

    /// Returns the layouts of the volumes in use, by name.
    pub fn layouts(&self) -> Vec<LayoutStatus> {
        let status = |served: Arc<Served>| {
            let counters = served.counters();
            LayoutStatus {
                name: served.name.clone(),
                is_complete: counters.is_some_and(|(_, is_settled)| is_settled),
                cost: counters.map(|(cost, _)| cost),
                is_left_out: served.memory_bytes_max == 0,
            }
        };
        self.all().into_iter().map(status).collect()
    }
}

//! All served volumes of a server, and the policy in force. The server makes one.
//!
//! Invariant: the layouts of all volumes together take at most the memory that was given, in equal
//! shares. A volume without clients takes none. A layout begins anew when a policy begins, because
//! it knows nothing of writes before.

use crate::CLASSES;
use crate::counts::{ClassCounts, Counts};
use crate::facts::{Contents, Facts};
use crate::policy::Policy;
use crate::served::Served;
use disk_layout::{Budget, Counters};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use units::IoClass;
use volume::{RequestContext, Volume};

/// Less is not worth a layout, bytes.
const MEMORY_BYTES_MIN: u64 = 64 << 10;

/// Knowledge of the blocks of one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutStatus {
    /// Name of the volume.
    pub name: String,
    /// Cost. `None` while it is being read.
    pub cost: Option<Counters>,
    /// Everything was read, nothing was left out, and nothing that matters was written since.
    pub is_complete: bool,
    /// Everything that will be read was read.
    pub is_settled: bool,
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

/// Result of [`Classifiers::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stepped {
    /// More is to be read.
    pub has_more: bool,
    /// Reads of volumes.
    pub reads: u64,
}

/// See the module's head.
pub struct Classifiers {
    is_active: AtomicBool,
    policy: RwLock<Option<Arc<Policy>>>,
    memory_bytes_max: u64,
    served: Mutex<BTreeMap<String, Weak<Served>>>,
    /// Volumes so far.
    number: AtomicU64,
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
            number: AtomicU64::new(0),
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
        // The thread that steps obeys: no command waits for a step.
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

    /// Returns what is known of a volume; begins to learn if it has no client yet. `source` is
    /// read as long as its client keeps it.
    pub(crate) fn serve(&self, key: &str, name: &str, source: &Arc<dyn Volume>) -> Arc<Served> {
        let mut served = self.served.lock();
        if let Some(known) = served.get(key).and_then(Weak::upgrade) {
            known.also(source);
            return known;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let new = Arc::new(Served::new(name, number, source));
        served.insert(key.to_owned(), Arc::downgrade(&new));
        self.share(&mut served);
        new
    }

    /// Divides the memory among the volumes in use. Shares are halved and doubled: each change of
    /// one costs reading again.
    fn share(&self, served: &mut BTreeMap<String, Weak<Served>>) {
        served.retain(|_, one| one.strong_count() > 0);
        let mut live: Vec<Arc<Served>> = served.values().filter_map(Weak::upgrade).collect();
        live.sort_unstable_by_key(|one| one.number);
        let count = live.len().next_power_of_two() as u64;
        let share = (self.memory_bytes_max / count).max(MEMORY_BYTES_MIN);
        let mut left = self.memory_bytes_max;
        for one in live {
            let has_room = left >= share;
            one.set_memory(if has_room { share } else { 0 });
            left -= if has_room { share } else { 0 };
        }
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
                is_direct: context.is_direct.then_some(true),
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

    /// Returns the context with the class of a request: offset and length, and whether it writes;
    /// and with its access pattern, if the policy asks for it. Without a policy the class is 0.
    #[inline]
    pub(crate) fn judged(
        &self,
        served: &Served,
        context: RequestContext,
        asked: (u64, u64),
        is_write: bool,
    ) -> RequestContext {
        match self.is_active() {
            false => RequestContext {
                class: IoClass(0),
                ..context
            },
            true => self.judged_by_policy(served, context, asked, is_write),
        }
    }

    fn judged_by_policy(
        &self,
        served: &Served,
        context: RequestContext,
        (offset_bytes, len_bytes): (u64, u64),
        is_write: bool,
    ) -> RequestContext {
        let policy = self.policy.read();
        let Some(policy) = &*policy else {
            return RequestContext {
                class: IoClass(0),
                ..context
            };
        };
        let pattern = policy
            .asks_pattern()
            .then(|| served.pattern(offset_bytes, len_bytes, is_write));
        let class = policy.classify(&Facts {
            contents: served.contents(offset_bytes),
            wire_class: context.class.0,
            origin: context.origin,
            volume: &served.name,
            offset_bytes,
            len_bytes,
            is_write,
            pattern,
            is_direct: context.is_direct.then_some(true),
            ..Facts::default()
        });
        RequestContext {
            class,
            pattern,
            ..context
        }
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

    /// Reads about `reads_max` times from each volume whose layout is not complete. Without a
    /// policy, frees what was known.
    pub fn step(&self, reads_max: u64) -> Stepped {
        let mut stepped = Stepped::default();
        self.share(&mut self.served.lock());
        for served in self.all() {
            if !self.is_active() {
                served.obey_reset();
            } else if served.memory_bytes_max() > 0 {
                let mut budget = Budget::of_reads(reads_max);
                let before = budget.reads;
                let class = self.class_of_metadata(&served.name);
                stepped.has_more |= served.step(&mut budget, class);
                stepped.reads += before - budget.reads;
            }
        }
        stepped
    }

    /// Returns the class of metadata of a volume.
    fn class_of_metadata(&self, volume: &str) -> IoClass {
        let facts = Facts {
            contents: Contents::Metadata,
            volume,
            ..Facts::default()
        };
        let policy = self.policy.read();
        let policy = policy.as_ref();
        policy.map_or(IoClass(0), |policy| policy.classify(&facts))
    }

    /// Returns the counts of all classes since the start.
    pub fn counts(&self) -> [ClassCounts; CLASSES] {
        self.counts.read()
    }

    /// Returns the layouts of the volumes in use, by name.
    pub fn layouts(&self) -> Vec<LayoutStatus> {
        let status = |served: Arc<Served>| {
            let counters = served.counters();
            let is_settled = counters.is_some_and(|(_, is_settled)| is_settled);
            LayoutStatus {
                name: served.name.clone(),
                is_settled,
                is_complete: is_settled && counters.is_some_and(|(cost, _)| cost.is_whole()),
                cost: counters.map(|(cost, _)| cost),
                is_left_out: served.memory_bytes_max() == 0,
            }
        };
        self.all().into_iter().map(status).collect()
    }
}

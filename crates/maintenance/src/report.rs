//! Numbers that all maintenance tasks report. `status`, `top`, the metrics and deadlines read them
//! through one trait, whatever the task.
//!
//! Invariant: plain values; sums saturate.

use format::phase::TaskPhase;
use qos::Flow;
use units::UnixNanos;

/// Defines a struct of numbers, and lists those that users see: the field names are the names in
/// the JSON. Numbers that users do not see come last, after `hidden:`.
#[macro_export]
macro_rules! counts {
    (
        $(#[$of:meta])*
        pub struct $report:ident {
            $($(#[$doc:meta])* pub $field:ident: u64,)*
            $(hidden: $($(#[$hidden_doc:meta])* pub $hidden:ident: $type:ty,)*)?
        }
    ) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $report {
            $($(#[$doc])* pub $field: u64,)*
            $($($(#[$hidden_doc])* pub $hidden: $type,)*)?
        }

        impl $report {
            /// Returns the numbers that users see, with their names, in the order of the JSON.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

/// Bytes by where they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskBytes {
    /// Bytes that were read from the device.
    pub disk: u64,
    /// Bytes that were in memory, or that readers had verified already.
    pub cache: u64,
}

impl TaskBytes {
    /// Returns the split of `all` bytes, `cache` of which were in memory.
    pub fn of(all: u64, cache: u64) -> Self {
        Self {
            disk: all.saturating_sub(cache),
            cache,
        }
    }

    /// Returns the sum.
    pub fn plus(self, more: Self) -> Self {
        Self {
            disk: self.disk.saturating_add(more.disk),
            cache: self.cache.saturating_add(more.cache),
        }
    }

    /// Returns the difference to an earlier value.
    pub fn since(self, before: Self) -> Self {
        Self {
            disk: self.disk.saturating_sub(before.disk),
            cache: self.cache.saturating_sub(before.cache),
        }
    }
}

/// Totals of a task, over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTotals {
    /// Bytes processed.
    pub bytes: TaskBytes,
    /// Places that were found damaged, or could not be read.
    pub damaged: u64,
}

/// Work that a run has left, at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLeft {
    /// When the run began.
    pub began: UnixNanos,
    /// Bytes to read and write.
    pub bytes: u64,
}

/// State of a task's run: in progress, or the last one.
pub trait TaskReport: Clone + Send {
    /// Name of the task in the metrics, and its command.
    const NAME: &'static str;
    /// Says in a message that a run is in progress.
    const DOING: &'static str;
    /// Flow whose I/O grants it uses.
    const FLOW: Flow;

    /// Returns the phase.
    fn phase(&self) -> TaskPhase;

    /// Returns when the run began, which identifies it.
    fn began(&self) -> UnixNanos;

    /// Returns the share of a run in progress or paused that is done, 0 to 1; 0 at rest, and if the
    /// total is unknown.
    fn progress(&self) -> f64 {
        0.0
    }

    /// Returns what the run has processed and found so far. 0 at rest.
    fn totals(&self) -> TaskTotals;

    /// Returns the bytes that the run has left to read and write.
    fn left_bytes(&self) -> u64;

    /// Returns the work that a run in progress has left. `None` if none is in progress.
    fn left(&self) -> Option<WorkLeft> {
        (self.phase() == TaskPhase::UnderWay).then(|| WorkLeft {
            began: self.began(),
            bytes: self.left_bytes(),
        })
    }
}

/// Returns the share that is done, 0 to 1.
pub fn share(done: u64, all: u64) -> f64 {
    (done as f64 / all.max(1) as f64).min(1.0)
}

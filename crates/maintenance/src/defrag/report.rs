//! What a run has found, done and brought.
//!
//! Invariant: numbers only. Called by the defragmenter; shown by the program.

use format::defrag::{DefragCounts, DefragRecord, DefragStage, DefragToll};
use fragpicker::REQUEST_WEIGHT;
use store::{Cost, Move, MoveCounts};

/// What a load costs: its ranges, each as often as it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// Requests, [`REQUEST_WEIGHT`] each.
    weight: u128,
    /// Runs that they lie in, as weighted.
    runs_weighed: u128,
    /// Bytes of the ranges, without holes, each range once.
    pub bytes: u64,
    /// Regions of the ranges, each range once.
    pub regions: u64,
    /// Runs of adjacent regions, each range once.
    pub runs: u64,
}

impl Toll {
    fn of(stored: &DefragToll) -> Self {
        Self {
            weight: stored.weight,
            runs_weighed: stored.runs_weighed,
            bytes: stored.bytes,
            regions: stored.regions,
            runs: stored.runs,
        }
    }

    pub(super) fn stored(&self) -> DefragToll {
        DefragToll {
            weight: self.weight,
            runs_weighed: self.runs_weighed,
            bytes: self.bytes,
            regions: self.regions,
            runs: self.runs,
        }
    }

    pub(super) fn add(&mut self, weight: u64, cost: &Cost) {
        self.weight += u128::from(weight);
        self.runs_weighed += u128::from(weight) * u128::from(cost.runs);
        self.bytes += cost.bytes;
        self.regions += cost.regions;
        self.runs += cost.runs;
    }

    /// As if a move had been made.
    pub(super) fn moved(&mut self, one: &Move) {
        let less = one.runs.saturating_sub(1);
        let weighed = u128::from(one.weight) * u128::from(less);
        self.runs_weighed = self.runs_weighed.saturating_sub(weighed);
        self.runs = self.runs.saturating_sub(less);
    }

    /// Requests.
    pub fn requests(&self) -> f64 {
        self.weight as f64 / REQUEST_WEIGHT as f64
    }

    /// Device reads for them, at best.
    pub fn reads(&self) -> f64 {
        self.runs_weighed as f64 / REQUEST_WEIGHT as f64
    }

    /// Runs of adjacent regions for each MiB of the ranges.
    pub fn runs_per_mib(&self) -> f64 {
        self.runs as f64 * (1 << 20) as f64 / self.bytes.max(1) as f64
    }
}

/// See the module's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefragReport {
    /// Where it is.
    pub stage: DefragStage,
    /// Objects that are examined.
    pub objects: u64,
    /// Their bytes, without holes: what rewriting all of them would write.
    pub mapped_bytes: u64,
    /// The load is that of a trace.
    pub is_traced: bool,
    /// Ranges of the load.
    pub ranges: u64,
    /// ... that this stage has looked at.
    pub ranges_done: u64,
    /// ... that are among those that are read most.
    pub hot: u64,
    /// ... that lie in more pieces than they need.
    pub fragmented: u64,
    /// ... that are hot, and stay because moving them hurts other owners more than it helps.
    pub unfair: u64,
    /// ... that are moved.
    pub wanted: u64,
    /// ... that cannot be read.
    pub failed: u64,
    /// Bytes of them, those that a dry run would move too.
    pub wanted_bytes: u64,
    /// Seconds until it is over, at its pace so far; `None`: not known yet.
    pub eta_s: Option<f64>,
    /// What was copied.
    pub moved: MoveCounts,
    /// What the load costs before.
    pub before: Toll,
    /// ... and after.
    pub after: Toll,
}

impl DefragReport {
    /// As far as a record says.
    pub(super) fn of(record: &DefragRecord) -> Self {
        let counts = &record.counts;
        Self {
            stage: record.stage,
            objects: counts.objects,
            mapped_bytes: counts.mapped_bytes,
            is_traced: record.wish.is_traced,
            ranges: counts.ranges,
            ranges_done: match record.stage {
                DefragStage::Measuring => record.cursor,
                _ => record.examined,
            },
            hot: counts.hot,
            fragmented: counts.fragmented,
            unfair: counts.unfair,
            wanted: counts.wanted,
            failed: counts.failed,
            wanted_bytes: counts.wanted_bytes,
            eta_s: None,
            moved: MoveCounts {
                chunks: counts.chunks,
                bytes: counts.bytes,
                cached_bytes: counts.cached_bytes,
                stored_bytes: counts.stored_bytes,
            },
            before: Toll::of(&record.before),
            after: Toll::of(&record.after),
        }
    }

    /// With what commits have made count.
    pub(super) fn counts(&self, settled: MoveCounts) -> DefragCounts {
        DefragCounts {
            objects: self.objects,
            ranges: self.ranges,
            mapped_bytes: self.mapped_bytes,
            hot: self.hot,
            fragmented: self.fragmented,
            unfair: self.unfair,
            wanted: self.wanted,
            failed: self.failed,
            wanted_bytes: self.wanted_bytes,
            chunks: settled.chunks,
            bytes: settled.bytes,
            cached_bytes: settled.cached_bytes,
            stored_bytes: settled.stored_bytes,
        }
    }
}

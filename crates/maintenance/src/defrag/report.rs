//! Findings, work and results of a run. The defragmenter fills them in; the program shows them.
//!
//! Invariant: numbers only.

use format::defrag::{DefragCounts, DefragRecord, DefragStage, DefragToll};
use fragpicker::REQUEST_WEIGHT;
use store::{Cost, Move, MoveCounts};

/// Cost of a load: its ranges, each weighted by its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// Requests, [`REQUEST_WEIGHT`] each.
    weight: u128,
    /// Weighted number of runs of regions.
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

    /// Subtracts the gain of a move, as if it had been made.
    pub(super) fn moved(&mut self, one: &Move) {
        let less = one.runs.saturating_sub(1);
        let weighed = u128::from(one.weight) * u128::from(less);
        self.runs_weighed = self.runs_weighed.saturating_sub(weighed);
        self.runs = self.runs.saturating_sub(less);
    }

    /// Number of requests.
    pub fn requests(&self) -> f64 {
        self.weight as f64 / REQUEST_WEIGHT as f64
    }

    /// Device reads for these requests, at best.
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
    /// Stage of the run.
    pub stage: DefragStage,
    /// Number of objects.
    pub objects: u64,
    /// Their bytes without holes: what rewriting all of them would write.
    pub mapped_bytes: u64,
    /// The load comes from a trace.
    pub is_traced: bool,
    /// Number of ranges of the load.
    pub ranges: u64,
    /// Ranges that this stage has examined.
    pub ranges_done: u64,
    /// Ranges that are among the hottest.
    pub hot: u64,
    /// Ranges that lie in more pieces than necessary.
    pub fragmented: u64,
    /// Hot ranges that stay, because their move would fragment other owners more than it helps.
    pub unfair: u64,
    /// Ranges to move.
    pub wanted: u64,
    /// Ranges that cannot be read.
    pub failed: u64,
    /// Bytes of the ranges to move, including those of a dry run.
    pub wanted_bytes: u64,
    /// Seconds to the end at the present pace; `None` while unknown.
    pub eta_s: Option<f64>,
    /// Copies.
    pub moved: MoveCounts,
    /// Cost of the load before.
    pub before: Toll,
    /// Cost of the load after.
    pub after: Toll,
}

impl DefragReport {
    /// Restores the report from a record.
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

    /// Returns the counts for a record, with the committed copies.
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

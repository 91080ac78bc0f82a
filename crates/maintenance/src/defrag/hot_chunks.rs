//! When a server copies hot chunks into small regions by itself (decision 47), and the run that
//! does it. The server's thread calls this.
//!
//! ```text
//! reads --> trace --> find: the hottest chunks that random reads fetch in large regions
//!                       | more than the last run left in small ones?
//!                       +--> decide: a pause, the week's allowance, free space, other tasks
//! ```
//!
//! Invariant: [`HotState::decide`] is pure: no I/O, and time is an argument. The same hot chunks
//! begin no second run, and a run that gained nothing is followed by a day without one.

use super::allowance::{bytes_max, carried};
use super::load::{Load, Subject};
use super::{DefragOptions, DefragReport, DefragSource, DefragStage, Defragmenter, Heat};
use format::defrag::{DefragCounts, DefragWish};
use format::phase::TaskPhase;
use media::Room;
use std::collections::BTreeMap;
use std::ops::Range;
use store::{LaneOptions, Result};
use units::UnixNanos;

/// Fewer new bytes are not worth a run,
const NEW_BYTES_MIN: u64 = 256 << 10;
/// nor are fewer than this part of all hot chunks.
const NEW_PART: u64 = 8;
/// Pause after a run,
const PAUSE_NS: i64 = 600 * 1_000_000_000;
/// after one of a server that copied nothing, was cancelled, or used up its allowance.
const LONG_PAUSE_NS: i64 = 86_400 * 1_000_000_000;
const DAYS: u64 = 7;

/// A run for the hot chunks of the trace that has not begun.
pub struct HotChunks {
    /// The run.
    pub run: Defragmenter,
    /// Length of the hot chunks.
    pub all_bytes: u64,
    /// Part of it that the last run did not leave in small regions.
    pub new_bytes: u64,
    /// Size of their objects.
    object_bytes: u64,
}

impl HotChunks {
    /// Finds the hot chunks. `amplified` is from [`DefragSource::amplified`]; `known` are the
    /// ranges that the last run left in small regions. Looks up no chunk.
    pub fn find(
        source: DefragSource,
        amplified: &Heat,
        known: &BTreeMap<u64, Vec<Range<u64>>>,
        weekly_percent: u8,
        lane: LaneOptions,
    ) -> Result<Self> {
        let owners = source.fragmentables()?;
        let there = owners.iter().filter(|one| amplified.contains_key(&one.key));
        let there: Vec<_> = there.map(|one| Subject::of(one.key, &one.root)).collect();
        let of = |objects: &[Subject]| Load::new(objects, Some(Heat::new()), amplified, 0);
        let small = of(&there);
        let is_read = |one: &&Subject| small.small().contains_key(&one.key);
        let objects: Vec<_> = there.iter().filter(is_read).copied().collect();
        let load = of(&objects);
        let (mut all_bytes, mut new_bytes) = (0, 0);
        for (object, ranges) in load.small() {
            let known = known.get(object).map_or(&[][..], Vec::as_slice);
            for range in ranges {
                all_bytes += range.end - range.start;
                new_bytes += range.end - range.start - overlap(range, known);
            }
        }
        let options = DefragOptions {
            hot_percent: 0,
            moves_shared: false,
            rewrites_all: false,
            dry_run: false,
            bytes_per_s: None,
            lane,
        };
        let wish = DefragWish {
            is_traced: true,
            weekly_percent,
            ..DefragWish::default()
        };
        Ok(Self {
            object_bytes: objects.iter().map(|one| one.bytes).sum(),
            run: Defragmenter::of_load(source, owners, load, options, wish),
            all_bytes,
            new_bytes,
        })
    }
}

/// Returns how many bytes of a range are in these, which are ascending and disjoint.
fn overlap(range: &Range<u64>, known: &[Range<u64>]) -> u64 {
    let first = known.partition_point(|one| one.end <= range.start);
    let known = known.iter().skip(first);
    let known = known.take_while(|one| one.start < range.end);
    known
        .map(|one| one.end.min(range.end) - one.start.max(range.start))
        .sum()
}

/// The facts that decide whether a run begins now.
#[derive(Clone, Copy, Debug)]
pub struct HotState<'a> {
    /// The time.
    pub now: UnixNanos,
    /// Percentage of the objects' bytes that a server may copy in a week; 0: it begins no run.
    pub weekly_percent: u8,
    /// The last run, of a user or a server.
    pub last: Option<&'a DefragReport>,
    /// Free space of the disk; `None` if unknown.
    pub room: Option<Room>,
    /// Free bytes below which gc is urgent.
    pub low_bytes: u64,
    /// gc, a scrub or a copy is in progress.
    pub is_other_under_way: bool,
}

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HotDecision {
    /// Begin a run.
    Begin,
    /// Do nothing.
    Wait(HotWait),
}

/// Why no run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HotWait {
    /// The setting says so.
    Off,
    /// A run is in progress, or paused.
    Unfinished,
    /// The last run was a short time ago, or gained nothing: until this time.
    Until(UnixNanos),
    /// Reads show no hot chunks that need it, or few.
    #[default]
    NothingNew,
    /// The week's allowance is used up.
    Spent,
    /// Another task is in progress.
    OtherTask,
    /// Little space is free.
    LittleSpace,
    /// Clients use the device.
    Busy,
}

impl HotState<'_> {
    /// Returns why no run begins, whatever is hot; `None` if one may.
    pub fn wait(&self) -> Option<HotWait> {
        if self.weekly_percent == 0 {
            return Some(HotWait::Off);
        }
        if let Some(last) = self.last {
            if last.phase != TaskPhase::AtRest {
                return Some(HotWait::Unfinished);
            }
            let until = last.ended.0.saturating_add(pause_ns(last));
            // Nothing waits for a clock that was set back.
            if (last.ended.0..until).contains(&self.now.0) {
                return Some(HotWait::Until(UnixNanos(until)));
            }
        }
        if self.is_low(0) {
            return Some(HotWait::LittleSpace);
        }
        self.is_other_under_way.then_some(HotWait::OtherTask)
    }

    /// Returns what to do about these hot chunks.
    pub fn decide(&self, hot: &HotChunks) -> HotDecision {
        HotDecision::Wait(if let Some(wait) = self.wait() {
            wait
        } else if hot.new_bytes < NEW_BYTES_MIN.max(hot.all_bytes / NEW_PART) {
            HotWait::NothingNew
        } else if self.is_spent(hot) {
            HotWait::Spent
        } else if self.is_low(hot.new_bytes) {
            HotWait::LittleSpace
        } else {
            return HotDecision::Begin;
        })
    }

    /// Returns true if less space than gc wants would be free after so many bytes.
    pub fn is_low(&self, bytes: u64) -> bool {
        let low_bytes = self.low_bytes.saturating_add(bytes);
        self.room.is_some_and(|room| room.free_bytes < low_bytes)
    }

    /// Returns true if a run could copy neither all new chunks nor as much as a day forgives. The
    /// objects' size stands for the bytes that a run counts in them.
    fn is_spent(&self, hot: &HotChunks) -> bool {
        let spent = self.last.map(|last| carried(last, self.now));
        let (spent_bytes, spent_at) = spent.unwrap_or_default();
        let run = DefragReport {
            wish: DefragWish {
                weekly_percent: self.weekly_percent,
                ..DefragWish::default()
            },
            began: self.now,
            counts: DefragCounts {
                mapped_bytes: hot.object_bytes,
                ..DefragCounts::default()
            },
            spent_bytes,
            spent_at,
            ..DefragReport::default()
        };
        let daily = hot.object_bytes / 100 * u64::from(self.weekly_percent) / DAYS;
        bytes_max(&run) < hot.new_bytes.min(daily)
    }
}

fn pause_ns(last: &DefragReport) -> i64 {
    let small = &last.counts.small;
    let is_through = last.stage == DefragStage::Done && small.over == 0;
    match last.wish.is_by_server() && (small.bytes == 0 || !is_through) {
        true => LONG_PAUSE_NS,
        false => PAUSE_NS,
    }
}

//! When a server collects space by itself, how urgently, and when it had better wait
//! ([decision 26](../../../docs/decisions/0026-a-pool-that-looks-after-itself.md)).
//!
//! Invariant: pure: no I/O, and the clock is an argument. A run that gave little back makes the next one
//! wait longer, so no state of the pool leads to run after run; writers are asked to wait for room only while
//! the last urgent run gave some. Called by the server's thread, which does the work.

mod growth;
mod remembered;

pub use remembered::{CollectMemory, CollectNote};

use media::Room;

const MIB: u64 = 1 << 20;
/// Containers that are open, of checkpoints, large writes and the collector, bytes.
const OPEN_BYTES: u64 = 64 * MIB;
/// What is left for copies at least, bytes.
const COPY_BYTES: u64 = 64 * MIB;
const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

/// What can be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectLimits {
    /// Less free than this share of the disk is little, percent ...
    pub free_percent: u64,
    /// ... but never more than this, bytes.
    pub free_bytes_max: u64,
    /// More of the pool than this that is perhaps not needed is worth a look, percent.
    pub unused_percent: u64,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self {
            free_percent: 10,
            free_bytes_max: 16 << 30,
            unused_percent: 20,
        }
    }
}

impl CollectLimits {
    /// Writers leave this to the collector and to what is acknowledged already, bytes: the journal may
    /// grow to its size, be folded in once more, containers that are open are closed, and somebody copies. A
    /// quarter of a small disk.
    pub fn reserve_bytes(&self, room: Room, journal_bytes: u64) -> u64 {
        let wanted = journal_bytes.saturating_mul(2);
        let wanted = wanted.saturating_add(OPEN_BYTES + COPY_BYTES);
        wanted.min(room.total_bytes / 4)
    }

    /// With less free than this the collector copies no more, bytes: the journal still needs so much, and
    /// containers that are open.
    pub fn copy_floor_bytes(&self, room: Room, journal_to_grow: u64) -> u64 {
        let wanted = journal_to_grow.saturating_add(OPEN_BYTES);
        wanted.min(room.total_bytes / 8)
    }

    /// With less free than this, collecting is urgent, bytes.
    pub fn low_bytes(&self, room: Room, journal_bytes: u64) -> u64 {
        let share = u128::from(room.total_bytes) * u128::from(self.free_percent) / 100;
        let set = u64::try_from(share).map_or(self.free_bytes_max, |b| b.min(self.free_bytes_max));
        // It has to begin before writers have to wait.
        let reserve = self.reserve_bytes(room, journal_bytes);
        set.max(reserve + reserve / 2)
    }
}

/// How urgent a run is, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// In the time that nobody else wants, and at its floor.
    WhenIdle,
    /// Little is free: it gets as much of the device as maintenance may have.
    Low,
    /// Writers are about to wait.
    Full,
}

impl Urgency {
    /// How long containers that were given up stay for processes that read the pool by themselves,
    /// seconds.
    pub fn reader_period_s(self) -> u64 {
        match self {
            Self::WhenIdle => DAY_S,
            Self::Low => HOUR_S,
            Self::Full => 0,
        }
    }
}

/// A pool and its disk at one moment.
#[derive(Clone, Copy, Debug)]
pub struct PoolSpace {
    /// The time, seconds since 1970.
    pub now_s: u64,
    /// Of the disk; `None`: nobody knows.
    pub room: Option<Room>,
    /// Size that the journal may grow to.
    pub journal_bytes: u64,
    /// Bytes of all containers, those in the trash included.
    pub stored_bytes: u64,
    /// When the trash, of what is in it, came by the oldest container; `None`: it holds none.
    pub trashed_s: Option<u64>,
    /// Bytes of containers that have been in the trash for a day.
    pub trash_over_bytes: u64,
    /// When the first of the snapshots in the trash can be purged; `None`: it holds none.
    pub purge_s: Option<u64>,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CollectRun {
    /// When, seconds since 1970.
    pub ended_s: u64,
    /// As what it was begun.
    pub urgency: Urgency,
    /// It came to its end by itself.
    pub is_complete: bool,
    /// Bytes of containers that it deleted or put into the trash.
    pub gained_bytes: u64,
    /// Bytes of all containers then.
    pub stored_bytes: u64,
}

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectDecision {
    /// Collect.
    Begin(Urgency),
    /// Do nothing.
    Wait(NextCollect),
}

/// When the next run is due, whichever comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextCollect {
    /// When it is this late, seconds since 1970; `None`: not for its time alone.
    pub at_s: Option<u64>,
    /// When so much is stored, bytes.
    pub stored_bytes: u64,
    /// When less is free than this, bytes.
    pub free_bytes: u64,
}

/// Between two runs that nobody is in a hurry for, at least.
const PAUSE_S: u64 = 600;
/// Between urgent runs of which the last one gave little, at least; twice as long after each.
const IN_VAIN_S: u64 = 60;
/// ... up to this often doubled.
const DOUBLINGS_MAX: u32 = 6;
/// Less that is perhaps not needed is not worth looking for, bytes.
const UNUSED_BYTES_MIN: u64 = 64 * MIB;
/// Of what is little, a pool that stores less than this part does not fill the disk.
const FILLS_PART: u64 = 8;
/// A run that gave back less than this part of what is stored was in vain.
const LITTLE_PART: u64 = 64;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct CollectSchedule {
    limits: CollectLimits,
    /// When a server began to look after the pool.
    since_s: u64,
    last: Option<CollectRun>,
    /// Runs since one gave something, of each urgency.
    in_vain: [u32; 3],
}

impl CollectSchedule {
    /// Of a pool that a server looks after since then; `last` is what is known of runs before.
    pub fn new(limits: CollectLimits, since_s: u64, last: Option<CollectRun>) -> Self {
        let mut schedule = Self {
            limits,
            since_s,
            last: None,
            in_vain: [0; 3],
        };
        if let Some(run) = last {
            schedule.ended(run);
        }
        schedule
    }

    /// Other limits from now on.
    pub fn set(&mut self, limits: CollectLimits) {
        self.limits = limits;
    }

    /// It is so late. What is remembered of a later time was written by a clock that was wrong, or this one is: it
    /// counts as if it had been now, and no run as one in vain.
    pub fn see(&mut self, now_s: u64) {
        self.since_s = self.since_s.min(now_s);
        if let Some(last) = self.last.as_mut().filter(|last| last.ended_s > now_s) {
            last.ended_s = now_s;
            self.in_vain = [0; 3];
        }
    }

    /// A run has ended, whoever began it.
    pub fn ended(&mut self, run: CollectRun) {
        let before = self.last.replace(run).map_or(0, |last| last.stored_bytes);
        if !run.is_complete {
            // What it saw of the pool says nothing.
            self.last = Some(CollectRun {
                stored_bytes: before,
                ..run
            });
        }
        let all = run.stored_bytes.max(run.gained_bytes);
        let enough = match run.urgency {
            Urgency::WhenIdle => self.unused(all) / 4,
            Urgency::Low | Urgency::Full => all / LITTLE_PART,
        };
        if run.is_complete && run.gained_bytes > 0 && run.gained_bytes >= enough {
            self.in_vain = [0; 3];
        } else {
            let count = &mut self.in_vain[run.urgency as usize];
            *count = count.saturating_add(1);
        }
    }

    /// What to do.
    pub fn decide(&self, space: &PoolSpace) -> CollectDecision {
        if let Some(urgency) = self.pressure(space) {
            return self.decide_urgent(space, urgency);
        }
        self.decide_idle(space)
    }

    /// So much is to stay free of writers, bytes: 0 when waiting would not help them.
    pub fn keep_free_bytes(&self, space: &PoolSpace) -> u64 {
        match space.room {
            Some(room) if self.in_vain[Urgency::Full as usize] == 0 && self.fills(space) => {
                self.limits.reserve_bytes(room, space.journal_bytes)
            }
            _ => 0,
        }
    }

    /// How urgent it would be to collect now, by what is free; `None`: not urgent.
    pub fn pressure(&self, space: &PoolSpace) -> Option<Urgency> {
        let room = space.room.filter(|_| self.fills(space))?;
        let limits = &self.limits;
        if room.free_bytes < limits.reserve_bytes(room, space.journal_bytes) {
            return Some(Urgency::Full);
        }
        (room.free_bytes < limits.low_bytes(room, space.journal_bytes)).then_some(Urgency::Low)
    }

    fn decide_urgent(&self, space: &PoolSpace, urgency: Urgency) -> CollectDecision {
        let in_vain = self.in_vain[urgency as usize];
        let (Some(last), 1..) = (self.last, in_vain) else {
            return CollectDecision::Begin(urgency);
        };
        let doublings = (in_vain - 1).min(DOUBLINGS_MAX);
        let at_s = last.ended_s.saturating_add(IN_VAIN_S << doublings);
        // What was written since may have overwritten something.
        let low = self.low(space);
        let grown = last.stored_bytes.saturating_add((low / 8) << doublings);
        if is_past(space.now_s, at_s, last.ended_s) || space.stored_bytes >= grown {
            return CollectDecision::Begin(urgency);
        }
        CollectDecision::Wait(NextCollect {
            at_s: Some(at_s),
            stored_bytes: grown,
            free_bytes: 0,
        })
    }

    fn decide_idle(&self, space: &PoolSpace) -> CollectDecision {
        let in_vain = self.in_vain[Urgency::WhenIdle as usize];
        let doublings = in_vain.min(DOUBLINGS_MAX);
        let (ended_s, known) = match self.last {
            Some(last) => (last.ended_s, last.stored_bytes),
            None => (self.since_s, 0),
        };
        let ended_s = ended_s.min(space.now_s);
        let may_s = ended_s.saturating_add(PAUSE_S << doublings);
        // Times that are over: once a day.
        let a_day_later = self.last.map_or(0, |last| {
            last.ended_s.min(space.now_s).saturating_add(DAY_S)
        });
        let over = |since_s: u64| since_s.max(a_day_later).max(may_s);
        let trash_s = space.trashed_s.map(|s| over(s.saturating_add(DAY_S)));
        let purge_s = space.purge_s.map(over);
        let at_s = trash_s.into_iter().chain(purge_s).min();
        let wanted = self.unused(space.stored_bytes) << doublings.min(3);
        let grown = known.saturating_add(wanted.saturating_sub(space.trash_over_bytes));
        let is_time = at_s.is_some_and(|at| space.now_s >= at);
        if space.now_s >= may_s && (is_time || space.stored_bytes >= grown) {
            return CollectDecision::Begin(Urgency::WhenIdle);
        }
        CollectDecision::Wait(NextCollect {
            at_s: match space.stored_bytes >= grown {
                true => Some(may_s),
                false => at_s,
            },
            stored_bytes: grown,
            free_bytes: self.low(space),
        })
    }

    /// Bytes of what is stored that may be there in vain.
    fn unused(&self, stored_bytes: u64) -> u64 {
        let share = u128::from(stored_bytes) * u128::from(self.limits.unused_percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        share.max(UNUSED_BYTES_MIN)
    }

    /// False when others fill the disk: nothing that the pool could give back would help.
    fn fills(&self, space: &PoolSpace) -> bool {
        space.stored_bytes >= self.low(space) / FILLS_PART
    }

    fn low(&self, space: &PoolSpace) -> u64 {
        let low = |room| self.limits.low_bytes(room, space.journal_bytes);
        space.room.map_or(0, low)
    }
}

/// A clock that was set back keeps nobody waiting.
fn is_past(now_s: u64, at_s: u64, began_s: u64) -> bool {
    now_s >= at_s || now_s < began_s
}

/// When a scrub begins by itself: when what was verified first in the last full pass was verified so long
/// ago, or nothing ever was and the pool is as old. A time that is not here yet was written by a clock that was ahead: it
/// says nothing. 0: never by itself. Times are seconds since 1970.
pub fn scrub_due_s(
    now_s: u64,
    began_last_s: Option<u64>,
    created_s: u64,
    within_s: u64,
) -> Option<u64> {
    let mut known = began_last_s.into_iter().chain([created_s]);
    let since_s = known.find(|at| *at <= now_s).unwrap_or(0);
    (within_s > 0).then(|| since_s.saturating_add(within_s))
}

#[cfg(test)]
mod tests;

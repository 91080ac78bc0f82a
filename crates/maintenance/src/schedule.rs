//! Decides when a server starts gc by itself, how urgently, and when it should wait ([decision
//! 26](../../../docs/decisions/0026-a-pool-that-looks-after-itself.md)). The server's thread calls
//! this and does the work.
//!
//! ```text
//! free space --> pressure? --yes--> urgent run, unless the last ones freed little
//!                   | no
//!                   +--> trash or growth due? --> run when idle, else wait
//! ```
//!
//! Invariant: pure: no I/O, and the clock is an argument. A run that freed little makes the next
//! one wait longer, so no state of the pool leads to run after run. Writers wait for free space
//! only while the last urgent run freed some.

mod growth;
mod remembered;

pub use format::collect::{CollectNote, Urgency};
pub use remembered::CollectMemory;

use media::Room;

const MIB: u64 = 1 << 20;
/// Open containers of checkpoints, large writes and gc, bytes.
const OPEN_BYTES: u64 = 64 * MIB;
/// Minimum space for copies, bytes.
const COPY_BYTES: u64 = 64 * MIB;
const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

/// Settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectLimits {
    /// Free space below this percentage of the disk is low,
    pub free_percent: u64,
    /// but only below this many bytes.
    pub free_bytes_max: u64,
    /// Percentage of the pool that may be garbage before an idle run starts.
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
    /// Returns the bytes that writers leave to gc and to acknowledged writes: the journal may grow
    /// to its maximum, be checkpointed once more, open containers are closed, and gc copies. At
    /// most a quarter of a small disk.
    pub fn reserve_bytes(&self, room: Room, journal_bytes: u64) -> u64 {
        let wanted = journal_bytes.saturating_mul(2);
        let wanted = wanted.saturating_add(OPEN_BYTES + COPY_BYTES);
        wanted.min(room.total_bytes / 4)
    }

    /// Returns the free bytes below which gc copies no more: the journal and open containers still
    /// need them.
    pub fn copy_floor_bytes(&self, room: Room, journal_to_grow: u64) -> u64 {
        let wanted = journal_to_grow.saturating_add(OPEN_BYTES);
        wanted.min(room.total_bytes / 8)
    }

    /// Returns the free bytes below which gc is urgent.
    pub fn low_bytes(&self, room: Room, journal_bytes: u64) -> u64 {
        let share = u128::from(room.total_bytes) * u128::from(self.free_percent) / 100;
        let set = u64::try_from(share).map_or(self.free_bytes_max, |b| b.min(self.free_bytes_max));
        // It must begin before writers have to wait.
        let reserve = self.reserve_bytes(room, journal_bytes);
        set.max(reserve + reserve / 2)
    }
}

/// State of a pool and its disk at one moment.
#[derive(Clone, Copy, Debug)]
pub struct PoolSpace {
    /// The time, seconds since 1970.
    pub now_s: u64,
    /// Free space of the disk; `None` if unknown.
    pub room: Option<Room>,
    /// Maximum size of the journal.
    pub journal_bytes: u64,
    /// Bytes of all containers, including the trash.
    pub stored_bytes: u64,
    /// Time at which the oldest container of the trash came there; `None` if the trash is empty.
    pub trashed_s: Option<u64>,
    /// Bytes of containers that have been in the trash for a day.
    pub trash_over_bytes: u64,
    /// Time from which the first snapshot in the trash can be purged; `None` if there is none.
    pub purge_s: Option<u64>,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CollectRun {
    /// End, seconds since 1970.
    pub ended_s: u64,
    /// Urgency at its begin.
    pub urgency: Urgency,
    /// It was not interrupted.
    pub is_complete: bool,
    /// Bytes of containers that it deleted or moved to the trash.
    pub gained_bytes: u64,
    /// Bytes of all containers at its end.
    pub stored_bytes: u64,
}

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectDecision {
    /// Begin a run.
    Begin(Urgency),
    /// Do nothing.
    Wait(NextCollect),
}

/// The events of which the first makes the next run due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextCollect {
    /// Time, seconds since 1970; `None`: time alone does not make a run due.
    pub at_s: Option<u64>,
    /// Stored bytes at or above this.
    pub stored_bytes: u64,
    /// Free bytes below this.
    pub free_bytes: u64,
}

/// Minimum pause between two idle runs.
const PAUSE_S: u64 = 600;
/// Minimum pause after an urgent run that freed little; doubles after each.
const NO_EFFECT_PAUSE_S: u64 = 60;
/// Maximum number of doublings.
const DOUBLINGS_MAX: u32 = 6;
/// Less garbage than this is not worth a search, bytes.
const UNUSED_BYTES_MIN: u64 = 64 * MIB;
/// A pool that stores less than this part of the low-space limit does not fill the disk.
const FILLS_PART: u64 = 8;
/// A run that freed less than this part of the stored bytes was without effect.
const LITTLE_PART: u64 = 64;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct CollectSchedule {
    limits: CollectLimits,
    /// Time at which a server first managed the pool.
    since_s: u64,
    last: Option<CollectRun>,
    /// Runs without effect since the last effective one, by urgency.
    without_effect: [u32; 3],
}

impl CollectSchedule {
    /// Creates the schedule of a pool that a server has managed since `since_s`. `last`: the last
    /// run, if known.
    pub fn new(limits: CollectLimits, since_s: u64, last: Option<CollectRun>) -> Self {
        let mut schedule = Self {
            limits,
            since_s,
            last: None,
            without_effect: [0; 3],
        };
        if let Some(run) = last {
            schedule.ended(run);
        }
        schedule
    }

    /// Changes the limits.
    pub fn set(&mut self, limits: CollectLimits) {
        self.limits = limits;
    }

    /// Advances the time. If a remembered time is in the future, either clock was wrong: the event
    /// counts as if it had happened now, and no run counts as without effect.
    pub fn see(&mut self, now_s: u64) {
        self.since_s = self.since_s.min(now_s);
        if let Some(last) = self.last.as_mut().filter(|last| last.ended_s > now_s) {
            last.ended_s = now_s;
            self.without_effect = [0; 3];
        }
    }

    /// Records a run that has ended, of the server or of a command.
    pub fn ended(&mut self, run: CollectRun) {
        let last = self.last.replace(run);
        let before = last.map_or(0, |last| last.stored_bytes);
        if !run.is_complete {
            // An interrupted run says nothing about the pool.
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
        // An urgent run that failed may have freed something before. The first one that fails after
        // an effective run is tried again at once: writers wait for it.
        let is_urgent = run.urgency > Urgency::WhenIdle;
        let gave = run.gained_bytes > 0 && run.gained_bytes >= enough;
        let was_effective = last.is_some_and(|l| l.is_complete) && self.without_effect == [0; 3];
        if gave && (run.is_complete || is_urgent) {
            self.without_effect = [0; 3];
        } else if run.is_complete || !is_urgent || !was_effective {
            let count = &mut self.without_effect[run.urgency as usize];
            *count = count.saturating_add(1);
        }
    }

    /// Returns the next action.
    pub fn decide(&self, space: &PoolSpace) -> CollectDecision {
        if let Some(urgency) = self.pressure(space) {
            return self.decide_urgent(space, urgency);
        }
        self.decide_idle(space)
    }

    /// Returns the bytes that writers must leave free; 0 if waiting would not help them.
    pub fn keep_free_bytes(&self, space: &PoolSpace) -> u64 {
        match space.room {
            Some(room) if self.without_effect[Urgency::Full as usize] == 0 && self.fills(space) => {
                self.limits.reserve_bytes(room, space.journal_bytes)
            }
            _ => 0,
        }
    }

    /// Returns the urgency by free space alone; `None` if gc is not urgent.
    pub fn pressure(&self, space: &PoolSpace) -> Option<Urgency> {
        let room = space.room.filter(|_| self.fills(space))?;
        let limits = &self.limits;
        if room.free_bytes < limits.reserve_bytes(room, space.journal_bytes) {
            return Some(Urgency::Full);
        }
        (room.free_bytes < limits.low_bytes(room, space.journal_bytes)).then_some(Urgency::Low)
    }

    fn decide_urgent(&self, space: &PoolSpace, urgency: Urgency) -> CollectDecision {
        let without_effect = self.without_effect[urgency as usize];
        let (Some(last), 1..) = (self.last, without_effect) else {
            return CollectDecision::Begin(urgency);
        };
        let doublings = (without_effect - 1).min(DOUBLINGS_MAX);
        let at_s = last.ended_s.saturating_add(NO_EFFECT_PAUSE_S << doublings);
        // Writes since then may have overwritten something.
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
        let without_effect = self.without_effect[Urgency::WhenIdle as usize];
        let doublings = without_effect.min(DOUBLINGS_MAX);
        let (ended_s, known) = match self.last {
            Some(last) => (last.ended_s, last.stored_bytes),
            None => (self.since_s, 0),
        };
        let ended_s = ended_s.min(space.now_s);
        let may_s = ended_s.saturating_add(PAUSE_S << doublings);
        // Overdue times start a run at most once a day.
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

    /// Returns the bytes that may be garbage before a search is worthwhile.
    fn unused(&self, stored_bytes: u64) -> u64 {
        let share = u128::from(stored_bytes) * u128::from(self.limits.unused_percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        share.max(UNUSED_BYTES_MIN)
    }

    /// Returns false if other files fill the disk, so that gc of the pool would not help.
    fn fills(&self, space: &PoolSpace) -> bool {
        space.stored_bytes >= self.low(space) / FILLS_PART
    }

    fn low(&self, space: &PoolSpace) -> u64 {
        let low = |room| self.limits.low_bytes(room, space.journal_bytes);
        space.room.map_or(0, low)
    }
}

/// Returns true if the time has come, or the clock was set back: nothing waits for a clock.
fn is_past(now_s: u64, at_s: u64, began_s: u64) -> bool {
    now_s >= at_s || now_s < began_s
}

/// Returns when a scrub is due by itself, seconds since 1970: `within_s` after the begin of the
/// last complete pass, or after the pool's creation if there was none. A time in the future came
/// from a wrong clock and is ignored. `within_s` 0: never.
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

//! Knows the tasks of one session that have not ended: which wait, which have begun, and in which
//! order they may begin (SAM-5, 8.6). Sessions and their workers enter tasks, units abort those of
//! other sessions.
//!
//! Invariant: an aborted task never begins; one that has begun looks between its pieces whether it
//! is aborted, and ends. A task begins only after the older ones that its
//! attribute, or theirs, puts before it have ended. A task counts as ended when its blocks and the
//! state of the unit change no more; its answer may still be on its way. So an initiator that takes
//! no answers delays no abort.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// Place of a task in the order of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// In any order with others of this attribute.
    #[default]
    Simple,
    /// After all older tasks, and before all younger ones.
    Ordered,
    /// At once, and before all younger ones.
    HeadOfQueue,
}

impl Attribute {
    /// Decodes the attribute of a SCSI Command (RFC 7143, 11.3.1).
    pub(crate) fn decode(flags: u8) -> Self {
        match flags & 0x07 {
            2 => Self::Ordered,
            3 => Self::HeadOfQueue,
            _ => Self::Simple,
        }
    }

    fn is_barrier(self) -> bool {
        self != Self::Simple
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its data has not arrived, or no thread has taken it yet.
    Waiting,
    Running,
    /// It was aborted after it began, or after a thread took it.
    Stopping {
        is_answered: bool,
    },
    /// Another session has aborted it before it began.
    Aborted,
}

/// Facts of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Its tag, as the initiator named it.
    pub(crate) tag: u32,
    /// Number of its unit.
    pub(crate) unit: u8,
    pub(crate) attribute: Attribute,
    /// An abort waits for it. PREEMPT AND ABORT changes no blocks and waits for others itself: two
    /// that wait for each other would never end.
    pub(crate) is_awaited: bool,
}

struct Entry {
    facts: Facts,
    phase: Phase,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    entries: BTreeMap<u64, Entry>,
}

impl Tasks {
    /// Returns true if no older task keeps the one with this identifier from beginning.
    fn may_begin(&self, id: u64, facts: Facts) -> bool {
        let mut older = self.entries.range(..id).map(|(_, entry)| entry);
        !older.any(|entry| {
            entry.phase != Phase::Aborted
                && entry.facts.unit == facts.unit
                && match facts.attribute {
                    Attribute::Simple => entry.facts.attribute.is_barrier(),
                    Attribute::Ordered => true,
                    Attribute::HeadOfQueue => false,
                }
        })
    }
}

/// The tasks of one session.
#[derive(Default)]
pub(crate) struct TaskSet {
    tasks: Mutex<Tasks>,
    /// Signalled when a task that has begun ends.
    ended: Condvar,
    /// Number of tasks that are no simple ones. Without one, all may begin.
    barriers: AtomicUsize,
    /// Held while the connection's thread executes a command itself.
    at_once: Mutex<()>,
    /// Wakes the workers when tasks may begin that could not before.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for TaskSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks", self.tasks.lock().entries.len())
    }
}

impl TaskSet {
    /// Sets what wakes the workers. It is called without locks of this set.
    pub(crate) fn wake_with(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }

    /// Enters a task that does not end at once.
    pub(crate) fn enter(self: &Arc<Self>, facts: Facts) -> Ticket {
        let mut tasks = self.tasks.lock();
        let id = tasks.next;
        tasks.next += 1;
        if facts.attribute.is_barrier() {
            self.barriers.fetch_add(1, SeqCst);
        }
        let phase = Phase::Waiting;
        tasks.entries.insert(id, Entry { facts, phase });
        Ticket {
            set: self.clone(),
            id,
            facts,
        }
    }

    /// Returns true if a task with this tag has not ended.
    pub(crate) fn contains(&self, tag: u32) -> bool {
        let tasks = self.tasks.lock();
        tasks.entries.values().any(|entry| entry.facts.tag == tag)
    }

    /// Returns true if a task that is not entered may begin.
    pub(crate) fn may_begin(&self, unit: u8, attribute: Attribute) -> bool {
        if self.barriers.load(SeqCst) == 0 && attribute == Attribute::Simple {
            return true;
        }
        let facts = Facts {
            tag: 0,
            unit,
            attribute,
            is_awaited: true,
        };
        self.tasks.lock().may_begin(u64::MAX, facts)
    }

    /// Marks that this thread executes a command itself, until the guard is dropped. Reservations
    /// must be checked after this.
    pub(crate) fn at_once(&self) -> MutexGuard<'_, ()> {
        self.at_once.lock()
    }

    /// Aborts tasks for their own session, which gets no answer of them. Returns their number. They
    /// may still run.
    pub(crate) fn stop(&self, is_meant: impl Fn(&Facts) -> bool) -> usize {
        let mut tasks = self.tasks.lock();
        let meant = tasks.entries.values_mut().filter(|e| is_meant(&e.facts));
        let is_answered = false;
        meant
            .map(|entry| entry.phase = Phase::Stopping { is_answered })
            .count()
    }

    /// Aborts the tasks that have begun, for the end of their session.
    pub(crate) fn stop_running(&self) {
        let mut tasks = self.tasks.lock();
        let entries = tasks.entries.values_mut();
        for entry in entries.filter(|entry| entry.phase == Phase::Running) {
            entry.phase = Phase::Stopping { is_answered: true };
        }
    }

    /// Counts the tasks that have begun and are to end.
    #[cfg(test)]
    pub(crate) fn stopping(&self) -> usize {
        let tasks = self.tasks.lock();
        let phases = tasks.entries.values().map(|entry| entry.phase);
        phases
            .filter(|phase| matches!(phase, Phase::Stopping { .. }))
            .count()
    }

    /// Aborts the tasks of a unit for another session: those that have not begun never begin, and
    /// those that have begun have ended when this returns.
    pub(crate) fn abort(&self, unit: u8) {
        let mut tasks = self.tasks.lock();
        let mut begun = Vec::new();
        for (id, entry) in &mut tasks.entries {
            if entry.facts.unit != unit {
                continue;
            }
            match entry.phase {
                Phase::Waiting => entry.phase = Phase::Aborted,
                Phase::Running if entry.facts.is_awaited => {
                    entry.phase = Phase::Stopping { is_answered: true };
                    begun.push(*id);
                }
                Phase::Stopping { .. } if entry.facts.is_awaited => begun.push(*id),
                Phase::Running | Phase::Stopping { .. } | Phase::Aborted => {}
            }
        }
        // Only these: tasks that begin from now on see the reservations of the one that aborts.
        while begun.iter().any(|id| tasks.entries.contains_key(id)) {
            self.ended.wait(&mut tasks);
        }
        drop(tasks);
        drop(self.at_once.lock());
        self.wake();
    }
}

/// The place of a task in its set, until it has ended.
pub(crate) struct Ticket {
    set: Arc<TaskSet>,
    id: u64,
    facts: Facts,
}

impl Ticket {
    /// Returns true if the task may begin, or was aborted and must be answered.
    pub(crate) fn is_ready(&self) -> bool {
        let is_free = self.set.barriers.load(SeqCst) == 0;
        if is_free && self.facts.attribute == Attribute::Simple {
            return true;
        }
        let tasks = self.set.tasks.lock();
        let phase = tasks.entries.get(&self.id).map(|entry| entry.phase);
        phase == Some(Phase::Aborted) || tasks.may_begin(self.id, self.facts)
    }

    /// Returns true if another session has aborted the task.
    pub(crate) fn is_aborted(&self) -> bool {
        let tasks = self.set.tasks.lock();
        let entry = tasks.entries.get(&self.id);
        entry.is_some_and(|entry| entry.phase == Phase::Aborted)
    }

    /// Returns true if the task must not begin any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_aborted() || self.is_stopping()
    }

    /// Begins the task. Returns false if it is aborted. Reservations must be checked after this.
    #[must_use]
    pub(crate) fn begin(&self) -> bool {
        let mut tasks = self.set.tasks.lock();
        match tasks.entries.get_mut(&self.id) {
            Some(entry) if matches!(entry.phase, Phase::Waiting | Phase::Running) => {
                entry.phase = Phase::Running;
                true
            }
            _ => false,
        }
    }

    /// Returns true if the task has begun and is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        let tasks = self.set.tasks.lock();
        let phase = tasks.entries.get(&self.id).map(|entry| entry.phase);
        matches!(phase, Some(Phase::Stopping { .. }))
    }

    /// Ends the task. Returns false if its session does not want an answer.
    pub(crate) fn end(self) -> bool {
        let entry = self.set.tasks.lock().entries.remove(&self.id);
        let phase = entry.map(|entry| entry.phase);
        phase != Some(Phase::Stopping { is_answered: false })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut tasks = self.set.tasks.lock();
        let was_barred = self.set.barriers.load(SeqCst) > 0;
        tasks.entries.remove(&self.id);
        if self.facts.attribute.is_barrier() {
            self.set.barriers.fetch_sub(1, SeqCst);
        }
        drop(tasks);
        self.set.ended.notify_all();
        if was_barred {
            self.set.wake();
        }
    }
}

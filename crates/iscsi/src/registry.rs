//! Knows the sessions and the logical units that they share, of all servers of a program. Sessions
//! register here; a server closes them through it.
//!
//! Invariant: all sessions of a target share its units, so reservations hold between them. An
//! initiator port has one session with a target: a new one ends the old one first. Of a unit
//! without sessions only reservations and modes are kept, not the volume. A session never uses an
//! older disk than one that was opened before it: when the disk of a name is another one, the
//! sessions of the old one end.

use crate::login::Names;
use crate::replies::{Format, Numbering, Replies};
use crate::scsi::reservations::Nexus;
use crate::scsi::unit::{Properties, Remembered, Unit};
use crate::sender::{BUSY_LIMIT, Notice, Sender};
use crate::targets::{Credentials, TargetAccess, TargetUnit, UNITS_MAX};
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, response};
use connections::Connection;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Asynchronous event: the target requests a logout.
const REQUESTS_LOGOUT: u8 = 1;

/// The logical units of several servers, and their sessions. Servers that offer the same disks must
/// share them: else reservations, modes and COMPARE AND WRITE hold for one socket only.
#[derive(Clone, Default)]
pub struct SharedUnits(pub(crate) Arc<Registry>);

impl fmt::Debug for SharedUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedUnits")
    }
}

/// Sessions that a call means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// Those of a target, of all servers.
    Target(&'a str),
    /// Those whose login is confirmed.
    Confirmed(&'a str),
    /// Those of a server.
    Server(u64),
}

impl Scope<'_> {
    fn has(self, session: &Entry) -> bool {
        match self {
            Self::Target(target) => session.names.target.as_deref() == Some(target),
            Self::Confirmed(target) => {
                Self::Target(target).has(session) && session.sender.is_confirmed()
            }
            Self::Server(server) => session.server == server,
        }
    }
}

/// A session whose initiator has proved who it is. It is entered before its login is confirmed.
pub(crate) struct Entry {
    pub(crate) names: Names,
    /// The user that the initiator has proved to be, if it had to.
    pub(crate) proof: Option<Credentials>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) format: Format,
    /// Number of its server.
    pub(crate) server: u64,
}

impl Entry {
    /// Returns true if its initiator may use a target with these conditions, as it has logged in.
    pub(crate) fn is_of(&self, access: &TargetAccess) -> bool {
        access.admits_proof(&self.names.initiator, self.proof.as_ref())
    }
}

#[derive(Default)]
struct RegistryState {
    units: BTreeMap<(String, u8), Arc<Unit>>,
    /// State of units without sessions.
    remembered: BTreeMap<(String, u8), Remembered>,
    sessions: HashMap<u64, Arc<Entry>>,
}

/// The sessions and units of a server.
#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<RegistryState>,
    numbers: AtomicU64,
    /// Held while a target is opened and its units are attached.
    opening: Mutex<()>,
    /// Signalled when a session ends.
    ended: Condvar,
}

impl Registry {
    /// Returns a number that no other server or session has.
    pub(crate) fn fresh_number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// Registers a session, after it has ended the one that the same initiator port has with the
    /// same target. Returns false if that did not end in time.
    ///
    /// The login must be confirmed after this. Else of two logins of one port, the older could
    /// enter last, and end the newer.
    pub(crate) fn enter(&self, number: u64, entry: Entry, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let names = &entry.names;
        let is_same = |s: &&Arc<Entry>| s.names.target.is_some() && s.names == *names;
        let mut state = self.state.lock();
        while let Some(old) = state.sessions.values().find(is_same) {
            old.connection.drop_now();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut state, left);
        }
        state.sessions.insert(number, Arc::new(entry));
        true
    }

    /// Removes a session. Before that it lets go of volumes that no session uses any more.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        let all = std::mem::take(&mut state.units);
        let (used, unused): (BTreeMap<_, _>, _) = all.into_iter().partition(|(_, u)| u.is_used());
        state.units = used;
        for (place, unit) in &unused {
            if let Some(remembered) = unit.remember() {
                state.remembered.insert(place.clone(), remembered);
            }
        }
        drop(state);
        // Not under the lock: volumes may have to let go of their snapshots.
        drop(unused);
        self.state.lock().sessions.remove(&number);
        self.ended.notify_all();
    }

    /// Opens a target, and attaches a session to its units, which its sessions share. One at a
    /// time: else a session could bring back a disk that was opened before another one.
    pub(crate) fn attach<E>(
        &self,
        nexus: &Nexus,
        target: &str,
        properties: Properties,
        open: impl FnOnce() -> Result<Vec<TargetUnit>, E>,
    ) -> Result<Vec<(u8, Arc<Unit>)>, E> {
        let _opening = self.opening.lock();
        let units = open()?;
        // Not under the lock. Of a unit that is or was there, they are not used: it knows better.
        let kept = units.iter().map(|unit| {
            let keeper = unit.reservations.as_ref();
            keeper.map_or(Ok(None), |keeper| keeper.kept())
        });
        let kept: Vec<_> = kept.collect();
        let mut replaced = Vec::new();
        let mut state = self.state.lock();
        let units = units.into_iter().zip(kept).take(UNITS_MAX);
        let shared = units.map(|(unit, kept)| {
            let (number, place) = (unit.number, (target.to_owned(), unit.number));
            let present = state.units.get(&place);
            let shared = match present.filter(|u| u.is(unit.identity.as_deref())) {
                Some(shared) => shared.clone(),
                None => {
                    let made = Arc::new(Unit::new(target, unit, properties));
                    made.restore(kept);
                    if let Some(remembered) = state.remembered.remove(&place) {
                        made.take_back(remembered);
                    }
                    replaced.extend(state.units.insert(place, made.clone()));
                    made
                }
            };
            // Under the lock: another session that ends must not forget the unit meanwhile.
            shared.attach(nexus);
            (number, shared)
        });
        let shared = shared.collect();
        let is_of_target = |s: &&Arc<Entry>| Scope::Target(target).has(s);
        let others = state.sessions.iter().filter(|(n, _)| **n != nexus.number);
        let others = others.map(|(_, session)| session).filter(is_of_target);
        if !replaced.is_empty() {
            others.for_each(|session| session.connection.drop_now());
        }
        drop(state);
        replaced.iter().for_each(|unit| unit.close());
        Ok(shared)
    }

    /// Counts the sessions that a server has with a target.
    pub(crate) fn count(&self, target: &str, server: u64) -> usize {
        let state = self.state.lock();
        let sessions = state.sessions.values();
        let both = [Scope::Target(target), Scope::Server(server)];
        sessions
            .filter(|s| both.iter().all(|scope| scope.has(s)))
            .count()
    }

    /// Counts the tasks of a target that have begun and are to end.
    #[cfg(test)]
    pub(crate) fn stopping(&self, target: &str) -> usize {
        let state = self.state.lock();
        let units = state.units.iter().filter(|((name, _), _)| name == target);
        units.map(|(_, unit)| unit.stopping()).sum()
    }

    fn chosen(&self, scope: Scope<'_>) -> Vec<Arc<Entry>> {
        let state = self.state.lock();
        let sessions = state.sessions.values();
        sessions.filter(|s| scope.has(s)).cloned().collect()
    }

    /// Asks initiators to log out within `limit`. Returns their number. Sessions whose login is not
    /// confirmed yet end without it.
    pub(crate) fn ask_to_leave(&self, scope: Scope<'_>, limit: Duration) -> usize {
        let sessions = self.chosen(scope);
        let header = PduHeader::new(response::ASYNC, FINAL)
            .with_tag(NO_TAG)
            .with_u32::<20>(NO_TAG)
            .with_u8::<36>(REQUESTS_LOGOUT)
            .with_u16::<42>(limit.as_secs().clamp(1, 3600) as u16);
        let until = Instant::now() + BUSY_LIMIT;
        for session in &sessions {
            let mut message = Replies::new(0, session.format);
            message.push(header, Numbering::Takes, &[]);
            if session.sender.send_now(&mut message, until) == Notice::TooEarly {
                // It has executed nothing, and never will.
                session.connection.drop_now();
            }
        }
        sessions.len()
    }

    /// Ends sessions now.
    pub(crate) fn drop_now(&self, scope: Scope<'_>) {
        for session in self.chosen(scope) {
            session.connection.drop_now();
        }
    }

    /// Ends those that are meant of some sessions, and returns them when they have ended, but not
    /// later than after `limit`. `is_meant` is not called under a lock.
    pub(crate) fn end(
        &self,
        scope: Scope<'_>,
        is_meant: impl Fn(&Entry) -> bool,
        limit: Duration,
    ) -> Vec<Arc<Entry>> {
        let mut meant = self.chosen(scope);
        meant.retain(|session| is_meant(session));
        meant.iter().for_each(|s| s.connection.drop_now());
        let until = Instant::now() + limit;
        let mut state = self.state.lock();
        let is_there = |state: &RegistryState| {
            let mut all = state.sessions.values();
            all.any(|s| meant.iter().any(|ended| Arc::ptr_eq(s, ended)))
        };
        while is_there(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.ended.wait_for(&mut state, left);
        }
        drop(state);
        meant
    }

    /// Ends sessions whose initiator has not taken an answer for `limit`.
    pub(crate) fn drop_deaf(&self, scope: Scope<'_>, limit: Duration) {
        for session in self.chosen(scope) {
            if session.connection.stalled() >= limit {
                session.connection.drop_now();
            }
        }
    }

    /// Ends the units of a target: when this returns, none of their commands is executed any more.
    pub(crate) fn close_units(&self, target: &str) {
        let state = self.state.lock();
        let units = state.units.iter();
        let meant = units.filter(|((name, _), _)| name == target);
        let meant: Vec<_> = meant.map(|(_, unit)| unit.clone()).collect();
        drop(state);
        meant.iter().for_each(|unit| unit.close());
    }

    /// Forgets the units of a target, with their reservations.
    pub(crate) fn forget(&self, target: &str) {
        let mut state = self.state.lock();
        state.remembered.retain(|(name, _), _| name != target);
        state.units.retain(|(name, _), _| name != target);
    }

    /// Waits until there are no such sessions, but not past `limit`.
    pub(crate) fn wait_for_none(&self, scope: Scope<'_>, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state.lock();
        while state.sessions.values().any(|s| scope.has(s)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut state, left);
        }
        true
    }
}

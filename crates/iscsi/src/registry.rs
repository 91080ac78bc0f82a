//! Knows the sessions of a server and the logical units that they share. Sessions register here;
//! the server closes them through it.
//!
//! Invariant: all sessions of a target share its units, so reservations hold between them. An
//! initiator port has one session with a target: a new one ends the old one first. A unit without
//! sessions is remembered only while it has reservations.

use crate::login::Names;
use crate::replies::{Format, Numbering, Replies};
use crate::scsi::reservations::Nexus;
use crate::scsi::unit::{Properties, Unit};
use crate::sender::{Notice, Sender};
use crate::targets::{TargetUnit, UNITS_MAX};
use crate::wire::pdu::{FINAL, Header, NO_TAG, response};
use connections::Connection;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Asynchronous event: the target requests a logout.
const REQUESTS_LOGOUT: u8 = 1;

/// A session whose initiator has proved who it is. It is entered before its login is confirmed.
pub(crate) struct Entry {
    pub(crate) names: Names,
    pub(crate) connection: Arc<Connection>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) format: Format,
}

#[derive(Default)]
struct State {
    units: BTreeMap<(String, u8), Arc<Unit>>,
    sessions: HashMap<u64, Arc<Entry>>,
}

/// The sessions and units of a server.
#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    /// Signalled when a session ends.
    ended: Condvar,
}

impl Registry {
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

    /// Removes a session.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        state.sessions.remove(&number);
        state.units.retain(|_, unit| unit.is_remembered());
        self.ended.notify_all();
    }

    /// Attaches a session to the units of its target, which its sessions share.
    pub(crate) fn attach(
        &self,
        nexus: &Nexus,
        target: &str,
        units: Vec<TargetUnit>,
        properties: Properties,
    ) -> Vec<(u8, Arc<Unit>)> {
        let mut state = self.state.lock();
        let shared = units.into_iter().take(UNITS_MAX).map(|unit| {
            let make = || Arc::new(Unit::new(target, unit.number, unit.volume, properties));
            let (number, place) = (unit.number, (target.to_owned(), unit.number));
            let shared = state.units.entry(place).or_insert_with(make).clone();
            // Under the lock: another session that ends must not forget the unit meanwhile.
            shared.attach(nexus);
            (number, shared)
        });
        shared.collect()
    }

    /// Counts the sessions of a target.
    pub(crate) fn count(&self, target: &str) -> usize {
        let state = self.state.lock();
        let sessions = state.sessions.values();
        sessions
            .filter(|s| s.names.target.as_deref() == Some(target))
            .count()
    }

    fn chosen(&self, target: Option<&str>) -> Vec<Arc<Entry>> {
        let state = self.state.lock();
        let sessions = state.sessions.values();
        let is_meant = |s: &&Arc<Entry>| target.is_none() || s.names.target.as_deref() == target;
        sessions.filter(is_meant).cloned().collect()
    }

    /// Asks the initiators of a target, or all, to log out within `limit`. Returns their number.
    /// Sessions whose login is not confirmed yet end as soon as it is.
    pub(crate) fn ask_to_leave(&self, target: Option<&str>, limit: Duration) -> usize {
        let sessions = self.chosen(target);
        let header = Header::new(response::ASYNC, FINAL)
            .with_tag(NO_TAG)
            .with_u32::<20>(NO_TAG)
            .with_u8::<36>(REQUESTS_LOGOUT)
            .with_u16::<42>(limit.as_secs().clamp(1, 3600) as u16);
        for session in &sessions {
            let mut message = Replies::new(0, session.format);
            message.push(header, Numbering::Takes, &[]);
            if session.sender.send_now(&mut message) == Notice::TooEarly {
                session.connection.close();
            }
        }
        sessions.len()
    }

    /// Lets the sessions of a target, or all, answer what has arrived, and ends them.
    pub(crate) fn close(&self, target: Option<&str>) {
        for session in self.chosen(target) {
            session.connection.close();
        }
    }

    /// Forgets the units of a target, with their reservations.
    pub(crate) fn forget(&self, target: &str) {
        self.state
            .lock()
            .units
            .retain(|(name, _), _| name != target);
    }

    /// Waits until a target, or the server, has no sessions, but not past `limit`.
    pub(crate) fn wait_for_none(&self, target: Option<&str>, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state.lock();
        let is_meant = |s: &Arc<Entry>| target.is_none() || s.names.target.as_deref() == target;
        while state.sessions.values().any(is_meant) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut state, left);
        }
        true
    }
}

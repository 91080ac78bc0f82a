//! Keeps what initiator ports must still learn of a unit: unit attentions (SAM-5, 5.14). Units call
//! this.
//!
//! Invariant: a port learns of every change that concerns it. To one that was away meanwhile, or
//! never met the unit since the start of the server, POWER ON stands for all of them. Numbers of
//! attentions and of ports are limited.

use super::reservations::{Nexus, Notices, Port};
use super::sense::Sense;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of attentions of a session.
const PENDING_MAX: usize = 8;
/// Maximum number of ports that are known to be informed. Initiators may use a new one each time.
const INFORMED_MAX: usize = 1024;

/// The sessions of a unit, and what each must learn.
#[derive(Default)]
pub(super) struct Attentions {
    sessions: Vec<Session>,
    informed: Informed,
}

/// Ports that have learned that the unit is new, and of all since then.
#[derive(Clone, Default)]
pub(super) struct Informed(VecDeque<Arc<Port>>);

struct Session {
    nexus: Nexus,
    pending: VecDeque<Sense>,
}

impl Informed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn insert(&mut self, port: &Arc<Port>) {
        self.remove(|other| other == &**port);
        if self.0.len() == INFORMED_MAX {
            // It learns once more, which does no harm.
            self.0.pop_front();
        }
        self.0.push_back(port.clone());
    }

    fn remove(&mut self, is_meant: impl Fn(&Port) -> bool) {
        self.0.retain(|port| !is_meant(port));
    }
}

impl Attentions {
    /// Adds a session.
    pub(super) fn attach(&mut self, nexus: &Nexus) {
        let is_new = !self.informed.0.contains(&nexus.port);
        self.sessions.push(Session {
            nexus: nexus.clone(),
            pending: is_new.then_some(Sense::POWER_ON).into_iter().collect(),
        });
    }

    /// Removes a session.
    pub(super) fn detach(&mut self, nexus: &Nexus) {
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|s| s.nexus.number == nexus.number);
        if session.is_some_and(|s| !s.pending.is_empty()) {
            self.informed.remove(|port| *port == *nexus.port);
        }
        self.sessions.retain(|s| s.nexus.number != nexus.number);
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Nexus> {
        self.sessions.iter().map(|session| &session.nexus)
    }

    /// Returns true if no session has to learn anything.
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.iter().all(|s| s.pending.is_empty())
    }

    /// Enters an attention for ports.
    pub(super) fn notify(&mut self, sense: Sense, is_concerned: impl Fn(&Port) -> bool) {
        let is_meant = |session: &&mut Session| is_concerned(&session.nexus.port);
        for session in self.sessions.iter_mut().filter(is_meant) {
            if session.pending.len() < PENDING_MAX && !session.pending.contains(&sense) {
                session.pending.push_back(sense);
            }
        }
        let sessions = &self.sessions;
        let is_here = |port: &Port| sessions.iter().any(|s| *s.nexus.port == *port);
        self.informed
            .remove(|port| is_concerned(port) && !is_here(port));
    }

    pub(super) fn notify_ports(&mut self, notices: Notices) {
        for (port, sense) in notices {
            self.notify(sense, |other| *other == *port);
        }
    }

    /// Returns the next attention of a session and forgets it.
    pub(super) fn take(&mut self, nexus: &Nexus) -> Option<Sense> {
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|s| s.nexus.number == nexus.number)?;
        let sense = session.pending.pop_front();
        if sense == Some(Sense::POWER_ON) {
            self.informed.insert(&nexus.port);
        }
        sense
    }

    pub(super) fn informed(&self) -> &Informed {
        &self.informed
    }

    /// Takes back who is informed.
    pub(super) fn restore(&mut self, informed: Informed) {
        self.informed = informed;
    }
}

//! Decides which initiator may use a unit: RESERVE (6), and persistent reservations (SPC-4, 5.12).
//! Units call this.
//!
//! Invariant: this is kept in memory; with APTPL, a record of it is kept by the caller, before the
//! command that changed it is answered. Without, a restart of the server forgets it. If the kept
//! ones cannot be read, nothing is allowed that a reservation could forbid, until an initiator
//! clears them. The number of registrations is limited.

use super::action::Refusal;
use super::parameters::Keys;
use super::sense::Sense;
use super::task_set::TaskSet;
use format::reservations::{
    REGISTRATIONS_MAX, RegistrationRecord, ReservationRecord, ReservationsRecord,
};
use std::sync::Arc;

/// An initiator port: the name of the initiator, and its session's identifier.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) initiator: String,
    pub(crate) isid: [u8; 6],
}

/// A session as units see it.
#[derive(Clone, Debug)]
pub(crate) struct Nexus {
    /// Differs between all sessions of a server.
    pub(crate) number: u64,
    pub(crate) port: Arc<Port>,
    /// Its tasks that have not ended.
    pub(crate) tasks: Arc<TaskSet>,
}

/// Use of a unit by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Allowed in spite of any reservation.
    Always,
    /// Allowed in spite of persistent reservations.
    Status,
    /// Reads blocks.
    Read,
    /// Changes blocks or the unit.
    Write,
}

#[derive(Clone, Debug)]
struct Registration {
    port: Arc<Port>,
    key: u64,
}

/// Types of a persistent reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrants = 5,
    ExclusiveAccessRegistrants = 6,
    WriteExclusiveAll = 7,
    ExclusiveAccessAll = 8,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrants,
        Self::ExclusiveAccessRegistrants,
        Self::WriteExclusiveAll,
        Self::ExclusiveAccessAll,
    ];

    fn of(number: u8) -> Result<Self, Sense> {
        let found = Self::ALL.into_iter().find(|kind| *kind as u8 == number);
        found.ok_or(Sense::INVALID_FIELD_IN_CDB)
    }

    fn excludes_reads(self) -> bool {
        matches!(
            self,
            Self::ExclusiveAccess | Self::ExclusiveAccessRegistrants | Self::ExclusiveAccessAll
        )
    }

    /// Every registered port holds the reservation.
    fn is_held_by_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }

    /// Every registered port may do what the holder may.
    fn admits_registered(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }
}

/// Ports that must learn of a change, and the sense that reports it.
pub(crate) type Notices = Vec<(Arc<Port>, Sense)>;

/// The reservations of one unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    generation: u32,
    registered: Vec<Registration>,
    /// The port that reserved, and the type. The port holds the reservation, unless all do.
    held: Option<(Arc<Port>, Kind)>,
    /// The session that reserved the unit with RESERVE (6).
    legacy: Option<u64>,
    /// APTPL of the last registration.
    persists: bool,
    /// Reservations from before the restart cannot be read.
    is_unknown: bool,
    /// A change is being kept, and not in force yet.
    is_changing: bool,
}

impl Reservations {
    /// Returns true if nothing is registered or reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.registered.is_empty() && self.legacy.is_none() && !self.is_unknown
    }

    /// Returns the reservations of a unit after a restart, from their record. `Err`: it cannot be
    /// read.
    pub(crate) fn restored<E>(kept: Result<Option<ReservationsRecord>, E>) -> Self {
        let is_unknown = kept.is_err();
        let Some(record) = kept.ok().flatten() else {
            return Self {
                is_unknown,
                ..Self::default()
            };
        };
        let registration = |one: RegistrationRecord| Registration {
            port: Arc::new(Port {
                initiator: one.initiator,
                isid: one.isid,
            }),
            key: one.key,
        };
        let registered: Vec<_> = record.registrations.into_iter().map(registration).collect();
        let held = record.held.and_then(|held| {
            let holder = registered.get(held.holder)?;
            Some((holder.port.clone(), Kind::of(held.kind).ok()?))
        });
        // A record that decodes has both.
        let is_unknown = held.is_none() && record.held.is_some();
        Self {
            registered,
            held,
            is_unknown,
            persists: true,
            ..Self::default()
        }
    }

    /// Returns the record that survives a restart; `None`: nothing does.
    pub(crate) fn record(&self) -> Option<ReservationsRecord> {
        if !self.persists || self.registered.is_empty() {
            return None;
        }
        let registration = |one: &Registration| RegistrationRecord {
            initiator: one.port.initiator.clone(),
            isid: one.port.isid,
            key: one.key,
        };
        let held = self.held.as_ref().map(|(port, kind)| {
            let mut all = self.registered.iter();
            let holder = all.position(|r| r.port == *port && !kind.is_held_by_all());
            ReservationRecord {
                kind: *kind as u8,
                holder: holder.unwrap_or(0),
            }
        });
        Some(ReservationsRecord {
            registrations: self.registered.iter().map(registration).collect(),
            held,
        })
    }

    /// True while the kept reservations cannot be read.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Returns what a change makes of these, before it is in force. Until [`Self::settle`] nothing
    /// else changes them.
    pub(crate) fn prepare(
        &mut self,
        nexus: &Nexus,
        action: (u8, u8, u8),
        keys: &Keys,
    ) -> Result<(Self, Notices), Refusal> {
        let mut next = self.clone();
        let notices = next.change(nexus, action, keys)?;
        self.is_changing = true;
        Ok((next, notices))
    }

    /// Ends a change: `next` is in force now, or nothing changed.
    pub(crate) fn settle(&mut self, next: Option<Self>) {
        if let Some(next) = next {
            *self = next;
        }
        self.is_changing = false;
    }

    /// Fails if a command must not be executed for this session.
    pub(crate) fn check(&self, nexus: &Nexus, what: Use) -> Result<(), Refusal> {
        if what == Use::Always {
            return Ok(());
        }
        if self.legacy.is_some_and(|number| number != nexus.number) {
            return Err(Refusal::Conflict);
        }
        if self.is_unknown && matches!(what, Use::Read | Use::Write) {
            return Err(Refusal::Conflict);
        }
        let Some((holder, kind)) = &self.held else {
            return Ok(());
        };
        let may_all = match kind.admits_registered() {
            true => self.key_of(nexus).is_some(),
            false => **holder == *nexus.port,
        };
        match what {
            Use::Read if !kind.excludes_reads() => Ok(()),
            Use::Read | Use::Write if !may_all => Err(Refusal::Conflict),
            _ => Ok(()),
        }
    }

    /// RESERVE (6).
    pub(crate) fn reserve(&mut self, nexus: &Nexus) -> Result<(), Refusal> {
        let is_persistent = !self.registered.is_empty() || self.is_unknown || self.is_changing;
        if is_persistent || self.legacy.is_some_and(|n| n != nexus.number) {
            return Err(Refusal::Conflict);
        }
        self.legacy = Some(nexus.number);
        Ok(())
    }

    /// RELEASE (6), and the end of a session.
    pub(crate) fn release(&mut self, nexus: &Nexus) {
        if self.legacy == Some(nexus.number) {
            self.legacy = None;
        }
    }

    /// A reset of the unit. Persistent reservations survive it.
    pub(crate) fn reset(&mut self) {
        self.legacy = None;
    }

    fn key_of(&self, nexus: &Nexus) -> Option<u64> {
        let mut all = self.registered.iter();
        all.find(|r| *r.port == *nexus.port).map(|r| r.key)
    }

    fn is_holder(&self, nexus: &Nexus) -> bool {
        self.held.as_ref().is_some_and(|(port, kind)| {
            match kind.is_held_by_all() {
                // Not the port that reserved: it may have lost its registration since.
                true => self.key_of(nexus).is_some(),
                false => **port == *nexus.port,
            }
        })
    }

    fn others(&self, nexus: &Nexus, sense: Sense) -> Notices {
        let others = self.registered.iter().filter(|r| *r.port != *nexus.port);
        others.map(|r| (r.port.clone(), sense)).collect()
    }

    /// PERSISTENT RESERVE OUT.
    pub(crate) fn change(
        &mut self,
        nexus: &Nexus,
        (action, scope, kind): (u8, u8, u8),
        keys: &Keys,
    ) -> Result<Notices, Refusal> {
        if self.legacy.is_some() {
            return Err(Refusal::Conflict);
        }
        // Of unknown ones, an initiator may only register in memory, and clear them.
        if self.is_unknown && (!matches!(action, 0 | 3 | 6) || (action != 3 && keys.persists)) {
            return Err(Refusal::Conflict);
        }
        let key = self.key_of(nexus);
        let kind = || match scope {
            0 => Kind::of(kind),
            _ => Err(Sense::INVALID_FIELD_IN_CDB),
        };
        match action {
            0 if key.unwrap_or(0) != keys.current => Err(Refusal::Conflict),
            0 | 6 => {
                let notices = self.register(nexus, keys.service)?;
                self.persists = keys.persists;
                Ok(notices)
            }
            1..=5 if key != Some(keys.current) => Err(Refusal::Conflict),
            1 => self.take(nexus, kind()?),
            2 => self.give_up(nexus, scope, kind),
            3 => {
                let notices = self.others(nexus, Sense::RESERVATIONS_PREEMPTED);
                self.registered.clear();
                self.held = None;
                self.is_unknown = false;
                self.generation = self.generation.wrapping_add(1);
                Ok(notices)
            }
            4 | 5 => self.preempt(nexus, kind, keys.service),
            _ => Err(Sense::INVALID_FIELD_IN_CDB.into()),
        }
    }

    fn register(&mut self, nexus: &Nexus, key: u64) -> Result<Notices, Refusal> {
        let count = self.registered.len();
        let mut all = self.registered.iter_mut();
        let mut notices = Notices::new();
        match all.find(|r| *r.port == *nexus.port) {
            None if key == 0 => return Ok(notices),
            None if count == REGISTRATIONS_MAX => {
                return Err(Sense::TOO_MANY_REGISTRATIONS.into());
            }
            None => self.registered.push(Registration {
                port: nexus.port.clone(),
                key,
            }),
            Some(registration) if key != 0 => registration.key = key,
            Some(_) => {
                notices = self.unregister(nexus);
            }
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(notices)
    }

    fn unregister(&mut self, nexus: &Nexus) -> Notices {
        self.registered.retain(|r| *r.port != *nexus.port);
        let Some((holder, kind)) = self.held.clone() else {
            return Notices::new();
        };
        let is_released = match kind.is_held_by_all() {
            true => self.registered.is_empty(),
            false => *holder == *nexus.port,
        };
        if !is_released {
            return Notices::new();
        }
        self.held = None;
        match kind.admits_registered() {
            true => self.others(nexus, Sense::RESERVATIONS_RELEASED),
            false => Notices::new(),
        }
    }

    fn take(&mut self, nexus: &Nexus, kind: Kind) -> Result<Notices, Refusal> {
        match &self.held {
            Some((_, held)) if self.is_holder(nexus) && *held == kind => {}
            Some(_) => return Err(Refusal::Conflict),
            None => self.held = Some((nexus.port.clone(), kind)),
        }
        Ok(Notices::new())
    }

    fn give_up(
        &mut self,
        nexus: &Nexus,
        scope: u8,
        kind: impl Fn() -> Result<Kind, Sense>,
    ) -> Result<Notices, Refusal> {
        let Some((_, held)) = self.held.clone().filter(|_| self.is_holder(nexus)) else {
            return Ok(Notices::new());
        };
        if scope != 0 || kind() != Ok(held) {
            return Err(Sense::INVALID_RELEASE.into());
        }
        self.held = None;
        match held.admits_registered() {
            true => Ok(self.others(nexus, Sense::RESERVATIONS_RELEASED)),
            false => Ok(Notices::new()),
        }
    }

    fn preempt(
        &mut self,
        nexus: &Nexus,
        kind: impl Fn() -> Result<Kind, Sense>,
        key: u64,
    ) -> Result<Notices, Refusal> {
        let is_held_by_all = self.held.as_ref().is_some_and(|(_, k)| k.is_held_by_all());
        let everyone = key == 0 && is_held_by_all;
        if key == 0 && !is_held_by_all {
            return Err(Sense::INVALID_FIELD_IN_LIST.into());
        }
        let is_target = |r: &Registration| everyone || r.key == key;
        if !everyone && !self.registered.iter().any(is_target) {
            return Err(Refusal::Conflict);
        }
        let takes = match &self.held {
            Some((holder, held)) if !held.is_held_by_all() => {
                let mut all = self.registered.iter();
                all.any(|r| r.port == *holder && is_target(r))
            }
            Some(_) => everyone,
            None => false,
        };
        let kind = if takes { Some(kind()?) } else { None };
        let mut notices = Notices::new();
        self.registered.retain(|r| {
            let is_removed = is_target(r) && *r.port != *nexus.port;
            if is_removed {
                notices.push((r.port.clone(), Sense::REGISTRATIONS_PREEMPTED));
            }
            !is_removed
        });
        if let Some(kind) = kind {
            let was = self.held.replace((nexus.port.clone(), kind));
            if was.is_some_and(|(_, was)| was != kind) {
                let others = self.others(nexus, Sense::RESERVATIONS_RELEASED);
                notices.extend(others);
            }
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(notices)
    }

    /// PERSISTENT RESERVE IN. `may_persist`: the unit keeps reservations over a restart.
    pub(crate) fn report(&self, action: u8, may_persist: bool) -> Result<Vec<u8>, Sense> {
        let mut body = Vec::new();
        match action {
            0 | 1 | 3 if self.is_unknown => return Err(Sense::READ_ERROR),
            0 => {
                for registration in &self.registered {
                    body.extend_from_slice(&registration.key.to_be_bytes());
                }
            }
            1 => {
                if let Some((holder, kind)) = &self.held {
                    let mut all = self.registered.iter();
                    let held = all.find(|r| r.port == *holder && !kind.is_held_by_all());
                    body.extend_from_slice(&held.map_or(0, |r| r.key).to_be_bytes());
                    body.extend_from_slice(&[0, 0, 0, 0, 0, *kind as u8, 0, 0]);
                }
            }
            // PTPL_C; TMV and PTPL_A; all six types.
            2 => {
                let (capable, active) = (u8::from(may_persist), u8::from(self.persists));
                return Ok(vec![0, 8, capable, 0x80 | active, 0xea, 0x01, 0, 0]);
            }
            3 => {
                for registration in &self.registered {
                    self.describe(registration, &mut body);
                }
            }
            _ => return Err(Sense::INVALID_FIELD_IN_CDB),
        }
        let mut out = self.generation.to_be_bytes().to_vec();
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(&body);
        Ok(out)
    }

    /// Appends a full status descriptor (SPC-4, 6.15.5).
    fn describe(&self, registration: &Registration, out: &mut Vec<u8>) {
        let port = &*registration.port;
        let held = self
            .held
            .as_ref()
            .filter(|(holder, kind)| *holder == registration.port || kind.is_held_by_all());
        let isid: String = port.isid.iter().map(|b| format!("{b:02x}")).collect();
        let mut name = format!("{},i,0x{isid}", port.initiator).into_bytes();
        name.push(0);
        name.resize(name.len().next_multiple_of(4), 0);
        out.extend_from_slice(&registration.key.to_be_bytes());
        let kind = held.map_or(0, |(_, kind)| *kind as u8);
        out.extend_from_slice(&[0, 0, 0, 0, u8::from(held.is_some()), kind]);
        // Relative target port 1.
        out.extend_from_slice(&[0, 0, 0, 0, 0, 1]);
        out.extend_from_slice(&(name.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(&[0x45, 0]);
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        out.extend_from_slice(&name);
    }
}

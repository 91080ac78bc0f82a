//! The place of a session in the registry, with the units of its target. A session takes it before
//! it confirms the login, and keeps it to its end.
//!
//! Invariant: while a session uses a target it is registered. So code that removes a target and
//! then closes its sessions misses none, and when none is registered, no session holds the target's
//! volumes.

use super::Session;
use crate::login::{Denial, Names, Status};
use crate::registry::Entry;
use crate::scsi::reservations::Nexus;
use crate::scsi::unit::Unit;
use crate::targets::TargetUnit;
use std::sync::Arc;

/// A session's place in the registry. Its drop returns the units, and then the place.
pub(super) struct Registered<'a> {
    pub(super) names: Names,
    /// Dropped before the place.
    units: Units,
    _place: Place<'a>,
}

struct Place<'a>(&'a Session);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.registry.leave(self.0.number);
    }
}

struct Units {
    nexus: Nexus,
    all: Vec<(u8, Arc<Unit>)>,
}

impl Drop for Units {
    fn drop(&mut self) {
        self.all
            .iter()
            .for_each(|(_, unit)| unit.detach(&self.nexus));
    }
}

impl<'a> Registered<'a> {
    /// Registers a session, and opens its target. On failure it is not registered any more.
    pub(super) fn enter(session: &'a Session, entry: Entry) -> Result<Self, Denial> {
        let names = entry.names.clone();
        let (number, limits) = (session.number, &session.context.limits);
        // An old session of the same initiator port must end first.
        if !session.registry.enter(number, entry, limits.stop_limit) {
            return Err(Status::ServiceUnavailable.into());
        }
        let place = Place(session);
        let open = || match &names.target {
            Some(target) => open(session, target),
            None => Ok(Vec::new()),
        };
        let nexus = Nexus::new(number, &names.initiator, names.isid);
        let target = names.target.as_deref().unwrap_or_default();
        let registry = &session.registry;
        let all = registry.attach(&nexus, target, session.units, open)?;
        Ok(Self {
            names,
            units: Units { nexus, all },
            _place: place,
        })
    }

    pub(super) fn nexus(&self) -> &Nexus {
        &self.units.nexus
    }

    /// Returns the units of the target, by their numbers.
    pub(super) fn units(&self) -> &[(u8, Arc<Unit>)] {
        &self.units.all
    }
}

/// Opens the units of a target.
fn open(session: &Session, target: &str) -> Result<Vec<TargetUnit>, Denial> {
    let refusal = || match session.targets.is_changing(target) {
        // Initiators try again.
        true => Status::ServiceUnavailable,
        false => Status::NotFound,
    };
    let units = session.targets.open(target).ok_or_else(refusal)?;
    let block_bytes = u64::from(session.units.block_bytes);
    for unit in &units {
        let bytes = unit.volume.info().size_bytes;
        if bytes % block_bytes != 0 {
            // An initiator would take the whole blocks for all of it.
            return Err(Denial {
                status: Status::NotFound,
                reason: format!("its size, {bytes} bytes, is no multiple of {block_bytes}").into(),
            });
        }
    }
    Ok(units)
}

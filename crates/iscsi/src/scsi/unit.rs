//! Holds the state of one logical unit, which all sessions share: its volume, mode, reservations
//! and unit attentions. The server makes one per volume; sessions use it.
//!
//! Invariant: the lock of the state is not held during I/O. While nothing unusual is set, commands
//! on blocks do not take it.

use super::action::Refusal;
use super::attentions::{Attentions, Informed};
use super::inquiry::{Geometry, Identity};
use super::mode::Mode;
use super::parameters::Keys;
use super::ranges::Ranges;
use super::reservations::{Nexus, Notices, Port, Reservations, Use};
use super::sense::Sense;
use crate::targets::{ReservationKeeper, TargetUnit};
use format::reservations::ReservationsRecord;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use volume::{Checked, Volume, VolumeErrorKind};

/// Properties of all units of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    /// Size of a block, bytes.
    pub(crate) block_bytes: u32,
    /// Whether writes may be acknowledged before they are durable, until an initiator changes it.
    pub(crate) write_cache: bool,
    /// Tag of the portal group: it is part of the name of the target's port.
    pub(crate) portal_group: u16,
}

/// Result of [`ReservationKeeper::kept`].
pub(crate) type KeptReservations = Result<Option<ReservationsRecord>, VolumeErrorKind>;

/// A logical unit.
pub(crate) struct Unit {
    pub(super) volume: Checked<Arc<dyn Volume>>,
    pub(super) identity: Identity,
    /// [`TargetUnit::identity`].
    own: Option<Arc<[u8]>>,
    pub(super) block_bytes: u32,
    pub(super) is_read_only: bool,
    /// Mode at the start and after a reset.
    pub(super) default_mode: Mode,
    sizes: (u32, u32),
    /// Number of blocks at the last command.
    blocks: AtomicU64,
    /// True while the state says nothing that a command on blocks must know.
    is_quiet: AtomicBool,
    state: Mutex<UnitState>,
    /// Keeps reservations over a restart.
    keeper: Option<Arc<dyn ReservationKeeper>>,
    /// Held while a change of reservations is kept.
    keeping: Mutex<()>,
    /// Changes share the bytes that they change; changes that compare have them alone.
    pub(super) changes: Ranges,
}

struct UnitState {
    mode: Mode,
    reservations: Reservations,
    attentions: Attentions,
    /// No command begins any more.
    is_closed: bool,
}

/// State of a unit without sessions.
pub(crate) struct Remembered {
    own: Option<Arc<[u8]>>,
    mode: Mode,
    reservations: Reservations,
    informed: Informed,
}

impl UnitState {
    fn is_quiet(&self, default_mode: Mode) -> bool {
        !self.is_closed
            && self.mode == default_mode
            && self.reservations.is_empty()
            && self.attentions.is_empty()
    }
}

impl Unit {
    pub(crate) fn new(target: &str, unit: TargetUnit, properties: Properties) -> Self {
        let TargetUnit {
            number,
            volume,
            identity: own,
            reservations: keeper,
        } = unit;
        let Properties {
            block_bytes,
            write_cache,
            portal_group,
        } = properties;
        let default_mode = Mode::default_of(write_cache);
        let info = volume.info();
        let volume = Checked::new(volume);
        let blocks = info.size_bytes / u64::from(block_bytes);
        Self {
            identity: Identity::new((target, portal_group), number, own.as_deref()),
            own,
            block_bytes,
            is_read_only: info.read_only,
            default_mode,
            sizes: (info.block_bytes_min, info.block_bytes_preferred),
            blocks: AtomicU64::new(blocks),
            is_quiet: AtomicBool::new(true),
            state: Mutex::new(UnitState {
                mode: default_mode,
                reservations: Reservations::default(),
                attentions: Attentions::default(),
                is_closed: false,
            }),
            keeper,
            keeping: Mutex::default(),
            changes: Ranges::default(),
            volume,
        }
    }

    /// Returns the number of the unit in its target.
    pub(crate) fn number(&self) -> u8 {
        self.identity.number()
    }

    /// Returns the volume.
    pub(crate) fn volume(&self) -> &Checked<Arc<dyn Volume>> {
        &self.volume
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes.into()
    }

    /// Returns the number of blocks. Sessions learn that it changed.
    pub(super) fn blocks(&self) -> u64 {
        let blocks = self.volume.size_bytes() / self.block_bytes();
        if self.blocks.load(Relaxed) != blocks && self.blocks.swap(blocks, Relaxed) != blocks {
            self.change(|state| {
                state.attentions.notify(Sense::CAPACITY_CHANGED, |_| true);
            });
        }
        blocks
    }

    pub(super) fn geometry(&self) -> Geometry {
        let (min, preferred) = self.sizes;
        Geometry {
            blocks: self.blocks(),
            block_bytes: self.block_bytes,
            physical_bytes: min.clamp(self.block_bytes, 64 << 10),
            preferred_bytes: preferred.max(self.block_bytes),
        }
    }

    fn change<R>(&self, run: impl FnOnce(&mut UnitState) -> R) -> R {
        let mut state = self.state.lock();
        let result = run(&mut state);
        self.is_quiet
            .store(state.is_quiet(self.default_mode), Relaxed);
        result
    }

    /// Lets a session use the unit.
    pub(crate) fn attach(&self, nexus: &Nexus) {
        self.change(|state| state.attentions.attach(nexus));
    }

    /// Ends the use of the unit by a session.
    pub(crate) fn detach(&self, nexus: &Nexus) {
        self.change(|state| {
            state.attentions.detach(nexus);
            state.reservations.release(nexus);
        });
    }

    /// Resets the unit: the mode is the default, RESERVE (6) ends, every session learns of it.
    pub(crate) fn reset(&self) {
        self.change(|state| {
            state.mode = self.default_mode;
            state.reservations.reset();
            state.attentions.notify(Sense::RESET, |_| true);
        });
    }

    /// Returns true if sessions use the unit.
    pub(crate) fn is_used(&self) -> bool {
        self.state.lock().attentions.sessions().next().is_some()
    }

    /// Returns true if this is the disk with this [`TargetUnit::identity`].
    pub(crate) fn is(&self, own: Option<&[u8]>) -> bool {
        self.own.as_deref() == own
    }

    /// Takes the reservations that were kept over a restart.
    pub(crate) fn restore(&self, kept: KeptReservations) {
        self.change(|state| state.reservations = Reservations::restored(kept));
    }

    /// Returns the state that outlives the sessions, if there is any. It does not hold the volume.
    pub(crate) fn remember(&self) -> Option<Remembered> {
        let state = self.state.lock();
        let informed = state.attentions.informed();
        let is_new = informed.is_empty() && state.is_quiet(self.default_mode);
        (!state.is_closed && !is_new).then(|| Remembered {
            own: self.own.clone(),
            mode: state.mode,
            reservations: state.reservations.clone(),
            informed: informed.clone(),
        })
    }

    /// Takes back the state, if it is of the same disk.
    pub(crate) fn take_back(&self, remembered: Remembered) {
        if self.is(remembered.own.as_deref()) {
            self.change(|state| {
                state.mode = remembered.mode;
                state.reservations = remembered.reservations;
                state.attentions.restore(remembered.informed);
            });
        }
    }

    /// Returns the mode after it has checked attentions and reservations. `what` is the use that
    /// the command makes of the unit.
    pub(super) fn check(&self, nexus: &Nexus, what: Use) -> Result<Mode, Refusal> {
        if self.is_quiet.load(Relaxed) {
            return Ok(self.default_mode);
        }
        self.change(|state| {
            if state.is_closed {
                return Err(Sense::NO_SUCH_UNIT.into());
            }
            if what != Use::Always
                && let Some(attention) = state.attentions.take(nexus)
            {
                return Err(attention.into());
            }
            state.reservations.check(nexus, what)?;
            Ok(state.mode)
        })
    }

    pub(super) fn mode(&self) -> Mode {
        match self.is_quiet.load(Relaxed) {
            true => self.default_mode,
            false => self.state.lock().mode,
        }
    }

    /// Fails if reservations, or the end of the unit, keep a session from a command that was
    /// admitted earlier.
    pub(crate) fn recheck(&self, nexus: &Nexus, what: Use) -> Result<(), Refusal> {
        match self.is_quiet.load(Relaxed) {
            true => Ok(()),
            false => {
                let state = self.state.lock();
                match state.is_closed {
                    true => Err(Sense::NO_SUCH_UNIT.into()),
                    false => state.reservations.check(nexus, what),
                }
            }
        }
    }

    /// Ends the unit: when this returns, no command of it is executed any more.
    pub(crate) fn close(&self) {
        let sets: Vec<_> = self.change(|state| {
            state.is_closed = true;
            let sessions = state.attentions.sessions();
            sessions.map(|nexus| nexus.tasks.clone()).collect()
        });
        sets.iter().for_each(|tasks| tasks.abort(self.number()));
    }

    /// Counts the tasks that have begun and are to end.
    #[cfg(test)]
    pub(crate) fn stopping(&self) -> usize {
        let state = self.state.lock();
        let sessions = state.attentions.sessions();
        sessions.map(|nexus| nexus.tasks.stopping()).sum()
    }

    /// Aborts the tasks of other sessions. Returns when those that had begun have ended.
    pub(crate) fn abort_others(&self, nexus: &Nexus, is_meant: impl Fn(&Nexus) -> bool) {
        let state = self.state.lock();
        let sessions = state.attentions.sessions();
        let meant = sessions.filter(|other| other.number != nexus.number && is_meant(other));
        let sets: Vec<_> = meant.map(|other| other.tasks.clone()).collect();
        drop(state);
        sets.iter().for_each(|tasks| tasks.abort(self.number()));
    }

    /// Returns true if sense data has the descriptor format.
    pub(crate) fn has_descriptor_sense(&self) -> bool {
        self.mode().descriptor_sense
    }

    /// Returns the next unit attention of a session and forgets it.
    pub(super) fn take_attention(&self, nexus: &Nexus) -> Option<Sense> {
        self.change(|state| state.attentions.take(nexus))
    }

    /// Changes the mode. Other sessions learn of it.
    pub(super) fn set_mode(
        &self,
        nexus: &Nexus,
        next: impl FnOnce(Mode) -> Result<Mode, Sense>,
    ) -> Result<(), Sense> {
        self.change(|state| {
            let mode = next(state.mode)?;
            if mode != state.mode {
                state.mode = mode;
                let is_other = |port: &Port| *port != *nexus.port;
                state.attentions.notify(Sense::MODE_CHANGED, is_other);
            }
            Ok(())
        })
    }

    /// Returns true if reservations can survive a restart.
    pub(super) fn keeps_reservations(&self) -> bool {
        self.keeper.is_some()
    }

    /// PERSISTENT RESERVE OUT. With APTPL the change is durable before it is in force, and this may
    /// wait for that. Ports that it concerns learn of it; returns which.
    pub(super) fn change_reservations(
        &self,
        nexus: &Nexus,
        action: (u8, u8, u8),
        keys: &Keys,
    ) -> Result<Notices, Refusal> {
        let is_registration = matches!(action.0, 0 | 6);
        if keys.persists && is_registration && self.keeper.is_none() {
            return Err(Sense::INVALID_FIELD_IN_LIST.into());
        }
        let _one = self.keeping.lock();
        let prepared = self.change(|state| state.reservations.prepare(nexus, action, keys));
        let (next, notices) = prepared?;
        // An unknown record stays until it is cleared.
        let kept = match &self.keeper {
            Some(keeper) if !next.is_unknown() => keeper.keep(next.record().as_ref()),
            _ => Ok(()),
        };
        self.change(|state| {
            let next = kept.is_ok().then_some(next);
            state.reservations.settle(next);
            if kept.is_ok() {
                state.attentions.notify_ports(notices.clone());
            }
        });
        kept.map_err(|kind| Refusal::from(Sense::of(kind, true)))?;
        Ok(notices)
    }

    /// Uses reservations. Ports that this concerns learn of it.
    pub(super) fn reservations<R>(&self, run: impl FnOnce(&mut Reservations) -> (R, Notices)) -> R {
        self.change(|state| {
            let (result, notices) = run(&mut state.reservations);
            state.attentions.notify_ports(notices);
            result
        })
    }
}

/// Makes a session for tests and for units without initiators.
impl Nexus {
    pub(crate) fn new(number: u64, initiator: &str, isid: [u8; 6]) -> Self {
        let port = Port {
            initiator: initiator.to_owned(),
            isid,
        };
        Self {
            number,
            port: Arc::new(port),
            tasks: Arc::default(),
        }
    }
}

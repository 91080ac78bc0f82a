//! The requests of a task's step, piece by piece under its I/O grant.
//!
//! The world calls this.
//! Invariant: it decides as `crates/device` does (`pieces`, `steps`): the sizes of pieces, when a
//! grant goes on, when a piece waits for another grant. That crate waits with real threads, so it
//! cannot be used in virtual time.

use super::charging::{Device, RequestOwner};
use super::medium::Charge;
use crate::disk::{BLOCK_BYTES, DiskRequest, MILLISECOND, Ns};
use qos::{Flow, Grant};
use std::collections::VecDeque;

/// Bytes that maintenance writes at once, or reads at once under a paid grant.
const PIECE_BYTES: u64 = 256 << 10;
/// Bytes that it reads at once in idle time.
const READ_BYTES: u64 = 64 << 10;
/// A read that begins at most this far behind the last one is sequential.
const SKIPPED_BYTES: u64 = 128 << 10;
/// Longest wait of a piece.
const WAIT_MAX: Ns = 500 * MILLISECOND;

struct Piece {
    grant: Grant,
    began: Ns,
    paid_bytes: u64,
    is_fresh: bool,
}

/// A request for a grant.
#[derive(Clone, Copy)]
struct Waiting {
    id: u64,
    bytes: u64,
    /// The grant is taken then; `None`: it is for a whole step.
    until: Option<Ns>,
}

/// Purpose of a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    /// A new step.
    Step,
    /// The rest of the step in progress.
    Rest,
}

/// A task at the device. See the module's head.
pub struct AtDevice {
    nth: usize,
    flow: Flow,
    piece: Option<Piece>,
    waiting: Option<Waiting>,
    charges: VecDeque<Charge>,
    /// The first charge was begun: its rest is sequential.
    is_begun: bool,
    /// Start of the piece at the disk, and whether the head moved for it. `None`: it is not
    /// measured.
    timed: Option<(Ns, bool)>,
    read_to: u64,
    in_order: bool,
    /// Bytes read and written.
    pub bytes: u64,
}

impl AtDevice {
    pub fn new(nth: usize, flow: Flow) -> Self {
        Self {
            nth,
            flow,
            piece: None,
            waiting: None,
            charges: VecDeque::new(),
            is_begun: false,
            timed: None,
            read_to: 0,
            in_order: false,
            bytes: 0,
        }
    }

    /// Asks for a grant for a step.
    pub fn ask(&mut self, device: &mut Device, bytes: u64, now: Ns) {
        let id = device.ask(self.nth, (self.flow, bytes), self.in_order, now);
        self.waiting = Some(Waiting {
            id,
            bytes,
            until: None,
        });
    }

    /// Returns true if it has the grant for its step.
    pub fn has_grant(&self) -> bool {
        self.piece.is_some() && self.waiting.is_none()
    }

    /// The scheduler has granted what was asked for.
    pub fn granted(&mut self, grant: Grant, now: Ns) -> Granted {
        let waiting = self.waiting.take();
        self.piece = Some(Piece {
            grant,
            began: now,
            paid_bytes: waiting.map_or(0, |waiting| waiting.bytes),
            is_fresh: true,
        });
        match waiting.and_then(|waiting| waiting.until) {
            Some(_) => Granted::Rest,
            None => Granted::Step,
        }
    }

    /// Returns until when a piece waits for its grant.
    pub fn waits_until(&self) -> Option<Ns> {
        self.waiting.and_then(|waiting| waiting.until)
    }

    /// Takes the grant if its piece has waited too long.
    pub fn force(&mut self, device: &mut Device, now: Ns) {
        let late = |waiting: &&Waiting| waiting.until.is_some_and(|until| until <= now);
        if let Some(waiting) = self.waiting.as_ref().filter(late).copied()
            && device.force(self.flow, waiting.id)
        {
            self.granted(Grant::Floor, now);
            self.begin(device, now);
        }
    }

    /// Adds the requests of a step.
    pub fn add(&mut self, charges: Vec<Charge>) {
        for charge in charges {
            if !self
                .charges
                .back_mut()
                .is_some_and(|last| last.extend(&charge))
            {
                self.charges.push_back(charge);
            }
        }
    }

    /// Begins the next piece, or asks for a grant for it. Returns false if nothing is left.
    pub fn begin(&mut self, device: &mut Device, now: Ns) -> bool {
        let Some(charge) = self.charges.front().copied() else {
            return false;
        };
        let DiskRequest {
            address,
            bytes,
            is_write,
        } = charge.request;
        let again = self.read_to.saturating_sub(BLOCK_BYTES);
        let behind = again..=self.read_to + SKIPPED_BYTES;
        let is_sequential = is_write || self.is_begun || behind.contains(&address);
        // Short writes, and those of small files, need no grant of their own.
        let is_free = charge.passes || is_write && !self.is_begun && bytes <= PIECE_BYTES;
        let Some(piece) = self.piece.as_mut().filter(|_| !is_free) else {
            self.send(device, bytes, None);
            return true;
        };
        let is_idle = matches!(piece.grant, Grant::Idle { .. });
        let at_once = match (is_write, is_idle) {
            (false, true) => READ_BYTES,
            _ => PIECE_BYTES,
        };
        let may = bytes.min(at_once);
        let is_short = !is_write && bytes <= READ_BYTES;
        let is_granted = if piece.is_fresh {
            true
        } else if is_idle {
            let times = (piece.began, now);
            let scheduler = &mut device.scheduler;
            let goes_on = scheduler.go_on(self.flow, is_sequential, may, times);
            if !goes_on && is_short && !is_sequential {
                scheduler.seeks(now);
            }
            goes_on || is_short && !is_sequential
        } else {
            piece.paid_bytes >= may || is_short
        };
        if !is_granted {
            self.leave(device, now);
            let bytes = bytes.min(PIECE_BYTES);
            self.ask(device, bytes, now);
            if let Some(waiting) = &mut self.waiting {
                waiting.until = Some(now + WAIT_MAX);
            }
            return true;
        }
        let moves_head = piece.is_fresh && piece.grant != (Grant::Idle { is_seek: false });
        let is_seek = !is_sequential || moves_head;
        piece.is_fresh = false;
        piece.paid_bytes = piece.paid_bytes.saturating_sub(may);
        self.in_order = is_sequential;
        self.send(device, may, Some((now, is_seek)));
        true
    }

    fn send(&mut self, device: &mut Device, bytes: u64, timed: Option<(Ns, bool)>) {
        let Some(charge) = self.charges.front_mut() else {
            return;
        };
        let request = DiskRequest {
            bytes,
            ..charge.request
        };
        charge.request.address += bytes;
        charge.request.bytes -= bytes;
        if !request.is_write {
            self.read_to = charge.request.address;
        }
        self.is_begun = charge.request.bytes > 0;
        if !self.is_begun {
            self.charges.pop_front();
        }
        self.bytes += bytes;
        self.timed = timed;
        device.pass(RequestOwner::Task(self.nth), request);
    }

    /// The piece at the disk has ended.
    pub fn ended(&mut self, device: &mut Device, now: Ns) {
        if let Some((began, is_seek)) = self.timed.take() {
            let is_idle = self
                .piece
                .as_ref()
                .is_some_and(|piece| matches!(piece.grant, Grant::Idle { .. }));
            let idle_time = is_idle.then_some(is_seek);
            device
                .scheduler
                .piece_took(self.flow, idle_time, now - began, now);
        }
    }

    /// Returns true if the grant goes on with the next step.
    pub fn goes_on(&self, device: &Device, now: Ns) -> bool {
        self.piece.as_ref().is_some_and(|piece| {
            let times = (piece.began, now);
            matches!(piece.grant, Grant::Idle { .. })
                && device.scheduler.may_go_on(self.flow, self.in_order, times)
        })
    }

    /// Ends the grant, or withdraws the request for it.
    pub fn leave(&mut self, device: &mut Device, now: Ns) {
        if let Some(waiting) = self.waiting.take() {
            device.withdraw(self.flow, waiting.id);
        }
        if let Some(piece) = self.piece.take() {
            let took = now - piece.began;
            device.scheduler.took(self.flow, took);
            device.scheduler.completed(self.flow, piece.began, now);
        }
    }
}

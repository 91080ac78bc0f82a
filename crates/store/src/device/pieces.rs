//! Steps of maintenance that write more than a turn is for: each piece of it has a turn of its own.
//!
//! Invariant: a thread with a turn of maintenance has one until that is dropped, between two pieces another
//! one; nobody else's turn is touched. A piece waits for [`WAIT_MAX`] at most, because others may wait for
//! what its thread holds. Called by [`super::PacedDisk`], and by the turns themselves.

use super::DeviceQueue;
use super::turns::State;
use qos::Flow;
use std::sync::atomic::Ordering;
use std::thread::ThreadId;
use std::time::Duration;

/// Bytes that maintenance writes in one turn: who comes meanwhile waits for them.
pub(super) const PIECE_BYTES: usize = 256 << 10;
/// Longer than a floor of 2 % needs for a piece on a disk.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// What a step has at the device.
pub(super) struct Piece {
    /// Of the step.
    id: u64,
    thread: ThreadId,
    flow: Flow,
    began_ns: u64,
}

impl DeviceQueue {
    /// Ends the turn that this thread has for a step of maintenance; it has another one on return, for so
    /// many bytes. Without a turn nothing happens.
    pub(super) fn turn_for_piece(&self, flow: Flow, bytes: u64) {
        let mut state = self.lock();
        let thread = std::thread::current().id();
        let is_ours = |piece: &Piece| piece.thread == thread && piece.flow == flow;
        let Some(at) = state.pieces.iter().position(is_ours) else {
            return;
        };
        let mut piece = state.pieces.swap_remove(at);
        state.end_piece(&piece, self.ticks.now_ns());
        self.hand_out(&mut state, None);
        drop(state);
        let mut turn = self.ask(flow, bytes);
        if !turn.wait(WAIT_MAX) {
            let mut state = self.lock();
            if state.waiting.remove(&turn.id).is_some() {
                state.scheduler.hand_out(flow, turn.id);
                turn.waiter.may_go.store(true, Ordering::Release);
            }
            drop(state);
            turn.wait(Duration::ZERO);
        }
        turn.is_given = true;
        let mut state = self.lock();
        if let Some(Piece { began_ns, .. }) = state.take_piece(turn.id) {
            piece.began_ns = began_ns;
        }
        state.pieces.push(piece);
    }
}

impl State {
    /// A step has its turn.
    pub fn begin_piece(&mut self, id: u64, flow: Flow, now_ns: u64) {
        self.pieces.push(Piece {
            id,
            thread: std::thread::current().id(),
            flow,
            began_ns: now_ns,
        });
    }

    pub fn take_piece(&mut self, id: u64) -> Option<Piece> {
        let at = self.pieces.iter().position(|piece| piece.id == id)?;
        Some(self.pieces.swap_remove(at))
    }

    /// It has left the device.
    pub fn end_piece(&mut self, piece: &Piece, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(piece.began_ns);
        self.of(piece.flow).busy_ns += took_ns;
        self.scheduler.took(piece.flow, took_ns);
        self.scheduler.completed(piece.flow, now_ns);
    }
}

#[cfg(test)]
mod tests;

//! Splits the I/O of a maintenance step into pieces, so that it stops at once when a user arrives.
//! [`super::PacedDisk`] calls this, and `steps` when grants begin and end.
//!
//! A grant that was given because the device is idle lasts piece by piece while no user arrives.
//! Then it ends, and the next piece waits for another grant. A grant that a floor paid for lasts
//! for the bytes it was asked for. Short random reads pass within a grant, because other threads
//! may wait for locks that the reading thread holds. The next grant pays for their seeks.
//!
//! Invariant: a thread that begins a step with a grant has a grant until the step is dropped;
//! between two pieces it may be replaced. Grants of other threads are untouched. A piece waits at
//! most [`WAIT_MAX`].

use super::DeviceQueue;
use super::state::{DeviceState, PIECE_BYTES, Piece, PieceKind, read_bytes};
use parking_lot::MutexGuard;
use qos::Flow;
use std::time::Duration;

/// Longest wait of a piece: other threads may wait for locks that its thread holds. At an I/O floor
/// of 2 % a piece on a disk waits less than this.
const WAIT_MAX: Duration = Duration::from_millis(500);

impl DeviceQueue {
    /// Returns how many of `bytes` bytes this thread may read or write now. Waits for another grant
    /// if its own has ended. Without a grant it returns `bytes`.
    pub(super) fn begin_piece(&self, flow: Flow, kind: PieceKind, bytes: u64) -> u64 {
        let mut state = self.lock();
        let Some(at) = state.piece_of_this_thread(flow) else {
            return bytes;
        };
        let mut piece = state.pieces.swap_remove(at);
        let now_ns = self.ticks.now_ns();
        let is_sequential = kind
            != PieceKind::Read {
                is_sequential: false,
            };
        let is_short = kind != PieceKind::Write && bytes <= read_bytes(state.kind);
        let may = piece.at_once(kind, state.kind, bytes);
        let is_granted = if piece.is_fresh {
            true
        } else if piece.is_idle_time() {
            let times = (piece.began_ns, now_ns);
            let goes_on = state.scheduler.go_on(flow, is_sequential, may, times);
            if !goes_on && is_short && !is_sequential {
                state.scheduler.seeks(now_ns);
            }
            goes_on || is_short && !is_sequential
        } else {
            piece.paid_bytes >= may || is_short
        };
        let mut is_seek = !is_sequential || piece.is_fresh && piece.moves_head();
        if !is_granted {
            state = self.grant_for_piece(state, &mut piece, bytes.min(PIECE_BYTES as u64));
            is_seek = true;
        }
        let may = piece.at_once(kind, state.kind, bytes);
        piece.is_fresh = false;
        piece.paid_bytes = piece.paid_bytes.saturating_sub(may);
        piece.at_device = Some((self.ticks.now_ns(), is_seek));
        state.note_order(flow, is_sequential);
        state.pieces.push(piece);
        may
    }

    /// Ends the I/O that [`begin_piece`](Self::begin_piece) began.
    pub(super) fn end_piece(&self, flow: Flow) {
        let mut state = self.lock();
        let now_ns = self.ticks.now_ns();
        let Some(at) = state.piece_of_this_thread(flow) else {
            return;
        };
        if let Some(piece) = state.pieces.get_mut(at)
            && let Some((began_ns, is_seek)) = piece.at_device.take()
        {
            let took_ns = now_ns.saturating_sub(began_ns);
            let idle_time = piece.is_idle_time().then_some(is_seek);
            state.scheduler.piece_took(flow, idle_time, took_ns, now_ns);
        }
    }

    /// Ends the grant of this thread's step and waits for another one, for `bytes` bytes.
    fn grant_for_piece<'s>(
        &'s self,
        mut state: MutexGuard<'s, DeviceState>,
        piece: &mut Piece,
        bytes: u64,
    ) -> MutexGuard<'s, DeviceState> {
        state.leave(piece, self.ticks.now_ns());
        self.hand_out(&mut state, None);
        drop(state);
        let mut granted_step = self.ask(piece.flow, bytes);
        if !granted_step.wait(WAIT_MAX) {
            granted_step.force();
        }
        let mut state = self.lock();
        if let Some(given) = granted_step.give_up(&mut state) {
            *piece = Piece {
                id: piece.id,
                ..given
            };
        }
        state
    }
}

impl DeviceState {
    fn piece_of_this_thread(&self, flow: Flow) -> Option<usize> {
        let thread = std::thread::current().id();
        let is_ours = |piece: &Piece| piece.thread == thread && piece.flow == flow;
        self.pieces.iter().position(is_ours)
    }

    /// Records that a step has its grant.
    pub fn begin_piece(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    pub fn take_piece(&mut self, id: u64) -> Option<Piece> {
        let at = self.pieces.iter().position(|piece| piece.id == id)?;
        Some(self.pieces.swap_remove(at))
    }

    /// Returns true if a step may go on with another one under its grant.
    pub fn goes_on(&self, id: u64, now_ns: u64) -> bool {
        let mut pieces = self.pieces.iter().filter(|piece| piece.id == id);
        pieces.any(|piece| {
            let is_sequential = self.reads_in_order(piece.flow);
            let times = (piece.began_ns, now_ns);
            piece.is_idle_time() && self.scheduler.may_go_on(piece.flow, is_sequential, times)
        })
    }

    /// Ends a grant: counts and charges its time.
    pub fn leave(&mut self, piece: &Piece, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(piece.began_ns);
        self.of(piece.flow).busy_ns += took_ns;
        self.scheduler.took(piece.flow, took_ns);
        self.scheduler.completed(piece.flow, piece.began_ns, now_ns);
    }
}

#[cfg(test)]
mod tests;

//! Implements READ: data as data, holes as holes. `command` calls this.
//!
//! Invariant: the chunks of a reply cover the request once. Small reads never ask for extents, so
//! the hot path is one read of the volume straight into the output.

use super::{Export, Failure, read_len};
use crate::wire::constants::{chunk, command_flag as flag};
use crate::wire::replies::{Style, simple};
use crate::wire::requests::NbdRequest;
use connections::Output;
use std::ops::ControlFlow;
use volume::Volume;

/// Smaller reads are sent as data without a search for holes, bytes.
const SPARSE_READ_BYTES_MIN: usize = 16 << 10;
/// Smaller holes are sent as data, bytes.
const HOLE_BYTES_MIN: u64 = 4 << 10;
/// Maximum number of pieces in one reply. The rest is sent as data.
const PIECES_MAX: usize = 1024;

/// Part of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    len_bytes: u64,
    zero: bool,
}

impl Export {
    pub(super) fn read(&self, request: &NbdRequest, out: &mut Output) -> Result<(), Failure> {
        let len = read_len(request)?;
        let offset = request.offset_bytes;
        self.check_range(offset, request.len_bytes)?;
        if self.style == Style::Simple {
            out.push(simple(request.cookie, None).as_bytes());
            let data = out.reserve(len);
            return Ok(self.volume.read(self.context, offset, data)?);
        }
        if len == 0 {
            // Once structured replies are agreed on, a read never gets a simple one.
            self.chunk(request, chunk::NONE, true, 0, out);
            return Ok(());
        }
        if len < SPARSE_READ_BYTES_MIN || request.flags & flag::DF != 0 {
            return self.data(request, offset, len, true, out);
        }
        let pieces = self.pieces(request)?;
        let mut at = offset;
        for (number, piece) in pieces.iter().enumerate() {
            let last = number + 1 == pieces.len();
            if piece.zero {
                self.chunk(request, chunk::OFFSET_HOLE, last, 12, out);
                out.push(&at.to_be_bytes());
                out.push(&(piece.len_bytes as u32).to_be_bytes());
            } else {
                self.data(request, at, piece.len_bytes as usize, last, out)?;
            }
            at += piece.len_bytes;
        }
        Ok(())
    }

    fn data(
        &self,
        request: &NbdRequest,
        offset: u64,
        len: usize,
        done: bool,
        out: &mut Output,
    ) -> Result<(), Failure> {
        // At most `REQUEST_BYTES_MAX` and eight.
        let payload = len as u32 + 8;
        self.chunk(request, chunk::OFFSET_DATA, done, payload, out);
        out.push(&offset.to_be_bytes());
        let data = out.reserve(len);
        Ok(self.volume.read(self.context, offset, data)?)
    }

    /// Splits a read into data and holes, in order, covering all of it.
    fn pieces(&self, request: &NbdRequest) -> Result<Vec<Piece>, Failure> {
        let (offset, len) = (request.offset_bytes, request.len_bytes);
        let end = offset + len;
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = offset;
        self.volume
            .extents(self.context, offset, len, &mut |extent| {
                let piece_end = (extent.offset_bytes + extent.len_bytes).min(end);
                let len_bytes = piece_end - at;
                let zero = extent.zero && len_bytes >= HOLE_BYTES_MIN;
                let full = pieces.len() == PIECES_MAX;
                match pieces.last_mut() {
                    Some(last) if last.zero == zero => last.len_bytes += len_bytes,
                    _ if full => return ControlFlow::Break(()),
                    _ => pieces.push(Piece { len_bytes, zero }),
                }
                at = piece_end;
                ControlFlow::Continue(())
            })?;
        if at < end {
            let len_bytes = end - at;
            let zero = false;
            match pieces.last_mut() {
                Some(last) if !last.zero => last.len_bytes += len_bytes,
                _ => pieces.push(Piece { len_bytes, zero }),
            }
        }
        Ok(pieces)
    }
}

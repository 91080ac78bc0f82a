//! Implements BLOCK_STATUS: extents in base:allocation, and changes since earlier states. `command`
//! calls this.
//!
//! Invariant: descriptors start at the request's offset, have no gaps, differ from their neighbours
//! and never reach past the request, so REQ_ONE needs no cutting. Contexts are answered in the
//! order in which they were chosen, each in its own chunk.

use super::{Export, Failure};
use crate::negotiation::{MetaContext, Source};
use crate::wire::constants::{STATE_DIRTY, STATE_HOLE, STATE_ZERO, chunk, command_flag as flag};
use crate::wire::replies::Errno;
use crate::wire::requests::{NbdRequest, decode_status_filter};
use connections::Output;
use std::ops::ControlFlow;
use volume::{Changes, Extent, Volume};

/// Maximum number of descriptors in one reply, for all contexts together. Clients ask again for the
/// rest.
const DESCRIPTORS_MAX: usize = 4096;
/// Maximum number of pieces examined for one context, so that equal neighbours cannot keep a
/// connection busy.
const PIECES_MAX: usize = 1 << 20;
/// Maximum size of a reply, with some space for headers, bytes.
pub(super) const REPLY_BYTES_MAX: u64 = 16 * DESCRIPTORS_MAX as u64 + 4096;

struct Descriptor {
    len_bytes: u64,
    state: u32,
}

/// Descriptors of one context while they are collected.
struct Collected {
    list: Vec<Descriptor>,
    most: usize,
    range_end: u64,
    seen: usize,
}

impl Collected {
    fn add(&mut self, offset_bytes: u64, len_bytes: u64, state: u32) -> ControlFlow<()> {
        let piece_end = (offset_bytes + len_bytes).min(self.range_end);
        let len_bytes = piece_end - offset_bytes;
        self.seen += 1;
        let full = self.list.len() == self.most;
        match self.list.last_mut() {
            Some(last) if last.state == state => last.len_bytes += len_bytes,
            _ if full => return ControlFlow::Break(()),
            _ => self.list.push(Descriptor { len_bytes, state }),
        }
        match self.seen < PIECES_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

impl Export {
    /// Answers BLOCK_STATUS. Returns false if it would have to wait although it may not.
    pub(super) fn block_status(
        &self,
        request: &NbdRequest,
        payload: &[u8],
        may_wait: bool,
        out: &mut Output,
    ) -> Result<bool, Failure> {
        let offset = request.offset_bytes;
        let (len, chosen) = self.chosen(request, payload)?;
        if chosen.is_empty() || len == 0 {
            return Err(Errno::Invalid.into());
        }
        self.check_range(offset, len)?;
        // Volumes do not report whether changes are cached.
        let allocation = |c: &&MetaContext| matches!(c.source, Source::Allocation);
        let able = self.volume.capabilities();
        let cached = || able.is_cached(self.context, offset, len);
        if !may_wait && (!chosen.iter().all(allocation) || !cached()) {
            return Ok(false);
        }
        let most = match request.flags & flag::REQ_ONE != 0 {
            true => 1,
            false => DESCRIPTORS_MAX / chosen.len(),
        };
        for (number, context) in chosen.iter().enumerate() {
            let descriptors = match &context.source {
                Source::Allocation => self.allocation(offset, len, most)?,
                Source::Changes(changes) => self.changes(&**changes, offset, len, most)?,
            };
            let done = number + 1 == chosen.len();
            self.descriptors(request, context.id, &descriptors, done, out);
        }
        Ok(true)
    }

    /// Returns the length to describe, and the contexts.
    fn chosen(
        &self,
        request: &NbdRequest,
        payload: &[u8],
    ) -> Result<(u64, Vec<&MetaContext>), Failure> {
        if request.flags & flag::PAYLOAD_LEN == 0 {
            return Ok((request.len_bytes, self.contexts.iter().collect()));
        }
        let filter = decode_status_filter(payload).ok_or(Errno::Invalid)?;
        let mut chosen: Vec<&MetaContext> = Vec::new();
        for id in filter.ids {
            let context = self.contexts.iter().find(|c| c.id == id);
            let context = context.ok_or(Errno::Invalid)?;
            if chosen.iter().any(|other| other.id == id) {
                return Err(Errno::Invalid.into());
            }
            chosen.push(context);
        }
        Ok((filter.len_bytes, chosen))
    }

    fn descriptors(
        &self,
        request: &NbdRequest,
        id: u32,
        descriptors: &[Descriptor],
        done: bool,
        out: &mut Output,
    ) {
        // At most `DESCRIPTORS_MAX` of 16 bytes.
        let count = descriptors.len() as u32;
        if self.extended() {
            self.chunk(request, chunk::BLOCK_STATUS_EXT, done, 8 + 16 * count, out);
            out.push(&id.to_be_bytes());
            out.push(&count.to_be_bytes());
            for descriptor in descriptors {
                out.push(&descriptor.len_bytes.to_be_bytes());
                out.push(&u64::from(descriptor.state).to_be_bytes());
            }
        } else {
            self.chunk(request, chunk::BLOCK_STATUS, done, 4 + 8 * count, out);
            out.push(&id.to_be_bytes());
            for descriptor in descriptors {
                // A compact request has a 32-bit length, and no descriptor is longer.
                out.push(&(descriptor.len_bytes as u32).to_be_bytes());
                out.push(&descriptor.state.to_be_bytes());
            }
        }
    }

    fn collect(offset: u64, len: u64, most: usize) -> Collected {
        Collected {
            list: Vec::new(),
            most,
            range_end: offset + len,
            seen: 0,
        }
    }

    fn allocation(&self, offset: u64, len: u64, most: usize) -> Result<Vec<Descriptor>, Failure> {
        let mut collected = Self::collect(offset, len, most);
        self.volume
            .extents(self.context, offset, len, &mut |piece| {
                collected.add(piece.offset_bytes, piece.len_bytes, state(piece))
            })?;
        Ok(collected.list)
    }

    fn changes(
        &self,
        changes: &dyn Changes,
        offset: u64,
        len: u64,
        most: usize,
    ) -> Result<Vec<Descriptor>, Failure> {
        let mut collected = Self::collect(offset, len, most);
        let context = self.context;
        self.volume
            .changes(changes, context, offset, len, &mut |piece| {
                let state = if piece.changed { STATE_DIRTY } else { 0 };
                collected.add(piece.offset_bytes, piece.len_bytes, state)
            })?;
        Ok(collected.list)
    }
}

fn state(extent: Extent) -> u32 {
    let hole = if extent.hole { STATE_HOLE } else { 0 };
    let zero = if extent.zero { STATE_ZERO } else { 0 };
    hole | zero
}

//! BLOCK_STATUS: extents in base:allocation.
//!
//! Invariant: descriptors start at the request's offset, have no gaps, differ from their
//! neighbours and never reach past the request, so REQ_ONE needs no cutting. Called by `command`.

use super::{Export, Failure};
use crate::buffers::Output;
use crate::wire::constants::{
    BASE_ALLOCATION_ID, STATE_HOLE, STATE_ZERO, chunk, command_flag as flag,
};
use crate::wire::replies::Errno;
use crate::wire::requests::Request;
use std::ops::ControlFlow;
use volume::{Extent, Volume};

/// Descriptors of one reply; clients ask again for what is left.
const DESCRIPTORS_MAX: usize = 4096;
/// Extents looked at for one reply, so that alike neighbours cannot keep a connection busy.
const EXTENTS_MAX: usize = 1 << 20;

struct Descriptor {
    len_bytes: u64,
    state: u32,
}

impl Export {
    pub(super) fn block_status(&self, request: &Request, out: &mut Output) -> Result<(), Failure> {
        let (offset, len) = (request.offset_bytes, request.len_bytes);
        if !self.allocation || len == 0 {
            return Err(Errno::Invalid.into());
        }
        self.check_range(offset, len)?;
        let most = match request.flags & flag::REQ_ONE != 0 {
            true => 1,
            false => DESCRIPTORS_MAX,
        };
        let descriptors = self.descriptors(offset, len, most)?;
        // At most `DESCRIPTORS_MAX` of 16 bytes.
        let count = descriptors.len() as u32;
        if self.extended() {
            self.chunk(request, chunk::BLOCK_STATUS_EXT, true, 8 + 16 * count, out);
            out.push(&BASE_ALLOCATION_ID.to_be_bytes());
            out.push(&count.to_be_bytes());
            for descriptor in &descriptors {
                out.push(&descriptor.len_bytes.to_be_bytes());
                out.push(&u64::from(descriptor.state).to_be_bytes());
            }
        } else {
            self.chunk(request, chunk::BLOCK_STATUS, true, 4 + 8 * count, out);
            out.push(&BASE_ALLOCATION_ID.to_be_bytes());
            for descriptor in &descriptors {
                // A compact request has a 32-bit length, and no descriptor is longer.
                out.push(&(descriptor.len_bytes as u32).to_be_bytes());
                out.push(&descriptor.state.to_be_bytes());
            }
        }
        Ok(())
    }

    fn descriptors(&self, offset: u64, len: u64, most: usize) -> Result<Vec<Descriptor>, Failure> {
        let end = offset + len;
        let mut descriptors: Vec<Descriptor> = Vec::new();
        let mut seen = 0;
        self.volume
            .extents(self.context, offset, len, &mut |extent| {
                let piece_end = (extent.offset_bytes + extent.len_bytes).min(end);
                let len_bytes = piece_end - extent.offset_bytes;
                let state = state(extent);
                seen += 1;
                let full = descriptors.len() == most;
                match descriptors.last_mut() {
                    Some(last) if last.state == state => last.len_bytes += len_bytes,
                    _ if full => return ControlFlow::Break(()),
                    _ => descriptors.push(Descriptor { len_bytes, state }),
                }
                match seen < EXTENTS_MAX {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
        Ok(descriptors)
    }
}

fn state(extent: Extent) -> u32 {
    let hole = if extent.hole { STATE_HOLE } else { 0 };
    let zero = if extent.zero { STATE_ZERO } else { 0 };
    hole | zero
}

//! Copies a stream or a file: an object that is copied from begin to end. The task and the copies
//! of trees call this.
//!
//! Invariant: the receiving pool gets the recipe that a backup of the same chunks would give it.

use super::CopyError;
use super::carrier::Carrier;
use super::pairs::Pair;
use super::window::Window;
use format::recipe::{Layout, ObjectRoot};
use std::ops::ControlFlow;
use store::ObjectBuilder;
use units::Fingerprint;

/// Maximum number of chunks in a step.
const PIECES_MAX: usize = 1024;

/// See the module's head.
pub(super) struct ObjectCopy {
    root: ObjectRoot,
    at: u64,
    builder: ObjectBuilder,
    window: Option<Window>,
}

impl ObjectCopy {
    pub fn new(root: ObjectRoot, base: Option<Pair>, carrier: &Carrier) -> Self {
        // With shared fingerprints each chunk is looked up; a pair of single chunks would gain
        // nothing.
        let base = base.filter(|pair| {
            !carrier.is_one_domain
                && pair.here.level > 0
                && pair.here.len == pair.there.len
                && carrier.to.reader().is_believed_whole(&pair.there)
        });
        Self {
            root,
            at: 0,
            builder: ObjectBuilder::new(root.layout),
            window: base.map(|pair| Window::new(pair, carrier)),
        }
    }

    /// Copies about `budget_bytes`. Returns true if nothing is left.
    pub fn step(&mut self, carrier: &mut Carrier, budget_bytes: u64) -> Result<bool, CopyError> {
        if self.at >= self.root.len {
            return Ok(true);
        }
        let mut pieces = Vec::new();
        let end = self.at.saturating_add(budget_bytes.max(1));
        let mut add = |offset: u64, len: u64, fingerprint: Fingerprint| {
            pieces.push((offset, len, fingerprint));
            Ok(match pieces.len() < PIECES_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        };
        let (source, end) = (carrier.source(), end.min(self.root.len));
        let visited = source.visit_pieces(&self.root, self.at, end, &mut add);
        visited.map_err(CopyError::Source)?;
        for (offset, len, fingerprint) in pieces {
            // Only a long hole begins before the position.
            let skipped = self.at.saturating_sub(offset);
            let len = len.saturating_sub(skipped);
            self.copy_piece(carrier, &fingerprint, len)?;
            self.at += len;
        }
        Ok(self.at >= self.root.len)
    }

    fn copy_piece(
        &mut self,
        carrier: &mut Carrier,
        fingerprint: &Fingerprint,
        len: u64,
    ) -> Result<(), CopyError> {
        let known = match &mut self.window {
            Some(window) => window.find(fingerprint, self.at),
            None => None,
        };
        let there = match known {
            Some(there) => {
                carrier.counts.known_bytes += len;
                there
            }
            None => carrier.carry(&self.root, fingerprint, len)?,
        };
        // Holes come in their full length; in fixed layout the builder takes them chunk by chunk.
        let chunk_bytes = match self.root.layout {
            Layout::Fixed(log2) => 1 << log2,
            Layout::Variable => len,
        };
        let mut left = len;
        while left > 0 {
            let one = left.min(chunk_bytes);
            let to = &mut carrier.to;
            let pushed = self
                .builder
                .push(there, one, &mut |node| to.store_node(node));
            pushed.map_err(CopyError::Receiver)?;
            left -= one;
        }
        Ok(())
    }

    /// Returns the object in the receiving pool.
    pub fn finish(self, carrier: &mut Carrier) -> Result<ObjectRoot, CopyError> {
        let to = &mut carrier.to;
        let finished = self.builder.finish(&mut |node| to.store_node(node));
        finished.map_err(CopyError::Receiver)
    }
}

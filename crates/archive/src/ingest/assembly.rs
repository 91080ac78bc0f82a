//! Restores the order of an object's chunks, which workers complete in any order. Streams use it.
//!
//! Invariant: the reader numbers the pieces. The worker that completes the next piece also takes
//! the waiting ones, so the queue bounds the memory. The object does not depend on the order.

use format::recipe::{Layout, ObjectRoot};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use store::{Lane, ObjectBuilder, StoreError};
use units::Fingerprint;

/// Chunks in order: fingerprint and length.
pub type ChunkList = Vec<(Fingerprint, u64)>;

struct PieceQueue {
    next: u64,
    waiting: BTreeMap<u64, ChunkList>,
    /// Number of pieces, once the reader knows.
    total: Option<u64>,
    builder: Option<ObjectBuilder>,
}

/// See the module's head.
pub struct Assembly(Mutex<PieceQueue>);

impl Assembly {
    /// Creates the assembly of an object with this layout.
    pub fn new(layout: Layout) -> Self {
        Self(Mutex::new(PieceQueue {
            next: 0,
            waiting: BTreeMap::new(),
            total: None,
            builder: Some(ObjectBuilder::new(layout)),
        }))
    }

    /// Adds a piece. Returns the object if this was the last missing one.
    pub fn add(
        &self,
        number: u64,
        piece: ChunkList,
        lane: &mut Lane,
    ) -> Result<Option<ObjectRoot>, StoreError> {
        let mut state = self.0.lock();
        state.waiting.insert(number, piece);
        Self::drain(&mut state, lane)
    }

    /// The reader has handed out `total` pieces. Returns the object if all are complete.
    pub fn end(&self, total: u64, lane: &mut Lane) -> Result<Option<ObjectRoot>, StoreError> {
        let mut state = self.0.lock();
        state.total = Some(total);
        Self::drain(&mut state, lane)
    }

    fn drain(state: &mut PieceQueue, lane: &mut Lane) -> Result<Option<ObjectRoot>, StoreError> {
        let PieceQueue {
            next,
            waiting,
            total,
            builder,
        } = state;
        while let Some(piece) = waiting.remove(next) {
            *next += 1;
            let Some(builder) = builder else {
                continue;
            };
            for (fingerprint, len) in piece {
                builder.push(fingerprint, len, &mut |node| lane.store_node(node))?;
            }
        }
        match builder.take_if(|_| *total == Some(*next)) {
            Some(builder) => builder.finish(&mut |node| lane.store_node(node)).map(Some),
            None => Ok(None),
        }
    }
}

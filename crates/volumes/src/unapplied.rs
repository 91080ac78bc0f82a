//! Reports to garbage collection what volumes refer to and no root names yet.
//!
//! Garbage collection calls this before it marks.
//! Invariant: a chunk that was stored or found for a volume before the call is reported, unless a
//! commit or a later write made it unnecessary; that commit or write is then durable when the call
//! returns. So nothing needs a chunk that is neither reported nor reachable from a root, even after
//! a crash.

use super::Volumes;
use super::checkpointer::Driver;
use super::engine::Engine;
use super::overlay::{Piece, Source};
use media::Need;
use std::sync::Arc;
use store::{Needed, OpenVolumes, Pool, Result};

impl OpenVolumes for Volumes {
    fn pool(&self) -> &Pool {
        Volumes::pool(self)
    }

    /// See the module's head. Waits for a running step of a checkpoint, and for one sync.
    fn visit_unapplied(&self, needed: &mut dyn Needed) -> Result<()> {
        let engine = &self.engine;
        // Every writer that chose a place before this call has now entered it into its overlay.
        // The lock is not held from here on: a writer that chooses now sees which containers are
        // retired.
        drop(engine.direct.choosing_alone());
        {
            let driver = engine.checkpointer.driver.lock();
            visit(engine, &driver, needed);
        }
        // Overwritten chunks are not reported; a crash must not bring them back. Garbage collection
        // frees space afterwards, so it does not fail where a client's flush would.
        engine.flush_for(Need::Deletion)
    }
}

fn visit(engine: &Engine, driver: &Driver, needed: &mut dyn Needed) {
    for member in driver.members() {
        member.edits().for_each(|f| needed.chunk(f));
    }
    let volumes: Vec<_> = {
        let registry = engine.registry.lock();
        registry.values().map(|r| Arc::clone(&r.volume)).collect()
    };
    for volume in volumes {
        let state = volume.state();
        needed.object(&state.root);
        let mut piece = |piece: Piece| chunks_of(&piece, needed);
        state.active.visit(0, u64::MAX, &mut piece);
        if let Some(frozen) = &state.frozen {
            frozen.visit(0, u64::MAX, &mut piece);
        }
    }
}

fn chunks_of(piece: &Piece, needed: &mut dyn Needed) {
    let Source::Chunks(chunks) = &piece.source else {
        return;
    };
    let first = u64::from(chunks.skip) >> chunks.log2;
    let last = (u64::from(chunks.skip) + piece.len.max(1) - 1) >> chunks.log2;
    for number in first..=last {
        if let Some(fingerprint) = chunks.fingerprints.get(number as usize) {
            needed.chunk(*fingerprint);
        }
    }
}

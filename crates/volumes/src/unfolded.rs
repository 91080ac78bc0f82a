//! What volumes refer to and no root says yet: for the collector.
//!
//! Invariant: a chunk that was stored or found for a volume before the call is told, unless a commit
//! or a later write has made it needless; and then that commit or write is durable when the call returns. So
//! what is not told, and no root reaches, nobody needs, after a crash either. Called by the
//! collector.

use super::Volumes;
use super::checkpointer::Driver;
use super::engine::Engine;
use super::overlay::{Piece, Source};
use std::sync::Arc;
use store::{Needed, OpenVolumes, Pool, Result};

impl OpenVolumes for Volumes {
    fn pool(&self) -> &Pool {
        Volumes::pool(self)
    }

    /// See the module's head. Waits for a step of a checkpoint that is under way, and for one sync.
    fn visit_unfolded(&self, needed: &mut dyn Needed) -> Result<()> {
        let engine = &self.engine;
        // Whoever chose a place before this has told the overlay after it. Nothing is held from here
        // on: who chooses now sees which containers were given up.
        drop(engine.direct.choosing_alone());
        {
            let driver = engine.checkpointer.driver.lock();
            visit(engine, &driver, needed);
        }
        // What was overwritten is not told; a crash must not bring it back.
        engine.flush()
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

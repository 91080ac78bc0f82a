//! Implements [`Volume`] for a live volume: translates errors, and waits where a request is
//! durable.
//!
//! Front ends call this through the trait.
//! Invariant: a handle has no state of its own. Any number of handles of one volume are coherent.

use super::changes::VolumeChanges;
use super::engine::Engine;
use super::live::LiveVolume;
use super::states::States;
use chunk_store::recipe::visit_leaves;
use format::snapshot::SnapshotKind;
use media::MediaErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{ObjectHistory, is_comparable};
use store::{Result, StoreError, StoreErrorKind};
use units::VolumeId;
use volume::{
    Capabilities, Changes, Durability, Extent, FastPath, Prefetch, RequestContext, TrackChanges,
    Volume, VolumeError, VolumeErrorKind, VolumeInfo,
};

/// An open writable volume.
#[derive(Clone)]
pub struct VolumeHandle {
    engine: Arc<Engine>,
    volume: Arc<LiveVolume>,
    description: String,
    states: States,
}

impl VolumeHandle {
    pub(super) fn new(engine: Arc<Engine>, volume: Arc<LiveVolume>, name: &str) -> Self {
        let states = States::new(Arc::clone(&engine.backing.pool), SnapshotKind::Volume, name);
        Self {
            engine,
            volume,
            description: format!("volume {name}"),
            states,
        }
    }

    /// Returns the volume's id.
    pub fn id(&self) -> VolumeId {
        self.volume.id
    }

    fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.engine.flush_for_client(),
        }
    }

    /// Translates a store error for front ends.
    fn error(&self, e: StoreError) -> VolumeError {
        let kind = match e.kind {
            _ if e.is_full() => VolumeErrorKind::NoSpace,
            StoreErrorKind::Media(MediaErrorKind::Poisoned) => VolumeErrorKind::Failed,
            // A read that was under way may find its chunks deleted.
            _ if self.volume.state().closed => VolumeErrorKind::Deleted,
            _ => VolumeErrorKind::Io,
        };
        VolumeError::new(kind, e)
    }
}

impl Volume for VolumeHandle {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            size_bytes: self.size_bytes(),
            read_only: false,
            block_bytes_min: 1,
            block_bytes_preferred: 4096.max(1 << self.volume.log2),
            description: self.description.clone(),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.volume.state().size
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> std::result::Result<(), VolumeError> {
        self.volume
            .read(&self.engine.fetcher, context, offset_bytes, into)
            .map_err(|e| self.error(e))
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> std::result::Result<(), VolumeError> {
        self.volume
            .write(&self.engine, context.class, offset_bytes, data)
            .and_then(|()| self.settle(durability))
            .map_err(|e| self.error(e))
    }

    fn flush(&self, _context: RequestContext) -> std::result::Result<(), VolumeError> {
        self.engine.flush_for_client().map_err(|e| self.error(e))
    }

    fn discard(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> std::result::Result<(), VolumeError> {
        self.volume
            .zero(&self.engine, offset_bytes, len_bytes)
            .map_err(|e| self.error(e))
    }

    fn write_zeroes(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        _may_free: bool,
        durability: Durability,
    ) -> std::result::Result<(), VolumeError> {
        self.volume
            .zero(&self.engine, offset_bytes, len_bytes)
            .and_then(|()| self.settle(durability))
            .map_err(|e| self.error(e))
    }

    fn extents(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> std::result::Result<(), VolumeError> {
        let mut runs = Runs { run: None, visit };
        self.visit_extents(offset_bytes, len_bytes, &mut runs)
            .map_err(|e| self.error(e))?;
        runs.finish();
        Ok(())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            fast_path: Some(self),
            changes: Some(self),
            prefetch: Some(self),
        }
    }
}

impl FastPath for VolumeHandle {
    fn is_cached(&self, _context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        self.volume.is_cached(offset_bytes, len_bytes)
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> std::result::Result<bool, VolumeError> {
        self.volume
            .write_now(&self.engine, context.class, offset_bytes, data)
            .map_err(|e| self.error(e))
    }
}

impl TrackChanges for VolumeHandle {
    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.states.names(count_max)
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        let before = self.states.root(baseline)?;
        is_comparable(&before, &self.volume.state().root).then(|| {
            Arc::new(VolumeChanges {
                engine: Arc::clone(&self.engine),
                volume: Arc::clone(&self.volume),
                before,
            }) as Arc<dyn Changes>
        })
    }
}

impl Prefetch for VolumeHandle {
    fn announce(&self, _context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        self.volume.announce(offset_bytes, len_bytes)
    }

    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        let (fetcher, class) = (&self.engine.fetcher, context.class);
        self.volume
            .prefetch(fetcher, class, offset_bytes, len_bytes);
    }
}

/// Extents are visited in steps of this size. Each step copies the layers of one moment, so that a
/// volume of a petabyte does not need all of them in memory at once.
const EXTENTS_BYTES_STEP: u64 = 1 << 30;

impl VolumeHandle {
    fn visit_extents(&self, offset: u64, len: u64, runs: &mut Runs<'_>) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut at = offset;
        while at < end {
            let to = end.min(at.saturating_add(EXTENTS_BYTES_STEP));
            let (pieces, root) = {
                let state = self.volume.state();
                (state.pieces(at, to), state.root)
            };
            for piece in pieces {
                if self.visit_root(&root, at, piece.offset, runs)?.is_break() {
                    return Ok(());
                }
                let hole = piece.source == super::overlay::Source::Zero;
                if runs.push(piece.offset, piece.len, hole).is_break() {
                    return Ok(());
                }
                at = piece.end();
            }
            if self.visit_root(&root, at, to, runs)?.is_break() {
                return Ok(());
            }
            at = to;
        }
        Ok(())
    }

    fn visit_root(
        &self,
        root: &format::recipe::ObjectRoot,
        from: u64,
        to: u64,
        runs: &mut Runs<'_>,
    ) -> Result<ControlFlow<()>> {
        let reader = self.engine.backing.pool.reader();
        let mut load = |f: &units::Fingerprint| reader.recipe_node(f);
        visit_leaves(root, from, to, &mut load, &mut |leaf| {
            let start = leaf.offset.max(from);
            let end = (leaf.offset + leaf.len).min(to);
            Ok(runs.push(start, end - start, leaf.fingerprint.is_hole()))
        })
    }
}

/// Merges neighbouring extents of one kind, so that clients see runs and not chunks.
struct Runs<'a> {
    run: Option<Extent>,
    visit: &'a mut dyn FnMut(Extent) -> ControlFlow<()>,
}

impl Runs<'_> {
    fn push(&mut self, offset_bytes: u64, len_bytes: u64, hole: bool) -> ControlFlow<()> {
        if len_bytes == 0 {
            return ControlFlow::Continue(());
        }
        match &mut self.run {
            Some(run) if run.hole == hole => {
                run.len_bytes += len_bytes;
                ControlFlow::Continue(())
            }
            run => {
                let next = Extent {
                    offset_bytes,
                    len_bytes,
                    hole,
                    zero: hole,
                };
                match run.replace(next) {
                    Some(done) => {
                        let flow = (self.visit)(done);
                        if flow.is_break() {
                            self.run = None;
                        }
                        flow
                    }
                    None => ControlFlow::Continue(()),
                }
            }
        }
    }

    fn finish(self) {
        if let Some(run) = self.run {
            let _ = (self.visit)(run);
        }
    }
}

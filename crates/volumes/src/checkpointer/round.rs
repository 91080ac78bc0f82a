//! One volume's part of a checkpoint: destages its frozen overlay into chunks, step by step, then
//! applies them to the recipe.
//!
//! The checkpointer calls this, one step at a time.
//! Invariant: the layers of the volume stay as they are until the commit is durable, so a failed
//! checkpoint can start over. After the commit the root holds exactly the writes below the position
//! of the freeze. If the disk lacks space, the root holds those of the first part of the volume.
//! The rest stays in the journal, and replay starts at its oldest write: newer writes that the root
//! has are then written again, in order.

mod ahead;
mod holding;

use super::super::backing::Backing;
use super::super::decisions::Meters;
use super::super::kept::{KeptRanges, is_damage};
use super::super::live::{LiveVolume, PAGE_BYTES};
use super::super::losses::Losses;
use super::super::overlay::{Overlay, Piece, Source, Tally};
use super::carrying::{Destination, carry};
use chunk_store::recipe::{ChunkRun, fixed_chunk, replace};
use chunking::TOGETHER;
use format::recipe::ObjectRoot;
pub(crate) use holding::Limits;
use page_cache::{Place, Use};
use std::ops::Range;
use std::sync::Arc;
use store::{Admit, Approach};
use store::{Lane, Probe, WriteSession};
use store::{Result, StoreError};
use units::{Fingerprint, IoClass, JournalPosition, Part};

/// Random writes shorter than this are not looked up in the fingerprint index (DDFS, ATC'18).
const PROBE_BYTES_MIN: u64 = 128 << 10;
/// Chunks are stored in batches of up to this size: as many pages as are hashed together.
const BATCH_BYTES: usize = TOGETHER << 12;
/// Estimated size of a changed recipe node with its path: 256 chunks.
const NODE_BYTES: u64 = 10 << 10;
/// log2 of a node's chunks.
const NODE_LOG2: u32 = 8;
/// For longer runs the page cache forgets the whole volume at once.
const FORGET_CHUNKS_MAX: u64 = 1 << 16;

/// One volume of a checkpoint.
pub(crate) struct Member {
    backing: Arc<Backing>,
    pub volume: Arc<LiveVolume>,
    /// All writes below are in `frozen` or in the root.
    frozen_at: JournalPosition,
    /// Size that the volume gets with the commit.
    pub len: u64,
    frozen: Arc<Overlay>,
    edits: Vec<ChunkRun>,
    /// First byte that is not destaged yet.
    cursor: u64,
    /// `unprobed` is decided for bytes below this one.
    probed_to: u64,
    /// These bytes are not looked up in the fingerprint index.
    unprobed: bool,
    /// The chunk that the new size cuts is still to be done.
    cut: bool,
    /// Ranges that cannot be taken, and the reason for the first.
    kept: Vec<Range<u64>>,
    why: Option<String>,
    /// Ranges of important writes that stay in the journal.
    held: Vec<Range<u64>>,
    /// Positions of writes that the last checkpoint left there.
    was_held: Range<u64>,
    /// Assembled chunks that are not stored yet; empty between steps.
    batch: Batch,
    /// Records of the writes below this byte were read ahead.
    ahead_to: u64,
    /// From this byte on there was no space: these writes stay in the journal.
    rest: Option<u64>,
}

/// Chunks that are stored together.
#[derive(Default)]
struct Batch {
    /// Number of each chunk, and what to do with it.
    chunks: Vec<(u64, Assembled)>,
    /// Their bytes, in order. The rest of the buffer is for the next chunks.
    bytes: Vec<u8>,
}

/// How a chunk was made.
#[derive(Clone, Copy)]
struct Assembled {
    /// Class of its first important write that is in memory, else of its first one; 0 if none is.
    class: IoClass,
    /// The class is known and important: the fast tier gets the chunk as it is stored
    /// (Differentiated Storage Services). Other writes do not fill it (DDFS).
    is_important: bool,
    /// All written bytes were in memory: the chunk should stay there.
    is_resident: bool,
    /// A part of it was read from the root: the chunk is in use (DDFS: writes fill the fast tier
    /// for read-modify-write).
    is_modified: bool,
}

impl Member {
    /// Freezes the active overlay. Writers wait only while the overlay is exchanged.
    pub fn freeze(
        backing: &Arc<Backing>,
        tally: &Tally,
        volume: Arc<LiveVolume>,
        len: Option<u64>,
    ) -> Self {
        let (frozen_at, frozen, len, size, was_held) = {
            let _shut = volume.shut();
            let frozen_at = backing.journal.head();
            let mut state = volume.state_mut();
            let frozen = state.active.take().tallied_by(tally);
            let frozen = Arc::new(frozen);
            state.frozen = Some(Arc::clone(&frozen));
            state.fresh = false;
            let was_held = state.held.clone();
            let len = len.unwrap_or(state.size);
            (frozen_at, frozen, len, state.size, was_held)
        };
        let within = len % volume.chunk_bytes();
        Self {
            backing: Arc::clone(backing),
            frozen_at,
            edits: Vec::with_capacity(frozen.len()),
            frozen,
            len,
            cursor: 0,
            probed_to: 0,
            unprobed: false,
            cut: len < size && within != 0,
            kept: Vec::new(),
            why: None,
            held: Vec::new(),
            was_held,
            batch: Batch::default(),
            ahead_to: 0,
            rest: None,
            volume,
        }
    }

    /// Forgets what was destaged: it may not be stored.
    pub fn start_over(&mut self, cut: bool) {
        self.edits.clear();
        self.batch.chunks.clear();
        self.cursor = 0;
        self.probed_to = 0;
        self.kept.clear();
        self.held.clear();
        self.why = None;
        self.rest = None;
        self.cut = cut;
    }

    /// Returns true if the commit cuts the last chunk.
    pub fn cuts(&self) -> bool {
        let size = self.volume.state().size;
        self.len < size && !self.len.is_multiple_of(self.volume.chunk_bytes())
    }

    /// Destages about `budget` bytes, within the limits. Writes that do not fit stay frozen.
    /// Returns true when no more can be done.
    pub fn destage(&mut self, lane: &mut Lane, budget: u64, limits: &mut Limits) -> Result<bool> {
        let done = self.assemble_some(lane, budget, limits)?;
        self.store_batch(lane)?;
        Ok(done)
    }

    fn assemble_some(&mut self, lane: &mut Lane, budget: u64, limits: &mut Limits) -> Result<bool> {
        let (chunk_bytes, log2) = (self.volume.chunk_bytes(), self.volume.log2);
        let mut done = 0;
        while done < budget {
            // A piece that begins before the end may reach past it.
            let reaches = |p: &Piece| p.offset.max(self.cursor) < self.len;
            let Some(piece) = self.frozen.next(self.cursor).filter(reaches) else {
                if self.cut {
                    self.cut = false;
                    self.store_batch(lane)?;
                    let last = self.len >> log2;
                    if self.edits.last().is_none_or(|e| e.first + e.count <= last) {
                        self.destage_chunk(lane, last)?;
                    }
                }
                return Ok(true);
            };
            let from = piece.offset.max(self.cursor);
            let chunk = from >> log2;
            let start = chunk << log2;
            if self.holds_back(start, &piece, limits) {
                self.cursor = start + chunk_bytes;
                done += chunk_bytes / 16;
                continue;
            }
            if !self.takes(chunk, &piece, &mut limits.room) {
                self.rest = Some(start);
                return Ok(true);
            }
            let zeroes_end = if piece.end() >= self.len {
                self.len.next_multiple_of(chunk_bytes)
            } else {
                piece.end() & !(chunk_bytes - 1)
            };
            if piece.source == Source::Zero && piece.offset <= start && zeroes_end > start {
                let count = (zeroes_end - start) >> log2;
                self.store_batch(lane)?;
                self.push(chunk, count, Fingerprint::HOLE);
                self.cursor = zeroes_end;
                // A hole costs a record, not bytes.
                done += chunk_bytes;
                continue;
            }
            if let Source::Chunks(chunks) = &piece.source
                && piece.offset <= start
                && piece.end() >= (start + chunk_bytes).min(self.len)
                && !self.cuts_chunk(start)
            {
                let (fingerprint, _) = chunks.at(start - piece.offset)?;
                self.store_batch(lane)?;
                self.push(chunk, 1, fingerprint);
                self.cursor = start + chunk_bytes;
                done += chunk_bytes / 16;
                continue;
            }
            if start >= self.probed_to {
                self.choose_probe(lane, start)?;
            }
            self.destage_chunk(lane, chunk)?;
            self.cursor = start + chunk_bytes;
            done += chunk_bytes;
        }
        Ok(false)
    }

    /// Takes the maximum size of a chunk of this piece from `room`. Returns false if `room` is too
    /// small.
    fn takes(&self, chunk: u64, piece: &Piece, room: &mut u64) -> bool {
        let is_near =
            |edit: &ChunkRun| (edit.first + edit.count - 1) >> NODE_LOG2 == chunk >> NODE_LOG2;
        let node = match self.edits.last().is_some_and(is_near) {
            true => 0,
            false => NODE_BYTES,
        };
        let data = match piece.source {
            Source::Record { .. } | Source::Lost => self.volume.chunk_bytes(),
            // Partial chunks at both ends are not counted: `Room` leaves a margin for them.
            Source::Zero | Source::Chunks(_) => 0,
        };
        let left = room.checked_sub(node + data);
        *room = left.unwrap_or(*room);
        left.is_some()
    }

    /// Returns the position below which the journal is not needed once the commit is durable.
    pub fn applied(&self) -> JournalPosition {
        let left = self.left().into_iter().filter_map(|piece| piece.needs());
        left.fold(self.frozen_at, Ord::min)
    }

    /// Returns the frozen pieces for which there was no space.
    fn left(&self) -> Vec<Piece> {
        let mut left = Vec::new();
        if let Some(from) = self.rest {
            self.frozen.visit(from, u64::MAX, |piece| left.push(piece));
        }
        left
    }

    /// Returns true if there was no space for some of the writes.
    pub fn is_part(&self) -> bool {
        self.rest.is_some()
    }

    /// Returns true for the chunk that a smaller size cuts.
    fn cuts_chunk(&self, start: u64) -> bool {
        self.cuts() && self.len - start < self.volume.chunk_bytes()
    }

    /// Measures the run of written bytes that starts here, and chooses whether to look its chunks
    /// up.
    fn choose_probe(&mut self, lane: &mut Lane, start: u64) -> Result<()> {
        let mut end = start;
        while end - start < PROBE_BYTES_MIN
            && let Some(piece) = self.frozen.next(end)
            && piece.offset <= end
        {
            end = piece.end();
        }
        let long = end - start >= PROBE_BYTES_MIN;
        let unprobed = !long && self.backing.access.switches.unprobed_writes;
        if unprobed != self.unprobed {
            self.store_batch(lane)?;
            self.unprobed = unprobed;
        }
        self.probed_to = end.max(start + 1);
        Ok(())
    }

    fn destage_chunk(&mut self, lane: &mut Lane, chunk: u64) -> Result<()> {
        let chunk_bytes = self.volume.chunk_bytes() as usize;
        let mut batch = std::mem::take(&mut self.batch);
        self.read_ahead(chunk);
        let start = batch.chunks.len() * chunk_bytes;
        batch.bytes.truncate(start);
        batch.bytes.resize(start + chunk_bytes, 0);
        let bytes = batch.bytes.part_mut(start..)?;
        match self.assemble(chunk, bytes) {
            Ok(assembled) => batch.chunks.push((chunk, assembled)),
            // The bytes around the write are damaged. The write stays in the journal until the
            // chunk is overwritten or repaired. The checkpoint continues.
            Err(e) if is_damage(&e) => self.keep(chunk, &e),
            Err(e) => return Err(e),
        }
        self.batch = batch;
        match (self.batch.chunks.len() + 1) * chunk_bytes > BATCH_BYTES {
            true => self.store_batch(lane),
            false => Ok(()),
        }
    }

    fn store_batch(&mut self, lane: &mut Lane) -> Result<()> {
        if self.batch.chunks.is_empty() {
            return Ok(());
        }
        lane.set_probe(match self.unprobed {
            true => Probe::Near,
            false => Probe::Index,
        });
        let mut batch = std::mem::take(&mut self.batch);
        let chunks: Vec<_> = batch
            .bytes
            .chunks(self.volume.chunk_bytes() as usize)
            .take(batch.chunks.len())
            .collect();
        let names = lane.store_chunks(&chunks)?;
        let count = batch.chunks.len() as u64;
        Meters::add(
            &self.backing.meters.chunks_unprobed,
            count * u64::from(self.unprobed),
        );
        let offers = self.backing.access.switches.fast_tier_modified;
        for (((chunk, of), bytes), name) in batch.chunks.drain(..).zip(chunks).zip(names) {
            if of.is_resident && !name.is_hole() {
                let purpose = Use::Prefetch.of(of.class);
                self.backing.cache.insert(&name, bytes, None, purpose);
            }
            let meters = &self.backing.meters;
            let is_modified = of.is_modified && offers;
            Meters::add(&meters.modified_chunks, is_modified.into());
            Meters::add(&meters.important_chunks, of.is_important.into());
            let reader = self.backing.pool.reader();
            if !name.is_hole() {
                reader.note_stored(&name, of.class, bytes.len());
            }
            if is_modified || of.is_important {
                let admit = Admit::data(of.class);
                reader.give_to_fast_tier(&name, admit, bytes);
            }
            self.push(chunk, 1, name);
        }
        self.batch = batch;
        Ok(())
    }

    /// Returns the chunks that were destaged so far.
    pub fn edits(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.edits.iter().map(|edit| edit.fingerprint)
    }

    fn push(&mut self, first: u64, count: u64, fingerprint: Fingerprint) {
        if fingerprint.is_hole()
            && let Some(last) = self.edits.last_mut()
            && last.fingerprint.is_hole()
            && last.first + last.count == first
        {
            last.count += count;
            return;
        }
        self.edits.push(ChunkRun {
            first,
            count,
            fingerprint,
        });
    }

    /// Builds a chunk from the root's bytes and the frozen writes.
    fn assemble(&self, chunk: u64, bytes: &mut [u8]) -> Result<Assembled> {
        let start = chunk << self.volume.log2;
        let end = start.saturating_add(bytes.len() as u64).min(self.len);
        let mut pieces = Vec::new();
        let mut covered = 0;
        self.frozen.visit(start, end, |piece| {
            covered += piece.len;
            pieces.push(piece);
        });
        let used = (end - start) as usize;
        let mut is_modified = false;
        if covered < used as u64 {
            let root = self.volume.state().root;
            let base = bytes.part_mut(..used)?;
            is_modified = self.volume.fill_root(&root, start, base)?;
        }
        let (mut is_resident, mut class, mut is_important) = (true, None, false);
        for piece in pieces {
            is_resident &= self.is_resident(&piece);
            if let Some(of_piece) = piece.class().filter(|_| !is_important) {
                is_important = self.backing.admits(of_piece, false).is_some();
                class = class.filter(|_| !is_important).or(Some(of_piece));
            }
            let at = (piece.offset - start) as usize;
            let into = bytes.part_mut(at..at + piece.len as usize)?;
            self.volume.fill_piece(&piece, into)?;
        }
        Ok(Assembled {
            class: class.unwrap_or_default(),
            is_important,
            is_resident,
            is_modified,
        })
    }

    fn is_resident(&self, piece: &Piece) -> bool {
        let (page, version) = (piece.offset / PAGE_BYTES, piece.position.0);
        let object = self.volume.object;
        self.backing.cache.is_dirty_resident(object, page, version)
    }

    /// Stores the nodes of the new root. Changes below damaged nodes are kept back. Returns `None`
    /// if nothing of the volume can be taken.
    pub fn apply(&mut self, session: &mut WriteSession) -> Result<Option<ObjectRoot>> {
        for _ in 0..2 {
            let mut damaged = false;
            match self.try_apply(session, &mut damaged) {
                Err(e) if damaged => {
                    self.keep_unreachable();
                    self.why.get_or_insert_with(|| e.to_string());
                }
                applied => return applied.map(Some),
            }
        }
        self.edits.clear();
        let all = 0..self.len.max(self.volume.state().size);
        self.kept = Vec::from([all]);
        Ok(None)
    }

    fn try_apply(&self, session: &mut WriteSession, damaged: &mut bool) -> Result<ObjectRoot> {
        let root = self.volume.state().root;
        let reader = Arc::clone(self.backing.pool.reader());
        let lane = session.main();
        let chunks = self.len.div_ceil(self.volume.chunk_bytes());
        let within = self.edits.partition_point(|e| e.first < chunks);
        replace(
            &root,
            self.len,
            self.edits.part(..within)?,
            &mut |f| {
                let node = reader.recipe_node(f);
                *damaged |= node.as_ref().is_err_and(is_damage);
                node
            },
            &mut |node| lane.store_node(node),
            &mut |old| reader.note_replaced(old),
        )
    }

    /// Keeps back the changes whose path through the recipe is damaged.
    fn keep_unreachable(&mut self) {
        let root = self.volume.state().root;
        let log2 = self.volume.log2;
        let reader = self.backing.pool.reader();
        let is_reachable = |chunk: u64| {
            let offset = chunk << log2;
            let load = &mut |node: &Fingerprint| reader.node(node, Approach::default());
            offset >= root.len || fixed_chunk(&root, log2, offset, load).is_ok()
        };
        let mut kept = Vec::new();
        self.edits.retain(|edit| {
            let last = edit.first + edit.count - 1;
            let reachable = is_reachable(edit.first) && is_reachable(last);
            if !reachable {
                kept.push(edit.first << log2..(last + 1) << log2);
            }
            reachable
        });
        self.kept.extend(kept);
        self.kept.sort_unstable_by_key(|range| range.start);
    }

    /// Keeps a chunk back.
    fn keep(&mut self, chunk: u64, why: &StoreError) {
        let start = chunk << self.volume.log2;
        self.kept.push(start..start + self.volume.chunk_bytes());
        self.why.get_or_insert_with(|| why.to_string());
    }

    /// Returns the ranges that cannot be taken, if any.
    pub fn kept(&self) -> Option<KeptRanges> {
        let why = self.why.as_deref()?;
        Some(KeptRanges::new(&self.kept, why))
    }

    /// Returns true if the commit would not change the volume.
    pub fn is_without_edits(&self) -> bool {
        self.edits.is_empty() && self.len == self.volume.state().size
    }

    /// Carries forward what cannot be taken, and what is held back. Returns true if there was
    /// anything.
    pub fn carry(&self, losses: &Losses) -> Result<bool> {
        let journal = &self.backing.journal;
        let begin = journal.head();
        for (ranges, pages) in [(&self.kept, None), (&self.held, Some(&self.backing.cache))] {
            let to = Destination {
                journal,
                losses,
                pages,
            };
            for range in ranges {
                let range = range.start..range.end.min(self.len);
                carry(&to, &self.volume, &self.frozen, &range)?;
            }
        }
        self.volume.state_mut().held = match self.held.is_empty() {
            true => 0..0,
            false => begin.0..journal.head().0,
        };
        Ok(!self.kept.is_empty() || !self.held.is_empty())
    }

    /// Switches the volume to its new root after the commit.
    pub fn unfreeze(self, root: ObjectRoot) {
        let object = self.volume.object;
        // The page cache must not learn places while some are removed and the root is still the old
        // one. Until the switch, the frozen overlay covers the places whose chunks change.
        self.volume.state_mut().aliasing = false;
        let chunks = |len: u64| len.div_ceil(self.volume.chunk_bytes());
        let size = self.volume.state().size;
        let cut = chunks(root.len)..chunks(size).max(chunks(root.len));
        let edited = self.edits.iter().map(|e| e.first..e.first + e.count);
        let replaced: Vec<_> = edited.chain([cut]).collect();
        if replaced.iter().any(|r| r.end - r.start > FORGET_CHUNKS_MAX) {
            self.backing.cache.forget_object(object);
        } else {
            for chunk in replaced.into_iter().flatten() {
                self.backing.cache.forget_place(Place { object, chunk });
            }
        }
        {
            let mut state = self.volume.state_mut();
            if root.len < state.size {
                state.active.truncate(root.len);
            }
            state.size = root.len;
            state.root = root;
            state.frozen = None;
            state.aliasing = true;
            state.fresh |= self.is_part() || !self.held.is_empty();
            for piece in self.left() {
                state.active.insert(piece);
            }
        }
        let taken_to = self.rest.unwrap_or(u64::MAX);
        self.frozen.visit(0, taken_to, |piece| {
            if let Source::Record { .. } = &piece.source {
                let pages = piece.offset.div_ceil(PAGE_BYTES)..piece.end() / PAGE_BYTES;
                for page in pages {
                    self.backing.cache.destaged(object, page, piece.position.0);
                }
            }
        });
    }

    /// Makes the frozen writes active again, after an abort or because nothing can be taken.
    /// `tried`: no checkpoint need try again before the next write.
    pub fn thaw(self, tried: bool) {
        let _shut = self.volume.shut();
        let mut state = self.volume.state_mut();
        state.frozen = None;
        let newer = state.active.take();
        self.frozen
            .visit(0, u64::MAX, |piece| state.active.insert(piece));
        newer.visit(0, u64::MAX, |piece| state.active.insert(piece));
        state.fresh |= !tried && !state.active.is_empty();
    }
}

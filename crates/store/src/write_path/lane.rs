//! One thread's way into the pool: its own open regions and containers, nothing shared but the
//! chunk map and the numbers.

use super::session_state::Shared;
use chunk_store::catalog::InventoryEntry;
use chunk_store::chunk_map::Near;
use chunk_store::container::{ContainerBuilder, ProvenRegion, RegionBuilder, container_name};
use chunk_store::index::Location;
use chunk_store::{Result, StoreError, StoreErrorKind};
use chunking::{Compression, Compressor, Splitter, TOGETHER, is_zero};
use format::container::ContainerClass;
use format::recipe::{Layout, ObjectRoot};
use media::Put;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{ContainerId, Fingerprint};

use chunk_store::recipe::ObjectBuilder;

/// How far a lane looks for a chunk before it stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Everywhere: recent chunks, directories, then the fingerprint index.
    Index,
    /// Only where it costs no device read: small random writes (DDFS, ATC'18).
    Near,
}

/// How a lane packs.
#[derive(Clone, Copy, Debug)]
pub struct LaneOptions {
    /// What regions are compressed with.
    pub compression: Compression,
    /// Raw bytes of a data region; larger compresses better, smaller reads faster at random.
    pub region_bytes: usize,
    /// Containers are closed at this size, bytes.
    pub container_bytes: usize,
}

/// Raw bytes of a recipe region: metadata is read in small pieces.
const RECIPE_REGION_BYTES: usize = 128 << 10;

/// The open region and container of one class.
struct Filling {
    region_bytes: usize,
    region: RegionBuilder,
    container: Option<ContainerBuilder>,
}

/// One thread's way into the pool. Goes back to its session with `WriteSession::retire`.
pub struct Lane {
    shared: Arc<Shared>,
    options: LaneOptions,
    compressor: Compressor,
    data: Filling,
    recipe: Filling,
    near: Near,
    splitter: Splitter,
    probe: Probe,
}

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, options: LaneOptions) -> Result<Self> {
        let filling = |region_bytes| Filling {
            region_bytes,
            region: RegionBuilder::default(),
            container: None,
        };
        let compressor = Compressor::new(options.compression, shared.may_filter())
            .map_err(|e| StoreError::new(StoreErrorKind::Invalid, e.to_string()))?;
        let splitter = Splitter::new(shared.chunk_bytes_average());
        Ok(Self {
            shared,
            options,
            compressor,
            data: filling(options.region_bytes),
            recipe: filling(RECIPE_REGION_BYTES),
            near: Near::default(),
            splitter,
            probe: Probe::Index,
        })
    }

    /// How far to look for chunks from now on.
    pub fn set_probe(&mut self, probe: Probe) {
        self.probe = probe;
    }

    /// The pool's splitter.
    pub fn splitter(&self) -> Splitter {
        self.splitter
    }

    /// Stores one chunk of user data unless the pool has it; zeroes become a hole.
    pub fn store_chunk(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        self.count_logical(chunk);
        if is_zero(chunk) {
            return Ok(Fingerprint::HOLE);
        }
        self.store(ContainerClass::Data, chunk)
    }

    /// The same of several, in order: fingerprinting them together is faster.
    pub fn store_chunks(&mut self, chunks: &[&[u8]]) -> Result<Vec<Fingerprint>> {
        let mut stored = Vec::with_capacity(chunks.len());
        // What was just hashed is copied while the processor's cache has it.
        for group in chunks.chunks(TOGETHER) {
            let written = group.iter().copied().filter(|chunk| !is_zero(chunk));
            let mut names = self.shared.fingerprints.fingerprints(written).into_iter();
            for chunk in group {
                self.count_logical(chunk);
                if is_zero(chunk) {
                    stored.push(Fingerprint::HOLE);
                } else if let Some(name) = names.next() {
                    stored.push(self.store_named(ContainerClass::Data, name, chunk)?);
                }
            }
        }
        Ok(stored)
    }

    fn count_logical(&self, chunk: &[u8]) {
        let counts = &self.shared.counts;
        counts
            .logical_bytes
            .fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }

    /// Stores a recipe node, directory piece or catalog node unless the pool has it.
    pub fn store_node(&mut self, node: &[u8]) -> Result<Fingerprint> {
        self.store(ContainerClass::Recipe, node)
    }

    /// True when the pool has the chunk, or this session stores it: who knows its fingerprint (a pool
    /// of the same dedup domain) need not read it.
    pub fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        let shared = &self.shared;
        shared
            .chunks
            .holds(&shared.claims, fingerprint, &mut self.near)
    }

    /// Stores chunks that have been found to be what they are called, unless the pool has them.
    pub(crate) fn store_proven(
        &mut self,
        class: ContainerClass,
        chunks: &[(Fingerprint, &[u8])],
    ) -> Result<()> {
        for (name, chunk) in chunks {
            self.store_named(class, *name, chunk)?;
        }
        Ok(())
    }

    /// Stores a region of other chunks as another container holds it, whatever this lane compresses
    /// with. `chunks` are all of its; the pool gets another copy of those that it has. `Corruption`
    /// when its bytes changed in memory since they were proven: none of it is stored.
    pub(crate) fn store_region(
        &mut self,
        class: ContainerClass,
        region: &ProvenRegion,
        chunks: &[(Fingerprint, u32)],
    ) -> Result<()> {
        let counts = &self.shared.counts;
        let bytes = chunks.iter().map(|(_, len)| u64::from(*len)).sum();
        counts
            .chunks_new
            .fetch_add(chunks.len() as u64, Ordering::Relaxed);
        counts.new_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.make_room(class, region.opened().payload().len())?;
        self.open_container(class);
        let shared = Arc::clone(&self.shared);
        let Some(container) = &mut self.filling(class).container else {
            return Ok(());
        };
        let Some((sector, sectors)) = container.append_proven(region, chunks) else {
            let found = "changed in memory between its check and its seal";
            return Err(StoreError::corruption("region", container.id(), found));
        };
        let location = Location {
            container: container.id(),
            sector,
            sectors,
        };
        shared.chunks.claim_stored(&shared.claims, chunks);
        shared.chunks.remember(chunks, location)
    }

    fn store(&mut self, class: ContainerClass, chunk: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.shared.fingerprints.fingerprint(chunk);
        self.store_named(class, fingerprint, chunk)
    }

    fn store_named(
        &mut self,
        class: ContainerClass,
        fingerprint: Fingerprint,
        chunk: &[u8],
    ) -> Result<Fingerprint> {
        let counts = &self.shared.counts;
        let shared = &self.shared;
        let claims = &shared.claims;
        let known = match self.probe {
            Probe::Index => shared.chunks.claim(claims, &fingerprint, &mut self.near)?,
            Probe::Near => shared
                .chunks
                .claim_near(claims, &fingerprint, &mut self.near),
        };
        if known {
            counts.chunks_known.fetch_add(1, Ordering::Relaxed);
            return Ok(fingerprint);
        }
        self.push(class, fingerprint, chunk)?;
        Ok(fingerprint)
    }

    fn push(
        &mut self,
        class: ContainerClass,
        fingerprint: Fingerprint,
        chunk: &[u8],
    ) -> Result<()> {
        let counts = &self.shared.counts;
        counts.chunks_new.fetch_add(1, Ordering::Relaxed);
        counts
            .new_bytes
            .fetch_add(chunk.len() as u64, Ordering::Relaxed);
        let filling = self.filling(class);
        filling.region.push(fingerprint, chunk);
        if filling.region.len() >= filling.region_bytes {
            self.flush_region(class)?;
        }
        Ok(())
    }

    /// Stores one chunk of user data although the pool has it: its newer copy is read from then on.
    /// What the bytes are called, if that is not `name`: then nothing is stored.
    pub(crate) fn store_again(
        &mut self,
        name: &Fingerprint,
        chunk: &[u8],
    ) -> Result<Option<Fingerprint>> {
        let found = self.shared.fingerprints.fingerprint(chunk);
        if found != *name {
            return Ok(Some(found));
        }
        self.push(ContainerClass::Data, found, chunk)?;
        Ok(None)
    }

    /// The next `bytes` of data lie side by side: in the open region if they fit, else from a new one
    /// on, and in one container if one can take them.
    pub(crate) fn begin_run(&mut self, bytes: usize) -> Result<()> {
        let class = ContainerClass::Data;
        let (target, filling) = (self.options.container_bytes, &self.data);
        let open = filling.region.len();
        if open > 0 && open + bytes > filling.region_bytes {
            self.flush_region(class)?;
        }
        let is_full = |c: &ContainerBuilder| c.is_full(self.data.region.len() + bytes, target);
        if bytes <= target / 2 && self.data.container.as_ref().is_some_and(is_full) {
            self.close(class)?;
        }
        Ok(())
    }

    /// Splits a whole object at content-defined places and stores it. For what fits in memory:
    /// small files, directories (`class` recipe).
    pub fn store_object(&mut self, bytes: &[u8], metadata: bool) -> Result<ObjectRoot> {
        split_object(
            self.splitter,
            bytes,
            &mut |chunk, is_node| match metadata || is_node {
                true => self.store_node(chunk),
                false => self.store_chunk(chunk),
            },
        )
    }

    /// At most so many bytes are stored here and in no container that was put.
    pub fn open_bytes(&self) -> u64 {
        let open = |filling: &Filling| {
            let container = filling
                .container
                .as_ref()
                .map_or(0, ContainerBuilder::bytes);
            (filling.region.len() + container) as u64
        };
        open(&self.data) + open(&self.recipe)
    }

    /// Raw bytes that a region of the class has when it is full.
    pub(crate) fn region_bytes(&self, class: ContainerClass) -> usize {
        match class {
            ContainerClass::Data => self.data.region_bytes,
            ContainerClass::Recipe => self.recipe.region_bytes,
        }
    }

    /// What the pool calls a chunk, which is not stored by this.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.shared.fingerprints.fingerprint(chunk)
    }

    /// What storing a whole object as metadata would return; stores nothing.
    pub fn name_object(&self, bytes: &[u8]) -> Result<ObjectRoot> {
        split_object(self.splitter, bytes, &mut |chunk, _| {
            Ok(self.fingerprint(chunk))
        })
    }

    fn filling(&mut self, class: ContainerClass) -> &mut Filling {
        match class {
            ContainerClass::Data => &mut self.data,
            ContainerClass::Recipe => &mut self.recipe,
        }
    }

    /// Compresses and appends the open region.
    fn flush_region(&mut self, class: ContainerClass) -> Result<()> {
        if self.filling(class).region.is_empty() {
            return Ok(());
        }
        let raw_bytes = self.filling(class).region.len();
        self.make_room(class, raw_bytes)?;
        self.append_region(class)
    }

    /// Closes the open container when so many bytes more are too many.
    fn make_room(&mut self, class: ContainerClass, bytes: usize) -> Result<()> {
        let target = self.options.container_bytes;
        let open = &self.filling(class).container;
        match open.as_ref().is_some_and(|c| c.is_full(bytes, target)) {
            true => self.close_container(class),
            false => Ok(()),
        }
    }

    /// The same into the container that is open, however full it is.
    fn append_region(&mut self, class: ContainerClass) -> Result<()> {
        if self.filling(class).region.is_empty() {
            return Ok(());
        }
        self.open_container(class);
        let Self {
            shared,
            compressor,
            data,
            recipe,
            ..
        } = self;
        let filling = if class == ContainerClass::Data {
            data
        } else {
            recipe
        };
        let Some(container) = &mut filling.container else {
            return Ok(());
        };
        let chunks = filling.region.chunks().to_vec();
        let (sector, sectors) = container.append(&mut filling.region, compressor);
        let location = Location {
            container: container.id(),
            sector,
            sectors,
        };
        shared.chunks.remember(&chunks, location)
    }

    /// Makes sure that a container of the class is open and returns its number.
    pub(super) fn open_container(&mut self, class: ContainerClass) -> ContainerId {
        let capacity = match class {
            // With room for the directory: growing would move all of it.
            ContainerClass::Data => self.options.container_bytes / 16 * 17,
            ContainerClass::Recipe => RECIPE_REGION_BYTES,
        };
        let shared = Arc::clone(&self.shared);
        let filling = self.filling(class);
        filling
            .container
            .get_or_insert_with(|| shared.new_container(class, capacity))
            .id()
    }

    /// Finishes and puts the open container of a class.
    fn close_container(&mut self, class: ContainerClass) -> Result<()> {
        let Some(container) = self.filling(class).container.take() else {
            return Ok(());
        };
        let finished = container.finish(&mut self.compressor);
        let entry = InventoryEntry {
            id: finished.id,
            class: finished.class,
            blob_bytes: finished.blob.len() as u64,
        };
        let (name, blobs) = (container_name(finished.id), &self.shared.media.blobs);
        match blobs.put_for(&name, finished.blob, Put::New, self.shared.need()) {
            Ok(()) => {
                self.shared.finished(entry);
                Ok(())
            }
            Err(e) => {
                // Others may have deduplicated against what was in it, and no commit may name it.
                self.shared.lose_chunks();
                Err(e.into())
            }
        }
    }

    /// The same for who is not of the write path: the lane goes on in a new container.
    pub fn put_open(&mut self, class: ContainerClass) -> Result<()> {
        self.close(class)
    }

    /// Writes out whatever is open in one class.
    pub(super) fn close(&mut self, class: ContainerClass) -> Result<()> {
        self.flush_region(class)?;
        self.close_container(class)
    }

    /// Compresses the open recipe region into the container that is open, whatever its size.
    pub(super) fn flush_nodes(&mut self) -> Result<()> {
        self.append_region(ContainerClass::Recipe)
    }

    /// Gives what this lane has open to `to`: small leftovers are moved, so that lanes do not
    /// leave a small container each; started containers are finished.
    pub(super) fn retire_into(mut self, to: &mut Lane) -> Result<()> {
        for class in [ContainerClass::Data, ContainerClass::Recipe] {
            if self.filling(class).container.is_some() {
                self.close(class)?;
                continue;
            }
            let region = std::mem::take(&mut self.filling(class).region);
            for (fingerprint, chunk) in region.into_chunks() {
                let filling = to.filling(class);
                filling.region.push(fingerprint, &chunk);
                if filling.region.len() >= filling.region_bytes {
                    to.flush_region(class)?;
                }
            }
        }
        Ok(())
    }
}

/// Cuts an object and hands its chunks out, and its recipe nodes (with true).
fn split_object(
    splitter: Splitter,
    bytes: &[u8],
    store: &mut dyn FnMut(&[u8], bool) -> Result<Fingerprint>,
) -> Result<ObjectRoot> {
    let mut builder = ObjectBuilder::new(Layout::Variable);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(splitter.next_len(rest).clamp(1, rest.len()));
        let fingerprint = store(chunk, false)?;
        builder.push(fingerprint, chunk.len() as u64, &mut |node| {
            store(node, true)
        })?;
        rest = later;
    }
    builder.finish(&mut |node| store(node, true))
}

impl Drop for Lane {
    fn drop(&mut self) {
        let open = |filling: &Filling| !filling.region.is_empty() || filling.container.is_some();
        if open(&self.data) || open(&self.recipe) {
            self.shared.lose_chunks();
        }
    }
}

//! A lane: state with which one thread writes into the pool. It owns its open regions and
//! containers. Sessions create lanes; the program's threads, volumes and garbage collection write
//! with them.
//!
//! Invariant: a lane shares only the chunk map and the numbers of its session. A lane that is
//! dropped with unfinished contents prevents the session's commit.

use super::region_sizes::{IMAGE_REGION_BYTES, RegionKind};
use super::session_state::SessionState;
use chunk_store::catalog::InventoryEntry;
use chunk_store::chunk_map::Near;
use chunk_store::container::{
    Appended, ContainerBuilder, Contents, ProvenRegion, RegionBuilder, container_name,
};
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

/// Selects where a lane looks for a chunk before storing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Everywhere: claims, directories, then the fingerprint index.
    Index,
    /// Only where no device read is needed: small random writes (DDFS, ATC'18).
    Near,
}

/// Options for packing.
#[derive(Clone, Copy, Debug)]
pub struct LaneOptions {
    /// Compression of regions.
    pub compression: Compression,
    /// Raw size of a data region, bytes. Larger regions compress better, smaller ones suit random
    /// reads.
    pub region_bytes: usize,
    /// Containers are closed at this size, bytes.
    pub container_bytes: usize,
}

/// Raw size of a recipe region, bytes: metadata is read in small pieces.
const RECIPE_REGION_BYTES: usize = 128 << 10;

/// The open region and container of one class.
struct Filling {
    region_bytes: usize,
    region: RegionBuilder,
    container: Option<ContainerBuilder>,
}

/// State with which one thread writes. Return it with `WriteSession::retire`.
pub struct Lane {
    shared: Arc<SessionState>,
    options: LaneOptions,
    compressor: Compressor,
    /// For regions of images, if the default compression is used. Made when it is needed.
    image_compressor: Option<Compressor>,
    data: Filling,
    recipe: Filling,
    near: Near,
    splitter: Splitter,
    probe: Probe,
}

impl Lane {
    pub(super) fn new(shared: Arc<SessionState>, options: LaneOptions) -> Result<Self> {
        let filling = |region_bytes| Filling {
            region_bytes,
            region: RegionBuilder::default(),
            container: None,
        };
        let compressor = compressor(options.compression, &shared)?;
        let splitter = Splitter::new(shared.chunk_bytes_average());
        Ok(Self {
            shared,
            options,
            compressor,
            image_compressor: None,
            data: filling(options.region_bytes),
            recipe: filling(RECIPE_REGION_BYTES),
            near: Near::default(),
            splitter,
            probe: Probe::Index,
        })
    }

    /// Sets where to look for chunks from now on.
    pub fn set_probe(&mut self, probe: Probe) {
        self.probe = probe;
    }

    /// Sets the size of data regions from now on. What is in the open one stays by itself.
    pub fn pack_in(&mut self, kind: RegionKind) -> Result<()> {
        let bytes = kind.region_bytes(self.options.region_bytes);
        let is_default = self.options.compression == Compression::Default;
        if kind == RegionKind::Middle && is_default && self.image_compressor.is_none() {
            self.image_compressor = Some(compressor(Compression::SmallRegions, &self.shared)?);
        }
        if self.data.region_bytes != bytes {
            self.flush_region(ContainerClass::Data)?;
            self.data.region_bytes = bytes;
        }
        Ok(())
    }

    /// Sets the size of data regions for the contents of this container, to be packed again.
    pub(crate) fn pack_like(&mut self, contents: &Contents) -> Result<()> {
        self.pack_in(RegionKind::of(contents))
    }

    /// Returns the size of the containers that the whole session has finished, bytes.
    pub fn session_stored_bytes(&self) -> u64 {
        self.shared.counts.stored_bytes.load(Ordering::Relaxed)
    }

    /// Returns the pool's splitter.
    pub fn splitter(&self) -> Splitter {
        self.splitter
    }

    /// Stores one chunk of user data unless the pool has it. Zeroes become a hole.
    pub fn store_chunk(&mut self, chunk: &[u8]) -> Result<Fingerprint> {
        self.count_logical(chunk);
        if is_zero(chunk) {
            return Ok(Fingerprint::HOLE);
        }
        self.store(ContainerClass::Data, chunk)
    }

    /// Stores several chunks in order, like [`Self::store_chunk`]. Fingerprinting them together is
    /// faster.
    pub fn store_chunks(&mut self, chunks: &[&[u8]]) -> Result<Vec<Fingerprint>> {
        let mut stored = Vec::with_capacity(chunks.len());
        // In small groups: a chunk that was just hashed is copied while the CPU cache has it.
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

    /// Returns true if the pool has the chunk or this session stores it. A caller that knows the
    /// fingerprint (from a pool of the same dedup domain) then need not read the chunk.
    pub fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        let shared = &self.shared;
        shared
            .chunks
            .holds(&shared.claims, fingerprint, &mut self.near)
    }

    /// Stores chunks that were verified against their fingerprints, unless the pool has them.
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

    /// Stores a region as another container has it, whatever compression this lane uses. `chunks`
    /// lists all of its chunks; the pool gets a second copy of those it has. Fails with
    /// `Corruption` and stores nothing if the bytes changed in memory since they were proven.
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
        let Some(appended) = container.append_proven(region, chunks) else {
            let found =
                "it changed in memory before it was sealed; check the memory of this machine";
            return Err(StoreError::corruption("region", container.id(), found));
        };
        let location = location(container.id(), &appended);
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

    /// Stores one chunk of user data although the pool has it: readers then use the newer copy. If
    /// the bytes have another fingerprint than `name`, this stores nothing and returns that
    /// fingerprint.
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

    /// Makes the next `bytes` bytes of data contiguous: in the open region if they fit, otherwise
    /// starting with a new region, and in one container if possible.
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

    /// Splits a whole object at content-defined boundaries and stores it. For objects that fit in
    /// memory: small files, and directories with `metadata` set.
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

    /// Returns an upper limit of the bytes that are stored here and not in a container that was
    /// put.
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

    /// Returns the raw size of a full region of the class, bytes.
    pub(crate) fn region_bytes(&self, class: ContainerClass) -> usize {
        match class {
            ContainerClass::Data => self.data.region_bytes,
            ContainerClass::Recipe => self.recipe.region_bytes,
        }
    }

    /// Returns true if regions take no more than their bytes, so that small ones cost little.
    pub(crate) fn packs(&self) -> bool {
        self.shared.packs()
    }

    /// Returns the fingerprint of a chunk without storing it.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.shared.fingerprints.fingerprint(chunk)
    }

    /// Returns the root that storing a whole object as metadata would give. Stores nothing.
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

    /// Closes the open container if `bytes` more bytes would exceed its size.
    fn make_room(&mut self, class: ContainerClass, bytes: usize) -> Result<()> {
        let target = self.options.container_bytes;
        let open = &self.filling(class).container;
        match open.as_ref().is_some_and(|c| c.is_full(bytes, target)) {
            true => self.close_container(class),
            false => Ok(()),
        }
    }

    /// Compresses the open region and appends it to the open container, even if that is full.
    fn append_region(&mut self, class: ContainerClass) -> Result<()> {
        if self.filling(class).region.is_empty() {
            return Ok(());
        }
        self.open_container(class);
        let Self {
            shared,
            compressor,
            image_compressor,
            data,
            recipe,
            ..
        } = self;
        let (filling, compressor) = match (class, image_compressor) {
            (ContainerClass::Recipe, _) => (recipe, compressor),
            (ContainerClass::Data, Some(for_images)) if data.region_bytes <= IMAGE_REGION_BYTES => {
                (data, for_images)
            }
            (ContainerClass::Data, _) => (data, compressor),
        };
        let Some(container) = &mut filling.container else {
            return Ok(());
        };
        let id = container.id();
        container.append(&mut filling.region, compressor, &mut |appended| {
            let location = location(id, &appended);
            shared.chunks.remember(&appended.chunks, location)
        })
    }

    /// Opens a container of the class if none is open. Returns its number.
    pub(super) fn open_container(&mut self, class: ContainerClass) -> ContainerId {
        let capacity = match class {
            // With space for the directory: growing the buffer would move everything.
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
                // Other lanes may have deduplicated against its chunks, and no commit may name it.
                self.shared.lose_chunks();
                Err(e.into())
            }
        }
    }

    /// Puts the open container, for callers outside of the write path. The lane continues in a new
    /// one.
    pub fn put_open(&mut self, class: ContainerClass) -> Result<()> {
        self.close(class)
    }

    /// Writes out the open region and container of one class.
    pub(super) fn close(&mut self, class: ContainerClass) -> Result<()> {
        self.flush_region(class)?;
        self.close_container(class)
    }

    /// Compresses the open recipe region into the open container, whatever its size.
    pub(super) fn flush_nodes(&mut self) -> Result<()> {
        self.append_region(ContainerClass::Recipe)
    }

    /// Moves the open contents of this lane to `to`: small leftovers are moved, so that lanes do
    /// not leave one small container each. Started containers are finished.
    pub(super) fn retire_into(mut self, to: &mut Lane) -> Result<()> {
        for class in [ContainerClass::Data, ContainerClass::Recipe] {
            if self.filling(class).container.is_some() {
                self.close(class)?;
                continue;
            }
            let region = std::mem::take(&mut self.filling(class).region);
            for taken in region.into_chunks() {
                let (fingerprint, chunk) = taken?;
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

/// Returns the index entry of a region.
fn location(container: ContainerId, appended: &Appended) -> Location {
    Location {
        container,
        sector: appended.sector,
        sectors: appended.sectors,
    }
}

/// Splits an object and passes its chunks to `store`, and its recipe nodes (with true).
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

fn compressor(with: Compression, shared: &SessionState) -> Result<Compressor> {
    Compressor::new(with, shared.may_filter())
        .map_err(|e| StoreError::new(StoreErrorKind::Invalid, e.to_string()))
}

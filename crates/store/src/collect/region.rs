//! Copies the live chunks of one region, in three parts: read, check, pack. `copy` calls this.
//!
//! ```text
//! SourceRegion --read--> ReadRegion --look (any thread)--> LookedRegion --pack--> lane
//!   all live: in its stored form     otherwise: the live chunks, packed again
//! ```
//!
//! Invariant: bytes are sealed again only after they were compared with their fingerprints since
//! they were read. A region that is completely live is copied in its stored form, and the checksum
//! of its payload is compared once more in the buffer from which it is sealed. A region in
//! quarantine never goes this way. Checking accesses neither device nor pool, so another thread may
//! do it.

use super::CachedChunks;
use crate::pool::Pool;
use crate::write_path::{FINE_REGION_BYTES, Lane};
use chunk_store::container::{
    ContainerReader, FetchedRegion, OpenedRegion, PLAIN_REGION_BYTES, ProvenRegion, RegionPlace,
};
use chunk_store::{Result, StoreError};
use format::config::Codec;
use format::container::{ContainerClass, sectors_max};
use units::{Fingerprint, Part};

/// A region, its directory entry, and which of its chunks must be copied.
pub(super) struct SourceRegion {
    pub place: RegionPlace,
    pub class: ContainerClass,
    pub stored_bytes: u32,
    /// Fingerprints and lengths of all its chunks.
    pub chunks: Vec<(Fingerprint, u32)>,
    /// Numbers of the live chunks.
    pub wanted: Vec<usize>,
}

/// A region with its stored bytes, not checked yet.
pub(super) struct ReadRegion {
    of: SourceRegion,
    read: Read,
}

enum Read {
    /// All wanted chunks were in memory, so nothing was read.
    Cached,
    Fetched {
        region: FetchedRegion,
        /// It may be copied in its stored form.
        is_whole: bool,
    },
    Failed(StoreError),
}

/// A region after its check.
pub(super) struct LookedRegion {
    of: SourceRegion,
    found: Found,
}

enum Found {
    Cached,
    /// May be copied in its stored form: all of its chunks match their fingerprints.
    Proven(ProvenRegion),
    /// Raw bytes of the region. The wanted chunks match their fingerprints.
    Chunks(Vec<u8>),
    /// A chunk does not match its fingerprint.
    Misnamed,
    Failed(StoreError),
}

/// Receives chunks, each compared with its fingerprint.
pub(super) type Sink<'s> = dyn FnMut((Fingerprint, &[u8])) -> Result<()> + 's;

/// Length of copied chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopiedBytes {
    /// All, bytes.
    pub bytes: u64,
    /// Part of `bytes` that was in memory.
    pub cached_bytes: u64,
    /// Part of `bytes` that was copied in its stored form.
    pub as_stored_bytes: u64,
}

impl SourceRegion {
    /// Reads the region, unless all wanted chunks are in memory.
    pub fn read(self, pool: &Pool, cached: &dyn CachedChunks) -> Result<ReadRegion> {
        if self.is_cached(cached) {
            let read = Read::Cached;
            return Ok(ReadRegion { of: self, read });
        }
        let is_damaged = pool.chunks().quarantine.is_damaged(self.place);
        let is_whole = self.wanted.len() == self.chunks.len() && !is_damaged;
        let sectors = sectors_max(self.stored_bytes);
        let read = match pool.containers().fetched(self.place, sectors) {
            Ok(region) => Read::Fetched { region, is_whole },
            Err(e) if e.is_corruption() => Read::Failed(e),
            Err(e) => return Err(e),
        };
        Ok(ReadRegion { of: self, read })
    }

    /// Returns true if all wanted chunks are in memory.
    pub fn is_cached(&self, cached: &dyn CachedChunks) -> bool {
        !cached.is_empty() && self.wanted_chunks().all(|(name, _)| cached.holds(&name))
    }

    fn wanted_bytes(&self) -> u64 {
        self.wanted_chunks().map(|(_, len)| u64::from(len)).sum()
    }

    fn wanted_chunks(&self) -> impl Iterator<Item = (Fingerprint, u32)> {
        let chunk = |number: &usize| self.chunks.get(*number).copied();
        self.wanted.iter().filter_map(chunk)
    }

    /// Returns the wanted chunks within the raw bytes.
    fn wanted_spans<'a>(&self, raw: &'a [u8]) -> Result<Vec<(Fingerprint, &'a [u8])>> {
        let mut start = 0;
        let mut spans = Vec::with_capacity(self.chunks.len());
        for (name, len) in &self.chunks {
            let end = start + *len as usize;
            spans.push((*name, raw.part(start..end)?));
            start = end;
        }
        let span = |number: &usize| spans.get(*number).copied();
        Ok(self.wanted.iter().filter_map(span).collect())
    }

    fn prove(&self, containers: &ContainerReader, opened: OpenedRegion) -> Found {
        match containers.proven(opened, &self.chunks) {
            Ok(Some(proven)) => Found::Proven(proven),
            Ok(None) => Found::Misnamed,
            Err(e) => Found::Failed(e),
        }
    }

    /// Restores an unreadable region by parity and checks its chunks.
    fn restored(&self, containers: &ContainerReader, why: StoreError) -> Found {
        let is_damage = why.is_corruption();
        match containers.opened_restored(self.place).filter(|_| is_damage) {
            Some(opened) => self.unpack(containers, opened),
            None => Found::Failed(why),
        }
    }

    fn unpack(&self, containers: &ContainerReader, opened: OpenedRegion) -> Found {
        let unpacked = containers.unpacked(opened, &self.chunks);
        let named = unpacked.and_then(|raw| {
            let is_called = containers.is_called(&self.wanted_spans(&raw)?);
            Ok((raw, is_called))
        });
        match named {
            Ok((raw, true)) => Found::Chunks(raw),
            Ok((_, false)) => Found::Misnamed,
            Err(e) => Found::Failed(e),
        }
    }
}

impl ReadRegion {
    /// Returns how many bytes were read.
    pub fn len(&self) -> usize {
        match &self.read {
            Read::Fetched { region, .. } => region.bytes_read(),
            Read::Cached | Read::Failed(_) => 0,
        }
    }

    /// Checks the region, opens its seal, and compares the wanted chunks with their fingerprints.
    pub fn look(self, containers: &ContainerReader) -> LookedRegion {
        let Self { of, read } = self;
        let found = match read {
            Read::Cached => Found::Cached,
            Read::Failed(e) => of.restored(containers, e),
            Read::Fetched { region, is_whole } => match region.open() {
                Ok(opened) if is_whole && opened.is_of(&of.chunks) => of.prove(containers, opened),
                Ok(opened) => of.unpack(containers, opened),
                Err(e) => of.restored(containers, e),
            },
        };
        LookedRegion { of, found }
    }
}

impl LookedRegion {
    /// Returns how many chunks must be copied.
    pub fn chunks_wanted(&self) -> usize {
        self.of.wanted.len()
    }

    /// Returns true if it may be packed in its stored form.
    pub fn is_proven(&self) -> bool {
        matches!(self.found, Found::Proven(_))
    }

    /// Packs the wanted chunks.
    pub fn pack(
        self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        lane: &mut Lane,
    ) -> Result<CopiedBytes> {
        let Self { of, found } = self;
        let class = of.class;
        let found = match found {
            Found::Proven(proven) if may_stay_packed(lane, &of, proven.opened())? => {
                lane.store_region(class, &proven, &of.chunks)?;
                pool.containers().reuse_opened(proven.into_opened());
                return Ok(CopiedBytes {
                    bytes: of.wanted_bytes(),
                    as_stored_bytes: of.wanted_bytes(),
                    ..CopiedBytes::default()
                });
            }
            found => found,
        };
        let looked = Self { of, found };
        looked.take(pool, cached, &mut |chunk| {
            lane.store_proven(class, &[chunk])
        })
    }

    /// Passes the wanted chunks on, in order. Each was compared with its fingerprint.
    pub fn take(
        self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        show: &mut Sink<'_>,
    ) -> Result<CopiedBytes> {
        let Self { of, found } = self;
        let mut copied = CopiedBytes {
            bytes: of.wanted_bytes(),
            ..CopiedBytes::default()
        };
        let found = match found {
            Found::Proven(proven) => of.unpack(pool.containers(), proven.into_opened()),
            found => found,
        };
        match found {
            Found::Cached => copied.cached_bytes = take_cached(pool, cached, &of, show)?,
            Found::Chunks(raw) => {
                let spans = of.wanted_spans(&raw)?;
                spans.into_iter().try_for_each(&mut *show)?;
                pool.containers().reuse_bytes(raw);
            }
            // Another copy may be sound, although it was not the one to keep.
            Found::Failed(e) if e.is_corruption() => {
                pool.chunks().put_in_quarantine(of.place);
                for (name, _) in of.wanted_chunks() {
                    take_found(pool, &name, show)?;
                }
            }
            Found::Failed(e) => return Err(e),
            Found::Misnamed | Found::Proven(_) => {
                let (at, found) = (of.place.to_string(), "it differs from its directory");
                return Err(StoreError::corruption("chunk", at, found));
            }
        }
        Ok(copied)
    }
}

/// A region up to this many times as long as the lane's stays as it is: reads of it cost less than
/// packing it again.
const TIMES_LONGER_MAX: usize = 4;

/// Returns true if a completely live region is large enough to stay as it is, and small enough, and
/// the pool has none of its chunks elsewhere.
fn may_stay_packed(lane: &mut Lane, of: &SourceRegion, opened: &OpenedRegion) -> Result<bool> {
    let (raw_bytes, lane_bytes) = (opened.raw_bytes() as usize, lane.region_bytes(of.class));
    if raw_bytes < lane_bytes.min(FINE_REGION_BYTES) {
        return Ok(false);
    }
    // As the lane would store it. Older programs made regions of 1.5 MiB of everything.
    let as_new = match (of.class, opened.codec()) {
        (ContainerClass::Data, Codec::None) => lane_bytes.min(PLAIN_REGION_BYTES),
        _ => lane_bytes,
    };
    if lane.packs() && raw_bytes > as_new.saturating_mul(TIMES_LONGER_MAX) {
        return Ok(false);
    }
    for (name, _) in &of.chunks {
        if lane.holds(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Passes chunks on from memory, or else from wherever they are. Returns the bytes from memory.
fn take_cached(
    pool: &Pool,
    cached: &dyn CachedChunks,
    of: &SourceRegion,
    show: &mut Sink<'_>,
) -> Result<u64> {
    let (mut bytes, mut in_memory) = (Vec::new(), 0);
    for (name, len) in of.wanted_chunks() {
        if cached.copy(&name, &mut bytes) && pool.containers().is_called(&[(name, &bytes)]) {
            in_memory += u64::from(len);
            show((name, &bytes))?;
        } else {
            take_found(pool, &name, show)?;
        }
    }
    Ok(in_memory)
}

/// Passes one chunk on from wherever it is. The reader verified it when it was cached, perhaps long
/// ago, so this compares it again.
fn take_found(pool: &Pool, name: &Fingerprint, show: &mut Sink<'_>) -> Result<()> {
    let chunk = pool.reader().chunk(name)?;
    if !pool.containers().is_called(&[(*name, &chunk)]) {
        let found = "it changed in memory after it was read";
        return Err(StoreError::corruption("chunk", name, found));
    }
    show((*name, &chunk))
}

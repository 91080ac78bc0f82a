//! Takes a container apart while its bytes come in, from the first to the last one. Scrub calls
//! this: a disk seeks less if nobody asks for the directory, which lies behind the regions, first.
//!
//! ```text
//! bytes in order --> header | whole regions ... (to the caller) | directory, parity, footer (kept)
//! ```
//!
//! Invariant: no I/O. Regions are found by their headers only, so the caller compares them with
//! the directory. Memory is bounded by one region and what lies behind the regions.

use super::{Ahead, ContainerReader, RegionPlace, Shape, container_name, header_of, unreadable};
use crate::error::Result;
use format::container::{
    CONTAINER_BYTES_MAX, DIRECTORY_INDEX, HEADER_BYTES, REGION_HEADER_BYTES, SECTOR_BYTES,
    find_region, following,
};
use media::{Barrier, Blobs, MediaError, Put};
use std::sync::Arc;
use units::ContainerId;
use units::Part;

/// A container whose bytes come in. See the module's head.
pub struct InOrder {
    container: ContainerId,
    blob_bytes: u64,
    /// Bytes that came in.
    came_bytes: u64,
    header: Option<(Vec<u8>, Arc<Shape>)>,
    /// Sector at which `held` begins.
    sector: u32,
    /// The region before ends in that sector, before this byte of it: the next one begins there or
    /// with the next sector.
    tail: usize,
    held: Vec<u8>,
    is_behind_regions: bool,
}

/// Sector and length of the stored payload of a region.
type Found = (u32, u32);

/// Adjacent regions of which all bytes have come in.
pub struct WholeRegions {
    /// Their bytes.
    pub ahead: Ahead,
    /// Sector and length of the stored payload of each.
    pub places: Vec<(u32, u32)>,
}

impl WholeRegions {
    /// Returns their stored size.
    pub fn bytes(&self) -> usize {
        self.ahead.bytes.len()
    }
}

impl InOrder {
    /// Number of bytes that have come in.
    pub fn came_bytes(&self) -> u64 {
        self.came_bytes
    }

    /// Returns true if all bytes have come in.
    pub fn is_complete(&self) -> bool {
        self.came_bytes >= self.blob_bytes
    }

    /// Takes the regions that `held` has completely: their places, and their bytes from the sector
    /// at which `held` begins.
    fn whole(&mut self) -> Result<(Vec<u8>, Vec<Found>)> {
        const SECTOR: usize = SECTOR_BYTES as usize;
        let (mut end, mut places) = (0, Vec::new());
        // First sector that is not looked at, counted from the one at which `held` begins.
        let mut next = 0;
        while !self.is_behind_regions {
            let place = RegionPlace {
                container: self.container,
                sector: self.sector.saturating_add(next as u32),
            };
            let rest = self.held.part(next * SECTOR..)?;
            if rest.len() < SECTOR + REGION_HEADER_BYTES && !self.is_complete() {
                break;
            }
            let is_here = || find_region(rest, self.container).is_some_and(|f| f.0 == self.tail);
            if self.tail > 0 && !is_here() {
                self.tail = 0;
                next += 1;
                continue;
            }
            let (start, header) = header_of(place, rest)?;
            if header.index == DIRECTORY_INDEX {
                self.is_behind_regions = true;
                break;
            }
            let region_end = start + header.region_bytes();
            if rest.len() < region_end {
                break;
            }
            places.push((place.sector, header.stored_bytes));
            end = next * SECTOR + region_end;
            let (sectors, byte) = following(region_end);
            self.tail = byte;
            next += sectors as usize;
        }
        // A sector with the end of one region and the beginning of another one belongs to both.
        let bytes = self.held.part(..end)?.to_vec();
        self.held.drain(..(next * SECTOR).min(self.held.len()));
        self.sector = self.sector.saturating_add(next as u32);
        Ok((bytes, places))
    }
}

impl ContainerReader {
    /// Begins with a container; `None` if it is missing or longer than containers are.
    pub fn in_order(&self, container: ContainerId) -> Option<InOrder> {
        let blob_bytes = self.stored_len(container).ok()?;
        (blob_bytes <= CONTAINER_BYTES_MAX.into()).then(|| InOrder {
            container,
            blob_bytes,
            came_bytes: 0,
            header: None,
            sector: 0,
            tail: 0,
            held: Vec::new(),
            is_behind_regions: false,
        })
    }

    /// Reads the next bytes from the device, at most `bytes_max`, and returns the regions that are
    /// complete now. After an error nothing more can be taken apart.
    pub fn read_in_order(
        &self,
        order: &mut InOrder,
        bytes_max: usize,
    ) -> Result<Option<WholeRegions>> {
        let left = order.blob_bytes.saturating_sub(order.came_bytes);
        let len = left.min(bytes_max.max(HEADER_BYTES) as u64) as usize;
        let (name, held) = (container_name(order.container), order.held.len());
        order.held.resize(held + len, 0);
        let into = order.held.part_mut(held..)?;
        let read = self
            .blobs
            .read_range_past_cache(&name, order.came_bytes, into);
        read.map_err(|e| unreadable(&name, e))?;
        order.came_bytes += len as u64;
        let shape = match &order.header {
            Some((_, shape)) => Arc::clone(shape),
            None => {
                let shape = Arc::new(self.shape_of(order.container, &order.held)?);
                let rest = order.held.split_off(HEADER_BYTES.min(order.held.len()));
                let header = std::mem::replace(&mut order.held, rest);
                order.sector = (HEADER_BYTES / SECTOR_BYTES as usize) as u32;
                order.tail = 0;
                order.header = Some((header, Arc::clone(&shape)));
                shape
            }
        };
        let from = RegionPlace {
            container: order.container,
            sector: order.sector,
        };
        let (bytes, places) = order.whole()?;
        if places.is_empty() {
            return Ok(None);
        }
        let ahead = Ahead {
            from,
            shape,
            bytes,
            checks_all: true,
        };
        Ok(Some(WholeRegions { ahead, places }))
    }

    /// Returns a reader that has header, directory, parity and footer of this container in memory,
    /// as they came from the device. It reads everything else as this reader does.
    pub fn with_description_of(&self, order: InOrder) -> ContainerReader {
        let described = Described {
            below: Arc::clone(&self.blobs),
            name: container_name(order.container),
            header: order.header.map(|(header, _)| header).unwrap_or_default(),
            tail_at: u64::from(order.sector) * u64::from(SECTOR_BYTES),
            tail: order.held,
        };
        Self::new(
            Arc::new(described),
            self.pool,
            self.master.clone(),
            self.seal,
        )
    }
}

type MediaResult<T> = std::result::Result<T, MediaError>;

/// Blobs of which both ends of one are in memory. Only reads of the device use them.
struct Described {
    below: Arc<dyn Blobs>,
    name: String,
    header: Vec<u8>,
    tail_at: u64,
    tail: Vec<u8>,
}

impl Described {
    /// Returns bytes that are in memory.
    fn kept(&self, name: &str, offset: u64, len: usize) -> Option<&[u8]> {
        let of = |bytes: &'_ [u8], from: u64| {
            let start = usize::try_from(offset.checked_sub(from)?).ok()?;
            let end = start.checked_add(len)?;
            (end <= bytes.len()).then_some(start..end)
        };
        if name != self.name {
            return None;
        }
        let head = of(&self.header, 0).and_then(|range| self.header.get(range));
        head.or_else(|| of(&self.tail, self.tail_at).and_then(|range| self.tail.get(range)))
    }
}

impl Blobs for Described {
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> MediaResult<()> {
        self.below.put(name, bytes, how)
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> MediaResult<()> {
        self.below.read_range(name, offset, into)
    }

    fn read_range_past_cache(&self, name: &str, offset: u64, into: &mut [u8]) -> MediaResult<()> {
        match self.kept(name, offset, into.len()) {
            Some(kept) => into.copy_from_slice(kept),
            None => self.below.read_range_past_cache(name, offset, into)?,
        }
        Ok(())
    }

    fn len(&self, name: &str) -> MediaResult<u64> {
        self.below.len(name)
    }

    fn list(&self, prefix: &str) -> MediaResult<Vec<String>> {
        self.below.list(prefix)
    }

    fn delete(&self, name: &str) -> MediaResult<()> {
        self.below.delete(name)
    }

    fn sweep(&self) -> MediaResult<()> {
        self.below.sweep()
    }

    fn adopt(&self, name: &str) {
        self.below.adopt(name);
    }

    fn barrier(&self, point: Barrier) -> MediaResult<()> {
        self.below.barrier(point)
    }
}

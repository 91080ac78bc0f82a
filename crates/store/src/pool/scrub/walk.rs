//! Verifies the regions of a container while it is read once, from the first byte to the last one.
//! The scrub calls this.
//!
//! ```text
//! runs in order --> whole regions --> another thread: open, decompress, fingerprint
//!               --> directory, parity, footer --> which regions have the chunks of the directory
//! ```
//!
//! A disk seeks twice less for each container than if the directory, which lies behind the
//! regions, were read first.
//!
//! Invariant: a region counts as sound only if it was read from the device and has exactly the
//! chunks that the directory names. Anything odd ends the walk: the rest is read as usual, and all
//! damage is judged there.

use super::LARGE_BYTES;
use crate::worker::Worker;
use chunk_store::container::{ContainerReader, InOrder, RUN_BYTES_MAX, RegionPlace, WholeRegions};
use format::container::DirectoryRegion;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Reads of the device are multiples of this, so that none begins within a block.
const BLOCK_BYTES: u64 = 4096;

/// Sound regions by sector: their chunks.
type Found = BTreeMap<u32, Vec<(Fingerprint, u32)>>;

/// A container that is being read. See the module's head.
pub(super) struct Walk {
    order: InOrder,
    worker: Option<Worker<WholeRegions, Found>>,
    /// Number of runs of regions at the worker.
    at_worker: usize,
    found: Found,
    is_broken: bool,
}

/// Result of a walk.
pub(super) struct Walked {
    found: Found,
    /// Has directory, parity and footer in memory; `None` if the walk did not reach them.
    pub reader: Option<ContainerReader>,
}

impl Walk {
    /// Begins with a container; `None` if it cannot be read in this way.
    pub fn new(containers: &ContainerReader, container: ContainerId) -> Option<Self> {
        Some(Self {
            order: containers.in_order(container)?,
            worker: None,
            at_worker: 0,
            found: Found::new(),
            is_broken: false,
        })
    }

    /// Reads about `bytes_max` more. Returns how many bytes were read.
    pub fn read(&mut self, containers: &Arc<ContainerReader>, bytes_max: u64) -> u64 {
        let run_bytes = bytes_max.clamp(1, RUN_BYTES_MAX.into());
        let run_bytes = run_bytes.next_multiple_of(BLOCK_BYTES) as usize;
        let before = self.order.came_bytes();
        match containers.read_in_order(&mut self.order, run_bytes) {
            Ok(Some(regions)) => self.pass_on(containers, regions),
            Ok(None) => {}
            Err(_) => self.is_broken = true,
        }
        // One run may be at the worker while the next one is read.
        while self.at_worker > 1 {
            self.take();
        }
        self.order.came_bytes() - before
    }

    /// Returns true if nothing more is to be read.
    pub fn is_done(&self) -> bool {
        self.is_broken || self.order.is_complete()
    }

    fn pass_on(&mut self, containers: &Arc<ContainerReader>, regions: WholeRegions) {
        let is_large = regions.bytes() >= LARGE_BYTES;
        if is_large && self.worker.is_none() {
            let containers = Arc::clone(containers);
            let work = move |regions: WholeRegions| sound(&containers, regions);
            self.worker = Worker::start("scrub-verify", work).ok();
        }
        let refused = match self.worker.as_ref().filter(|_| is_large) {
            Some(worker) => worker.give(regions).err(),
            None => Some(regions),
        };
        match refused {
            Some(regions) => self.found.append(&mut sound(containers, regions)),
            None => self.at_worker += 1,
        }
    }

    fn take(&mut self) {
        self.at_worker -= 1;
        // Regions of a thread that has ended are read again.
        if let Some(mut found) = self.worker.as_ref().and_then(Worker::take) {
            self.found.append(&mut found);
        }
    }

    /// Ends the walk.
    pub fn end(mut self, containers: &ContainerReader) -> Walked {
        while self.at_worker > 0 {
            self.take();
        }
        let is_complete = !self.is_broken && self.order.is_complete();
        Walked {
            reader: is_complete.then(|| containers.with_description_of(self.order)),
            found: self.found,
        }
    }
}

impl Walked {
    /// Returns true if the region has the chunks that its directory names.
    pub fn is_sound(&self, region: &DirectoryRegion) -> bool {
        self.found.get(&region.sector) == Some(&region.chunks)
    }
}

/// Returns the regions that pass all checks but that of the directory.
fn sound(containers: &ContainerReader, regions: WholeRegions) -> Found {
    let WholeRegions { ahead, places } = regions;
    let mut found = Found::new();
    for (sector, stored_bytes) in places {
        let place = RegionPlace {
            container: ahead.container(),
            sector,
        };
        if let Some(Ok(region)) = containers.region_ahead(&ahead, place, stored_bytes) {
            let chunks = region.chunks.iter().map(|(f, _, len)| (*f, *len));
            found.insert(sector, chunks.collect());
            containers.reuse(region);
        }
    }
    containers.reuse_ahead(ahead);
    found
}

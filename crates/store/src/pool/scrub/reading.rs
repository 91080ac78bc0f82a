//! Reads the regions of a container in long runs, and lets another thread verify one run while the
//! next one is read. The scrub calls this.
//!
//! ```text
//! read_run --> batches (oldest first) --> settle
//!                 |        ^
//!                 v        |
//!             another thread: open, decompress, fingerprint
//! ```
//!
//! Invariant: batches come out in the order of the regions. The thread accesses no device. Small
//! runs stay with the caller, because passing them on takes as long as verifying them.

use super::LARGE_BYTES;
use super::walk::Walked;
use crate::worker::Worker;
use chunk_store::container::{Ahead, ContainerReader, RUN_BYTES_MAX, Region, RegionPlace};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::container::{DirectoryRegion, SECTOR_BYTES, may_follow, sectors_max};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use units::{ContainerId, Part};

/// Adjacent regions.
struct Run {
    regions: usize,
    /// From the sector of the first region to the end of the last one, wherever in its last sector
    /// that is.
    bytes: usize,
}

/// Returns the run of adjacent regions, starting with the first, that are not verified: at most
/// `bytes_max` bytes, or one region.
fn run_of(
    regions: &[DirectoryRegion],
    bytes_max: u64,
    is_verified: &mut dyn FnMut(&DirectoryRegion) -> bool,
) -> Run {
    let mut run = Run {
        regions: 0,
        bytes: 0,
    };
    let first = regions.first().map_or(0, |region| region.sector);
    let mut before: Option<&DirectoryRegion> = None;
    for region in regions {
        let follows = |before: &DirectoryRegion| {
            may_follow(before.sector, before.stored_bytes, region.sector)
        };
        let sectors = (region.sector.saturating_sub(first)) + sectors_max(region.stored_bytes);
        let end = sectors as usize * SECTOR_BYTES as usize;
        let goes_on = before.is_none_or(follows);
        let fits = end as u64 <= bytes_max;
        if !goes_on || !(before.is_none() || fits && !is_verified(region)) {
            break;
        }
        run.regions += 1;
        run.bytes = end;
        before = Some(region);
    }
    run
}

/// Reason why a region is damaged, or `None` if it has the chunks of its directory.
type Verdict = Option<String>;

/// Regions of a container that are done next.
pub(super) enum Batch {
    /// Readers had verified them.
    ByReaders(Range<usize>),
    /// They were read. Each has its verdict, or `None` if it must be read alone.
    Read(Range<usize>, Vec<Option<Result<Verdict>>>),
}

/// A run that was read and is not verified yet.
struct Unverified {
    container: ContainerId,
    regions: Arc<[DirectoryRegion]>,
    run: Range<usize>,
    /// `None`: the read failed.
    ahead: Option<Ahead>,
}

enum Waiting {
    ByReaders(Range<usize>),
    /// The walk has found them sound.
    Sound(Range<usize>),
    Here(Unverified),
    AtWorker(Range<usize>),
}

/// See the module's head.
pub(super) struct Reading {
    container: ContainerId,
    regions: Arc<[DirectoryRegion]>,
    /// Regions before this one are in batches or done.
    next: usize,
    waiting: VecDeque<Waiting>,
    walked: Option<Walked>,
    worker: Option<Worker<Unverified, Vec<Option<Result<Verdict>>>>>,
}

impl Reading {
    /// Begins at a region.
    pub fn new(container: ContainerId, regions: &Arc<[DirectoryRegion]>, next: usize) -> Self {
        Self {
            container,
            regions: Arc::clone(regions),
            next,
            waiting: VecDeque::new(),
            walked: None,
            worker: None,
        }
    }

    /// Does not read the regions again that a walk has found sound.
    pub fn after(self, walked: Option<Walked>) -> Self {
        Self { walked, ..self }
    }

    fn is_sound(&self, region: &DirectoryRegion) -> bool {
        let walked = self.walked.as_ref();
        walked.is_some_and(|walked| walked.is_sound(region))
    }

    /// Makes a batch of the next regions that a walk has found sound. Returns false if there are
    /// none.
    pub fn pass_over(&mut self) -> bool {
        let rest = self.regions.iter().skip(self.next);
        let sound = rest.take_while(|region| self.is_sound(region));
        let batch = self.next..self.next + sound.count();
        if batch.is_empty() {
            return false;
        }
        self.next = batch.end;
        self.waiting.push_back(Waiting::Sound(batch));
        true
    }

    /// Returns true if there are regions to read, or to pass over.
    pub fn has_more(&self) -> bool {
        self.next < self.regions.len()
    }

    /// Number of batches.
    pub fn batches(&self) -> usize {
        self.waiting.len()
    }

    /// Makes the next batch: regions that readers have verified, or a run of others, at most
    /// `bytes_max` bytes or one region. Returns the stored bytes of the regions that were read.
    pub fn read(
        &mut self,
        containers: &Arc<ContainerReader>,
        is_verified: &mut dyn FnMut(RegionPlace) -> bool,
        bytes_max: u64,
    ) -> u64 {
        let (_, rest) = self.regions.split_at(self.next);
        let container = self.container;
        let mut is_verified = |sector| is_verified(RegionPlace { container, sector });
        let others = rest.iter().take_while(|region| is_verified(region.sector));
        let others = others.count();
        let Some(first) = rest.first().filter(|_| others == 0) else {
            let batch = self.next..self.next + others;
            self.next = batch.end;
            self.waiting.push_back(Waiting::ByReaders(batch));
            return 0;
        };
        let from = RegionPlace {
            container,
            sector: first.sector,
        };
        let walked = self.walked.as_ref();
        let mut is_known = |region: &DirectoryRegion| {
            is_verified(region.sector) || walked.is_some_and(|walked| walked.is_sound(region))
        };
        let run = run_of(rest, bytes_max.min(RUN_BYTES_MAX.into()), &mut is_known);
        let ahead = containers.ahead(from, run.bytes);
        let stored = rest.iter().take(run.regions);
        let stored = stored.map(|region| u64::from(region.stored_bytes)).sum();
        let regions = self.next..self.next + run.regions;
        self.next = regions.end;
        let unverified = Unverified {
            container,
            regions: Arc::clone(&self.regions),
            run: regions,
            ahead,
        };
        self.pass_on(containers, unverified, run.bytes);
        stored
    }

    fn pass_on(&mut self, containers: &Arc<ContainerReader>, read: Unverified, bytes: usize) {
        let run = read.run.clone();
        if bytes >= LARGE_BYTES && self.worker.is_none() {
            let containers = Arc::clone(containers);
            let work = move |read: Unverified| read.verdicts(&containers);
            self.worker = Worker::start("scrub-verify", work).ok();
        }
        let refused = match self.worker.as_ref().filter(|_| bytes >= LARGE_BYTES) {
            Some(worker) => worker.give(read).err(),
            None => Some(read),
        };
        self.waiting.push_back(match refused {
            Some(read) => Waiting::Here(read),
            None => Waiting::AtWorker(run),
        });
    }

    /// Returns the oldest batch; `None` if there is none.
    pub fn take(&mut self, containers: &ContainerReader) -> Result<Option<Batch>> {
        Ok(match self.waiting.pop_front() {
            None => None,
            Some(Waiting::ByReaders(run)) => Some(Batch::ByReaders(run)),
            Some(Waiting::Sound(run)) => {
                let verdicts = run.clone().map(|_| Some(Ok(None))).collect();
                Some(Batch::Read(run, verdicts))
            }
            Some(Waiting::Here(read)) => {
                Some(Batch::Read(read.run.clone(), read.verdicts(containers)))
            }
            Some(Waiting::AtWorker(run)) => {
                let verdicts = self.worker.as_ref().and_then(Worker::take);
                let why = "the thread that verifies regions has ended";
                let ended = || StoreError::new(StoreErrorKind::Invalid, why);
                Some(Batch::Read(run, verdicts.ok_or_else(ended)?))
            }
        })
    }
}

impl Unverified {
    fn verdicts(self, containers: &ContainerReader) -> Vec<Option<Result<Verdict>>> {
        let verdict = |region: &DirectoryRegion| {
            let place = RegionPlace {
                container: self.container,
                sector: region.sector,
            };
            let ahead = self.ahead.as_ref()?;
            let read = containers.region_ahead(ahead, place, region.stored_bytes)?;
            Some(verdict(containers, read, place, region))
        };
        let regions = match self.regions.part(self.run.clone()) {
            Ok(regions) => regions,
            Err(e) => return vec![Some(Err(e.into()))],
        };
        let verdicts = regions.iter().map(verdict).collect();
        if let Some(ahead) = self.ahead {
            containers.reuse_ahead(ahead);
        }
        verdicts
    }
}

/// Returns the verdict on a region that was read.
pub(in crate::pool) fn verdict(
    containers: &ContainerReader,
    read: Result<Region>,
    place: RegionPlace,
    region: &DirectoryRegion,
) -> Result<Verdict> {
    match read {
        Ok(decoded) => {
            let found = decoded.chunks.iter().map(|(f, _, len)| (f, len));
            let is_same = found.eq(region.chunks.iter().map(|(f, len)| (f, len)));
            containers.reuse(decoded);
            let why = || format!("{place}: its chunks differ from its directory");
            Ok((!is_same).then(why))
        }
        Err(e) if e.is_corruption() => Ok(Some(e.to_string())),
        Err(e) => Err(e),
    }
}

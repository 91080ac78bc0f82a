//! Copies several containers at a time, ordered by who owns their chunks (GCCDF, EuroSys'25).
//! `copy` calls this.
//!
//! ```text
//! read directories -> units, arranged by owner -> for each window: read regions -> pack in order
//! ```
//!
//! A window is as many units as fit into memory. A region with chunks in several windows is read in
//! each of them. In a window the regions in memory are read first; that needs no I/O grant.
//!
//! Invariant: chunks wait in memory only between their check and their packing. A container is
//! complete when all of its live chunks are packed. A container that cannot be read in full stays,
//! and no other.

mod arrange;

use super::CachedChunks;
use super::lanes::Lanes;
use super::mark::Mark;
use super::opener::Opener;
use super::owners::Owners;
use super::region::{LookedRegion, SourceRegion};
use super::source::{Candidate, CopyCounts, live_regions};
use crate::pool::Pool;
use crate::write_path::RegionKind;
use arrange::{Unit, arrange};
use chunk_store::Result;
use duet::Access;
use format::container::ContainerClass;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use units::{ContainerId, Fingerprint, Part};

/// Memory of a chunk in a directory, and of its unit, bytes.
const CHUNK_BYTES: u64 = 40 + size_of::<Unit>() as u64;
/// Owners' chunks are not split by older owners into parts below one in this many of a container.
const PARTS_OF_CONTAINER: u64 = 4;
/// A region is kept as it is if its chunks are at most this many times as far from each other in
/// their recipe as in the region.
const SPREAD_MAX: u64 = 4;
/// Number of regions that are read before the one that is taken.
const REGIONS_AHEAD: usize = 2;

/// A container of the segment.
struct Source {
    candidate: Candidate,
    kind: RegionKind,
    regions: Vec<SourceRegion>,
    /// Length of the live chunks that were packed, bytes.
    packed_bytes: u64,
    /// A part of it cannot be read, so it stays.
    is_lost: bool,
}

/// A container at its end: whether all its live chunks were packed.
pub(super) struct Ended {
    pub id: ContainerId,
    pub is_copied: bool,
}

/// Result of a step.
pub(super) enum Progress {
    /// The budget is used.
    Working,
    /// The next read needs the device.
    NeedsDevice,
    /// All containers have ended.
    Done(Vec<Ended>),
}

/// A region that a window needs, and the window's units that it fills.
struct Read {
    region: SourceRegion,
    source: usize,
    /// Numbers of units, in the order of the region's chunks; one for a whole region.
    units: Vec<usize>,
}

/// Chunks that were read for a unit.
enum Item {
    /// It was not read, or cannot be.
    Nothing,
    /// A region that may be packed in its stored form.
    Region(LookedRegion),
    /// Chunks in the window's bytes.
    Chunks(Vec<(Fingerprint, Range<usize>)>),
}

/// Units in memory.
#[derive(Default)]
struct Window {
    reads: VecDeque<Read>,
    /// Source and units of each region at the opener.
    opening: VecDeque<(usize, Vec<usize>)>,
    units: Vec<(Unit, Item)>,
    bytes: Vec<u8>,
    /// Next unit to pack.
    next: usize,
}

/// See the module's head.
pub(super) struct Segment {
    window_bytes: u64,
    segment_bytes: u64,
    sources: Vec<Source>,
    /// All directories were read.
    is_gathered: bool,
    live_bytes: u64,
    directory_bytes: u64,
    directory_bytes_max: u64,
    /// Units that are in no window yet.
    units: VecDeque<Unit>,
    opener: Opener,
    window: Window,
}

impl Segment {
    pub fn new(pool: &Pool, owners: &Owners) -> Self {
        Self {
            window_bytes: owners.window_bytes(),
            segment_bytes: owners.segment_bytes(),
            sources: Vec::new(),
            is_gathered: false,
            live_bytes: 0,
            directory_bytes: 0,
            directory_bytes_max: owners.directory_bytes(),
            units: VecDeque::new(),
            opener: Opener::new(pool.containers()),
            window: Window::default(),
        }
    }

    /// Returns the plain bytes that are not packed yet, without those of containers that are lost.
    pub fn bytes_left(&self) -> u64 {
        let sources = self.sources.iter().filter(|source| !source.is_lost);
        sources
            .map(|s| s.candidate.live_bytes.saturating_sub(s.packed_bytes))
            .sum()
    }

    /// Returns the plain bytes in memory that are not packed yet.
    pub fn waiting_bytes(&self) -> u64 {
        let rest = self.window.units.iter().skip(self.window.next);
        rest.map(|(unit, _)| unit.bytes).sum()
    }

    /// Takes containers from `rest` and copies about `budget_bytes`. After an error the round can
    /// only be discarded.
    pub fn step(
        &mut self,
        rest: &mut VecDeque<Candidate>,
        at: &At<'_>,
        lanes: &mut Lanes,
        counts: &mut CopyCounts,
        (budget_bytes, access): (u64, Access),
    ) -> Result<Progress> {
        let budget = budget_bytes.max(1);
        let until = counts.bytes.saturating_add(budget);
        let mut read_bytes = 0;
        loop {
            if read_bytes >= budget || counts.bytes >= until {
                return Ok(Progress::Working);
            }
            if !self.is_gathered {
                if access == Access::Memory {
                    return Ok(Progress::NeedsDevice);
                }
                read_bytes += self.gather(rest, at, lanes.container_bytes())?;
                continue;
            }
            let is_reading = !self.window.reads.is_empty() || self.opener.len() > 0;
            if is_reading {
                match self.read(at, counts, access)? {
                    Some(bytes) => read_bytes += bytes,
                    None => return Ok(Progress::NeedsDevice),
                }
            } else if !self.pack(at, lanes, counts)? && !self.open_window(at.cached) {
                return Ok(Progress::Done(self.ended(at.mark)));
            }
        }
    }

    /// Reads the directory of the next container, or arranges what was gathered. Returns about the
    /// bytes read.
    fn gather(
        &mut self,
        rest: &mut VecDeque<Candidate>,
        at: &At<'_>,
        container_bytes: u64,
    ) -> Result<u64> {
        let is_full = self.live_bytes >= self.segment_bytes
            || self.directory_bytes >= self.directory_bytes_max;
        let next = match is_full {
            true => None,
            false => rest.pop_front(),
        };
        let Some(candidate) = next else {
            self.is_gathered = true;
            let part_bytes_min = container_bytes / PARTS_OF_CONTAINER;
            self.units = arrange(self.units_of_all(at.owners), part_bytes_min).into();
            return Ok(0);
        };
        let contents = match at.pool.containers().contents(candidate.id) {
            Err(e) if e.is_corruption() => None,
            contents => Some(contents?),
        };
        self.live_bytes += candidate.live_bytes;
        let chunks = contents
            .as_ref()
            .map_or(0, |contents| contents.directory.chunk_count() as u64);
        self.directory_bytes += chunks * CHUNK_BYTES;
        self.sources.push(Source {
            kind: contents.as_ref().map_or(RegionKind::Large, RegionKind::of),
            is_lost: contents.is_none(),
            regions: contents.map_or(Vec::new(), |contents| {
                live_regions(at.mark.live(), candidate.id, contents)
            }),
            candidate,
            packed_bytes: 0,
        });
        Ok(chunks * CHUNK_BYTES)
    }

    /// Returns all live chunks in the order in which they are stored.
    fn units_of_all(&self, owners: &Owners) -> Vec<Unit> {
        let mut units = Vec::new();
        for (source, number) in self.sources.iter().zip(0..) {
            for (region, place) in source.regions.iter().zip(0..) {
                units_of(region, owners, (number, place), &mut units);
            }
        }
        units
    }

    /// Opens the next window. Returns false if there is none.
    fn open_window(&mut self, cached: &dyn CachedChunks) -> bool {
        let mut window = Window {
            bytes: std::mem::take(&mut self.window.bytes),
            ..Window::default()
        };
        window.bytes.clear();
        let mut bytes = 0;
        while let Some(unit) = self.units.front()
            && (bytes == 0 || bytes + unit.bytes <= self.window_bytes)
            && let Some(unit) = self.units.pop_front()
        {
            bytes += unit.bytes;
            window.units.push((unit, Item::Nothing));
        }
        let mut by_region: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (number, (unit, _)) in window.units.iter().enumerate() {
            let at = by_region.entry((unit.source, unit.region)).or_default();
            at.push(number);
        }
        let (mut others, mut in_memory) = (Vec::new(), VecDeque::new());
        for ((source, region), mut units) in by_region {
            units.sort_by_key(|number| window.units.get(*number).map(|(unit, _)| unit.first));
            let source = source as usize;
            let Some(region) = self.region(source, region as usize) else {
                continue;
            };
            let wanted = units.iter().filter_map(|number| window.units.get(*number));
            let wanted = wanted.flat_map(|(unit, _)| unit.first..unit.first + unit.count);
            let region = SourceRegion {
                wanted: wanted.map(|number| number as usize).collect(),
                chunks: region.chunks.clone(),
                ..*region
            };
            let read = Read {
                region,
                source,
                units,
            };
            match read.region.is_cached(cached) {
                true => in_memory.push_back(read),
                false => others.push(read),
            }
        }
        in_memory.extend(others);
        window.reads = in_memory;
        let is_open = !window.units.is_empty();
        self.window = window;
        is_open
    }

    fn region(&self, source: usize, region: usize) -> Option<&SourceRegion> {
        self.sources.get(source)?.regions.get(region)
    }

    /// Reads regions ahead and takes one. Returns the bytes read, or `None` if the next region must
    /// come from the device and may not.
    fn read(
        &mut self,
        at: &At<'_>,
        counts: &mut CopyCounts,
        access: Access,
    ) -> Result<Option<u64>> {
        let mut bytes = 0;
        while self.opener.len() <= REGIONS_AHEAD
            && let Some(read) = self.window.reads.pop_front()
        {
            if self.sources.get(read.source).is_none_or(|s| s.is_lost) {
                continue;
            }
            if access == Access::Memory && !read.region.is_cached(at.cached) {
                self.window.reads.push_front(read);
                break;
            }
            let region = read.region.read(at.pool, at.cached)?;
            bytes += region.len() as u64;
            self.opener.push(region);
            self.window.opening.push_back((read.source, read.units));
        }
        let Some(looked) = self.opener.pop()? else {
            return Ok(self.window.reads.is_empty().then_some(bytes));
        };
        if let Some((source, units)) = self.window.opening.pop_front() {
            match self.window.take(at, looked, &units) {
                Err(e) if e.is_corruption() => {
                    if let Some(source) = self.sources.get_mut(source) {
                        source.is_lost = true;
                    }
                }
                cached_bytes => counts.cached_bytes += cached_bytes?,
            }
        }
        Ok(Some(bytes))
    }

    /// Packs the next unit. Returns false if the window has no more.
    fn pack(&mut self, at: &At<'_>, lanes: &mut Lanes, counts: &mut CopyCounts) -> Result<bool> {
        let window = &mut self.window;
        let Some((unit, item)) = window.units.get_mut(window.next) else {
            return Ok(false);
        };
        window.next += 1;
        let item = std::mem::replace(item, Item::Nothing);
        let source = self.sources.get_mut(unit.source as usize);
        let Some(source) = source.filter(|source| !source.is_lost) else {
            return Ok(true);
        };
        let lane = lanes.of(source.kind)?;
        match item {
            Item::Nothing => return Ok(true),
            Item::Chunks(chunks) => {
                for (name, range) in chunks {
                    let chunk = window.bytes.part(range)?;
                    lane.store_proven(ContainerClass::Data, &[(name, chunk)])?;
                }
            }
            Item::Region(looked) => match looked.pack(at.pool, at.cached, lane) {
                Err(e) if e.is_corruption() => {
                    source.is_lost = true;
                    return Ok(true);
                }
                copied => counts.as_stored_bytes += copied?.as_stored_bytes,
            },
        }
        source.packed_bytes += unit.bytes;
        counts.chunks += u64::from(unit.count);
        counts.bytes += unit.bytes;
        Ok(true)
    }

    fn ended(&mut self, mark: &Mark) -> Vec<Ended> {
        let ended = |source: Source| {
            let live = mark.live().of(source.candidate.id);
            let is_whole = live.is_none_or(|live| live.live_bytes == source.packed_bytes);
            Ended {
                id: source.candidate.id,
                is_copied: !source.is_lost && is_whole,
            }
        };
        self.sources.drain(..).map(ended).collect()
    }
}

/// Inputs of a step.
pub(super) struct At<'a> {
    pub pool: &'a Pool,
    pub mark: &'a Mark,
    pub owners: &'a Owners,
    pub cached: &'a dyn CachedChunks,
}

impl Window {
    /// Keeps the wanted chunks of a region for its units. Returns the bytes that were in memory.
    fn take(&mut self, at: &At<'_>, looked: LookedRegion, numbers: &[usize]) -> Result<u64> {
        if let [number] = numbers
            && let Some((unit, item)) = self.units.get_mut(*number)
            && looked.is_proven()
            && unit.count as usize == looked.chunks_wanted()
        {
            *item = Item::Region(looked);
            return Ok(0);
        }
        let mut chunks = VecDeque::with_capacity(looked.chunks_wanted());
        let bytes = &mut self.bytes;
        let copied = looked.take(at.pool, at.cached, &mut |(name, chunk)| {
            let start = bytes.len();
            bytes.extend_from_slice(chunk);
            chunks.push_back((name, start..bytes.len()));
            Ok(())
        })?;
        for number in numbers {
            if let Some((unit, item)) = self.units.get_mut(*number) {
                let count = (unit.count as usize).min(chunks.len());
                *item = Item::Chunks(chunks.drain(..count).collect());
            }
        }
        Ok(copied.cached_bytes)
    }
}

/// Adds the live chunks of a region: as one unit if all are live, have the same newest owner, and
/// are about in the order of their recipe. Such a region is copied in its stored form.
fn units_of(
    region: &SourceRegion,
    owners: &Owners,
    (source, number): (u32, u32),
    units: &mut Vec<Unit>,
) {
    let of = |chunk: &usize| {
        let (name, len) = region.chunks.get(*chunk)?;
        Some(Unit {
            owned: owners.of(name),
            source,
            region: number,
            first: *chunk as u32,
            count: 1,
            bytes: u64::from(*len),
        })
    };
    let start = units.len();
    units.extend(region.wanted.iter().filter_map(of));
    let of_region = units.split_at(start).1;
    let [first, .., last] = of_region else {
        return;
    };
    let newest = |unit: &Unit| unit.owned.owners.leading_zeros();
    let spread = last.owned.order.saturating_sub(first.owned.order);
    let is_together = of_region.len() == region.chunks.len()
        && of_region.iter().all(|u| newest(u) == newest(first))
        && of_region.is_sorted_by_key(|u| u.owned.order)
        && spread <= SPREAD_MAX * of_region.len() as u64;
    if is_together {
        let whole = Unit {
            count: of_region.len() as u32,
            bytes: of_region.iter().map(|unit| unit.bytes).sum(),
            ..*first
        };
        units.truncate(start);
        units.push(whole);
    }
}

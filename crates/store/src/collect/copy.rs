//! Copies containers forward: live chunks move into new containers, and the old containers go into
//! the trash. Each round makes one commit. Garbage collection calls this.
//!
//! ```text
//! retired containers -> read regions -> Opener (checks) -> pack into lanes -> one commit:
//!                                                         copies enter, old containers to trash
//! ```
//!
//! A round that knows the owners of chunks ([`CopyRound::by_owner`]) copies data in segments of
//! several containers, ordered by owner (`segment`). Recipes, and everything in other rounds, are
//! copied container by container.
//!
//! Invariant: containers are retired before the first chunk is copied, so no new reference to them
//! is made meanwhile. The commit that enters the copies puts them into the trash. A container whose
//! live chunks cannot all be read stays. A round that does not commit removes its copies.

use super::lanes::Lanes;
use super::mark::Mark;
use super::opener::Opener;
use super::owners::Owners;
use super::region::SourceRegion;
use super::retire::Retired;
use super::segment::{self, Progress, Segment};
use super::source::{Candidate, CopyCounts, live_regions};
use super::{CachedChunks, GcStep};
use crate::pool::{Pool, Purpose};
use crate::space::LiveMap;
use crate::write_path::{LaneOptions, RegionKind};
use chunk_store::Result;
use chunk_store::catalog::{Discarded, Edit, InventoryEntry, TrashedContainer, inventory_key};
use duet::Access;
use format::container::ContainerClass;
use std::collections::VecDeque;
use std::sync::Arc;
use units::ContainerId;

/// Number of regions that are read before the one that is packed. Another thread checks them
/// meanwhile.
const REGIONS_AHEAD: usize = 2;
/// Error of the free space that is reported, bytes: a region in flight, and directories.
const UNSEEN_BYTES: u64 = 1 << 20;

/// Result of a round: what went into the trash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundResult {
    /// The containers.
    pub containers: Vec<ContainerId>,
    /// Their stored size, bytes.
    pub stored_bytes: u64,
}

/// A round: containers between retirement and trash.
///
/// A container's regions whose live chunks are all in memory are copied first; that needs no I/O
/// grant.
pub struct CopyRound {
    lanes: Lanes,
    /// Number of the first container that may have its copies.
    first_sequence: u64,
    opener: Opener,
    /// Containers with regions that were read and not packed yet, the oldest first. Only the last
    /// one may have more regions.
    under_way: VecDeque<Source>,
    /// Containers that are not begun, in the order of copying.
    rest: VecDeque<Candidate>,
    /// Containers that are copied by owner and not begun, and the segment in progress.
    owned: VecDeque<Candidate>,
    segment: Option<Segment>,
    owners: Option<Arc<Owners>>,
    /// Containers that are copied and will go into the trash.
    done: Vec<ContainerId>,
    counts: CopyCounts,
}

/// Result of reading.
enum Next {
    /// So many stored bytes were read.
    Read(u64),
    /// The next region, or directory, is not in memory.
    NeedsDevice,
    /// All regions are read.
    Nothing,
}

impl CopyRound {
    /// Begins a round over these containers, in this order. `lane` has the options for chunks that
    /// are packed again. Containers outside of `retired` are copied and stay where they are: in the
    /// trash. Fails with `Invalid` for an unfinished mark or an estimate.
    pub fn begin(
        pool: &Pool,
        lane: LaneOptions,
        mark: &Mark,
        containers: &[ContainerId],
    ) -> Result<Self> {
        mark.require_proof()?;
        let lanes = Lanes::begin(pool, lane)?;
        let mut round = Self {
            first_sequence: pool.commits().next_sequence(Purpose::Collect),
            lanes,
            opener: Opener::new(pool.containers()),
            under_way: VecDeque::new(),
            rest: VecDeque::new(),
            owned: VecDeque::new(),
            segment: None,
            owners: None,
            done: Vec::new(),
            counts: CopyCounts::default(),
        };
        containers.iter().for_each(|id| round.add(mark, *id));
        Ok(round)
    }

    /// Orders the data that is added from now on by its owners.
    pub fn by_owner(mut self, owners: Arc<Owners>) -> Self {
        self.owners = Some(owners);
        self
    }

    /// Adds a container, to be copied after the others.
    pub fn add(&mut self, mark: &Mark, id: ContainerId) {
        let usage = mark.usage(id);
        let live_bytes = usage.map_or(0, |usage| usage.live_bytes);
        let is_data = usage.is_some_and(|usage| usage.class == ContainerClass::Data);
        let rest = match self.owners.is_some() && is_data {
            true => &mut self.owned,
            false => &mut self.rest,
        };
        rest.push_back(Candidate { id, live_bytes });
    }

    /// Returns the length of the live chunks of containers that are not begun, bytes.
    pub fn unbegun_bytes(&self) -> u64 {
        let rest = self.rest.iter().chain(&self.owned);
        rest.map(|candidate| candidate.live_bytes).sum()
    }

    /// Copies about `budget_bytes`. `Done`: everything that was added is copied. `None`: the rest
    /// needs the device, and `access` was memory. After an error the round can only be discarded.
    pub fn step(
        &mut self,
        pool: &Pool,
        mark: &Mark,
        retired: &mut Retired,
        cached: &dyn CachedChunks,
        budget: (u64, Access),
    ) -> Result<Option<GcStep>> {
        match self.step_in_order(pool, mark, retired, cached, budget)? {
            Some(GcStep::Done) => self.step_by_owner(pool, mark, retired, cached, budget),
            step => Ok(step),
        }
    }

    /// Copies container by container.
    fn step_in_order(
        &mut self,
        pool: &Pool,
        mark: &Mark,
        retired: &mut Retired,
        cached: &dyn CachedChunks,
        (budget_bytes, access): (u64, Access),
    ) -> Result<Option<GcStep>> {
        let until = self.counts.bytes.saturating_add(budget_bytes.max(1));
        let mut read_bytes = 0;
        loop {
            let mut needs_device = false;
            while self.opener.len() <= REGIONS_AHEAD && !needs_device {
                match self.read_next(pool, cached, mark.live(), access)? {
                    Next::Nothing => break,
                    Next::NeedsDevice => needs_device = true,
                    Next::Read(bytes) => read_bytes += bytes,
                }
                if read_bytes >= budget_bytes && self.opener.len() <= REGIONS_AHEAD {
                    return Ok(Some(GcStep::Working));
                }
            }
            if needs_device && self.opener.len() == 0 {
                return Ok(None);
            }
            if !self.pack_next(pool, mark, retired, cached)? {
                return Ok(Some(GcStep::Done));
            }
            if self.counts.bytes >= until {
                return Ok(Some(GcStep::Working));
            }
        }
    }

    /// Copies in segments.
    fn step_by_owner(
        &mut self,
        pool: &Pool,
        mark: &Mark,
        retired: &mut Retired,
        cached: &dyn CachedChunks,
        budget: (u64, Access),
    ) -> Result<Option<GcStep>> {
        let Some(owners) = self.owners.clone() else {
            return Ok(Some(GcStep::Done));
        };
        let at = segment::At {
            pool,
            mark,
            owners: &owners,
            cached,
        };
        let segment = match &mut self.segment {
            Some(segment) => segment,
            None if self.owned.is_empty() => return Ok(Some(GcStep::Done)),
            None => self.segment.insert(Segment::new(pool, &owners)),
        };
        let (rest, lanes, counts) = (&mut self.owned, &mut self.lanes, &mut self.counts);
        let ended = match segment.step(rest, &at, lanes, counts, budget)? {
            Progress::Working => return Ok(Some(GcStep::Working)),
            Progress::NeedsDevice => return Ok(None),
            Progress::Done(ended) => ended,
        };
        self.segment = None;
        for source in ended {
            self.end(source.id, source.is_copied, retired);
        }
        Ok(Some(match self.owned.is_empty() {
            true => GcStep::Done,
            false => GcStep::Working,
        }))
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> CopyCounts {
        self.counts
    }

    /// Returns the length of the chunks still to be copied, bytes.
    pub fn bytes_left(&self) -> u64 {
        let under_way = self.under_way.iter();
        let left = under_way.map(|s| s.candidate.live_bytes.saturating_sub(s.bytes));
        let in_segment = self.segment.as_ref().map_or(0, Segment::bytes_left);
        self.unbegun_bytes() + left.sum::<u64>() + in_segment
    }

    /// Returns true if the copies that are not written yet need about all the space beside `kept`.
    pub fn is_short_of_room(&mut self, pool: &Pool, kept: u64) -> bool {
        let Some(reserved) = pool.reserved() else {
            return false;
        };
        let unseen = UNSEEN_BYTES.min(reserved.wanted_bytes / 8);
        let waiting = self.segment.as_ref().map_or(0, Segment::waiting_bytes);
        let open = self.lanes.open_bytes().saturating_add(waiting);
        reserved.for_copies().saturating_sub(kept) < open.saturating_add(unseen)
    }

    /// Stops copying: containers that are not copied yet stay. Returns how many were not begun.
    pub fn give_up_rest(&mut self) -> u64 {
        let unbegun = (self.rest.len() + self.owned.len()) as u64;
        self.opener.clear();
        self.under_way.clear();
        self.rest.clear();
        self.owned.clear();
        self.segment = None;
        unbegun
    }

    /// Ends the round without a commit and removes its copies.
    pub fn discard(self, pool: &Pool) {
        let first = self.first_sequence;
        drop(self);
        pool.remove_uncommitted(Purpose::Collect, first);
    }

    /// Commits the copies and puts their old containers into the trash. Durable on return. After a
    /// failure the copies are removed, unless the commit may stand.
    pub fn commit(self, pool: &Pool, retired: &mut Retired) -> Result<RoundResult> {
        let Self {
            lanes,
            first_sequence,
            done,
            ..
        } = self;
        // Before the commit, which does not wait for I/O grants.
        let session = match lanes.finish() {
            Ok(session) => session,
            Err(e) => {
                pool.remove_uncommitted(Purpose::Collect, first_sequence);
                return Err(e);
            }
        };
        retired.give_up(&done);
        let (generation, _) = pool.commits().newest();
        let mut stored_bytes = 0;
        let committed = pool.commit_collected(first_sequence, |base| {
            let since = Discarded {
                by: base.generation,
                at: pool.now(),
            };
            let mut edits = Vec::new();
            for id in &done {
                let is_counted = pool.has_key(base.record.catalog, &inventory_key(*id))?;
                let entry = entry_of(pool, *id, is_counted);
                stored_bytes += entry.blob_bytes;
                edits.push(Edit {
                    key: inventory_key(*id),
                    value: None,
                });
                edits.push(TrashedContainer { entry, since }.edit());
            }
            session.commit(base, edits, 0)
        });
        if let Err(e) = committed {
            if pool.commits().is_still_at(generation) {
                pool.chunks().quarantine.retired.take_back(&done);
            }
            return Err(e);
        }
        Ok(RoundResult {
            containers: done,
            stored_bytes,
        })
    }

    /// Reads the next region, those in memory first.
    fn read_next(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        live: &LiveMap,
        access: Access,
    ) -> Result<Next> {
        loop {
            let Some(source) = self.under_way.back_mut().filter(|s| !s.is_read) else {
                match self.rest.pop_front() {
                    Some(candidate) => self.under_way.push_back(Source::from(candidate)),
                    None => return Ok(Next::Nothing),
                }
                continue;
            };
            let has_live = live.of(source.candidate.id).is_some();
            if source.kind.is_none() && has_live && !source.is_lost {
                if access == Access::Memory {
                    return Ok(Next::NeedsDevice);
                }
                source.begin(pool, live, cached)?;
            }
            let Some(region) = source.regions.front().filter(|_| !source.is_lost) else {
                source.is_read = true;
                continue;
            };
            if access == Access::Memory && !region.is_cached(cached) {
                return Ok(Next::NeedsDevice);
            }
            let Some(region) = source.regions.pop_front() else {
                continue;
            };
            source.waiting += 1;
            let region = region.read(pool, cached)?;
            let bytes = region.len() as u64;
            self.opener.push(region);
            return Ok(Next::Read(bytes));
        }
    }

    /// Packs the oldest region that was read, or ends its container. Returns false if all are
    /// packed.
    fn pack_next(
        &mut self,
        pool: &Pool,
        mark: &Mark,
        retired: &mut Retired,
        cached: &dyn CachedChunks,
    ) -> Result<bool> {
        let Some(source) = self.under_way.front_mut() else {
            return Ok(false);
        };
        if source.waiting == 0 {
            if let Some(source) = self.under_way.pop_front() {
                let is_copied = source.is_copied(mark.live());
                self.end(source.candidate.id, is_copied, retired);
            }
            return Ok(true);
        }
        source.waiting -= 1;
        let looked = self.opener.pop()?;
        let (Some(looked), Some(kind)) = (looked, source.kind) else {
            return Ok(true);
        };
        if source.is_lost {
            return Ok(true);
        }
        let chunks = looked.chunks_wanted() as u64;
        match looked.pack(pool, cached, self.lanes.of(kind)?) {
            Err(e) if e.is_corruption() => source.is_lost = true,
            copied => {
                let copied = copied?;
                source.bytes += copied.bytes;
                self.counts.chunks += chunks;
                self.counts.bytes += copied.bytes;
                self.counts.cached_bytes += copied.cached_bytes;
                self.counts.as_stored_bytes += copied.as_stored_bytes;
            }
        }
        Ok(true)
    }

    /// Ends a container: all of its regions are packed, or cannot be.
    fn end(&mut self, id: ContainerId, is_copied: bool, retired: &mut Retired) {
        if !is_copied {
            self.counts.containers_kept_back += 1;
            retired.take_back(id);
        } else if retired.holds(id) {
            self.done.push(id);
        }
    }
}

/// A container that is being copied, and its progress.
struct Source {
    candidate: Candidate,
    /// Lane for its contents, once its directory was read.
    kind: Option<RegionKind>,
    /// Regions with live chunks that are not read, those in memory first.
    regions: VecDeque<SourceRegion>,
    /// Regions that were read and are not packed.
    waiting: usize,
    /// All regions were read.
    is_read: bool,
    /// A part of it cannot be read, so it stays.
    is_lost: bool,
    /// Length of the live chunks that were packed, bytes.
    bytes: u64,
}

impl From<Candidate> for Source {
    fn from(candidate: Candidate) -> Self {
        Self {
            candidate,
            kind: None,
            regions: VecDeque::new(),
            waiting: 0,
            is_read: false,
            is_lost: false,
            bytes: 0,
        }
    }
}

impl Source {
    /// Reads the directory and finds the regions with live chunks.
    fn begin(&mut self, pool: &Pool, live: &LiveMap, cached: &dyn CachedChunks) -> Result<()> {
        let id = self.candidate.id;
        let contents = match pool.containers().contents(id) {
            Err(e) if e.is_corruption() => {
                self.is_lost = true;
                return Ok(());
            }
            contents => contents?,
        };
        self.kind = Some(RegionKind::of(&contents));
        let regions = live_regions(live, id, contents);
        let (in_memory, others): (Vec<_>, Vec<_>) = regions
            .into_iter()
            .partition(|region| region.is_cached(cached));
        self.regions.extend(in_memory.into_iter().chain(others));
        Ok(())
    }

    /// Returns true if all of its live chunks are now stored elsewhere. False if its directory
    /// differs from the one that was marked, because such a directory proves nothing.
    fn is_copied(&self, live: &LiveMap) -> bool {
        let live = live.of(self.candidate.id);
        live.is_none_or(|live| !self.is_lost && self.bytes == live.live_bytes)
    }
}

/// Returns the trash entry of a container. The length is 0 if no commit has counted it.
fn entry_of(pool: &Pool, id: ContainerId, is_counted: bool) -> InventoryEntry {
    let containers = pool.containers();
    let class = containers.shape(id).map(|shape| shape.header.class);
    InventoryEntry {
        id,
        class: class.unwrap_or(ContainerClass::Data),
        blob_bytes: match is_counted {
            true => containers.stored_len(id).unwrap_or(0),
            false => 0,
        },
    }
}

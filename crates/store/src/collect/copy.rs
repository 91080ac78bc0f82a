//! Copying what is live out of containers, and putting those into the trash.
//!
//! Invariant: containers are retired before the first chunk is copied, so nobody refers to them
//! anew while they go; they are in the trash by the commit that enters the copies. A container
//! whose live chunks cannot all be read stays. Copies take no more than there is room for: a round
//! that runs short of it commits what it has, and one that fails removes its copies. Called by the
//! collector.

use super::choose::Candidate;
use super::lanes::Lanes;
use super::opener::Opener;
use super::region::SourceRegion;
use super::{CachedChunks, Collector, GcStage};
use crate::catalog::{Discarded, Edit, InventoryEntry, TrashedContainer, inventory_key};
use crate::chunk_map::ChunkMap;
use crate::container::{Contents, RegionPlace};
use crate::error::Result;
use crate::pool::{Pool, Purpose};
use crate::space::LiveMap;
use format::container::ContainerClass;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use units::ContainerId;

/// Containers that one commit gives up. What many small ones hold should fill a few.
const ROUND_CONTAINERS_MAX: usize = 4096;
/// Plain bytes that are copied for one commit: what a crash loses of the work.
const ROUND_BYTES_MAX: u64 = 1 << 30;

/// Regions that are read before the one that is packed: another thread looks into them meanwhile.
const REGIONS_AHEAD: usize = 2;
/// What is free is counted by this much too high: a region that is on its way, and directories.
const UNSEEN_BYTES: u64 = 1 << 20;

/// Containers between being retired and being in the trash.
pub(super) struct Round {
    lanes: Lanes,
    /// The first container that its copies may be in.
    first_sequence: u64,
    opener: Opener,
    /// Of which regions were read that are not packed yet, the oldest first; only the last one may have more.
    under_way: VecDeque<Source>,
    /// Still to be copied.
    rest: Vec<Candidate>,
    /// Copied.
    done: Vec<ContainerId>,
    /// ... of which so many were only small.
    merged: u64,
}

impl Round {
    /// What is not copied yet stays where it is.
    pub fn give_up_rest(&mut self) {
        self.opener.clear();
        self.under_way.clear();
        self.rest.clear();
    }

    /// Nothing of it is committed: its copies go.
    pub fn remove(self, pool: &Pool) {
        let first = self.first_sequence;
        drop(self);
        pool.remove_uncommitted(Purpose::Collect, first);
    }

    /// True when what is copied and not written yet takes about all that is left.
    fn is_short_of_room(&mut self, pool: &Pool) -> bool {
        let Some(reserved) = pool.reserved() else {
            return false;
        };
        let unseen = UNSEEN_BYTES.min(reserved.wanted_bytes / 8);
        let open = self.lanes.open_bytes();
        reserved.for_copies() < open.saturating_add(unseen)
    }

    pub fn bytes_left(&self) -> u64 {
        let rest = self.rest.iter().map(|candidate| candidate.live_bytes);
        let under_way = self.under_way.iter();
        let left = under_way.map(|s| s.candidate.live_bytes.saturating_sub(s.bytes));
        rest.chain(left).sum()
    }

    /// Reads the next region. Its stored bytes; `None`: there is none.
    fn read_next(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        live: &LiveMap,
    ) -> Result<Option<u64>> {
        loop {
            let Some(source) = self.under_way.back_mut().filter(|s| !s.is_read) else {
                match self.rest.pop() {
                    Some(candidate) => self.under_way.push_back(Source::from(candidate)),
                    None => return Ok(None),
                }
                continue;
            };
            let Some(region) = source.next_region(pool, live)? else {
                source.is_read = true;
                continue;
            };
            source.waiting += 1;
            let region = region.read(pool, cached)?;
            let bytes = region.len() as u64;
            self.opener.push(region);
            return Ok(Some(bytes));
        }
    }
}

/// A container that is copied, and how far that is.
struct Source {
    candidate: Candidate,
    /// Once they were read.
    contents: Option<Contents>,
    /// Regions that were read or have nothing live, and the chunks in them.
    regions: usize,
    chunks: u32,
    /// Regions that were read and are not packed.
    waiting: usize,
    /// All were read.
    is_read: bool,
    /// Something of it cannot be read: it stays.
    is_lost: bool,
    /// Live bytes that were packed.
    bytes: u64,
}

impl From<Candidate> for Source {
    fn from(candidate: Candidate) -> Self {
        Self {
            candidate,
            contents: None,
            regions: 0,
            chunks: 0,
            waiting: 0,
            is_read: false,
            is_lost: false,
            bytes: 0,
        }
    }
}

impl Source {
    /// The next region in which something is live.
    fn next_region(&mut self, pool: &Pool, live: &LiveMap) -> Result<Option<SourceRegion>> {
        let id = self.candidate.id;
        let Some(live) = live.of(id).filter(|_| !self.is_lost) else {
            return Ok(None);
        };
        let contents = match &mut self.contents {
            Some(contents) => contents,
            none => match pool.containers().contents(id) {
                Err(e) if e.is_corruption() => {
                    self.is_lost = true;
                    return Ok(None);
                }
                contents => none.insert(contents?),
            },
        };
        while let Some(region) = contents.directory.regions.get(self.regions) {
            let first = self.chunks;
            self.regions += 1;
            self.chunks += region.chunks.len() as u32;
            let numbers = 0..region.chunks.len();
            let wanted: Vec<_> = numbers.filter(|n| live.holds(first + *n as u32)).collect();
            if wanted.is_empty() {
                continue;
            }
            let place = RegionPlace {
                container: id,
                sector: region.sector,
            };
            return Ok(Some(SourceRegion {
                place,
                class: contents.class,
                stored_bytes: region.stored_bytes,
                chunks: region.chunks.clone(),
                wanted,
            }));
        }
        Ok(None)
    }

    /// Whether all that is live of it is stored elsewhere now. A directory that is not the one that was
    /// marked proves nothing.
    fn is_copied(&self, live: &LiveMap) -> bool {
        let live = live.of(self.candidate.id);
        live.is_none_or(|live| !self.is_lost && self.bytes == live.live_bytes)
    }
}

/// Containers of the plan, from its start on. Dropped, it takes those back that no commit gives up.
pub(super) struct RetiredForNow {
    chunks: Arc<ChunkMap>,
    containers: BTreeSet<ContainerId>,
}

impl RetiredForNow {
    pub fn new(pool: &Pool, plan: &[Candidate]) -> Self {
        let new = plan.iter().filter(|candidate| !candidate.in_trash);
        let containers: BTreeSet<_> = new.map(|candidate| candidate.id).collect();
        let chunks = Arc::clone(pool.chunks());
        chunks.quarantine.retired.add(containers.iter().copied());
        Self { chunks, containers }
    }

    fn take_back(&mut self, id: ContainerId) {
        if self.containers.remove(&id) {
            self.chunks.quarantine.retired.take_back(&[id]);
        }
    }

    /// The commit that gives them up begins: it may stand, whatever is told of it.
    fn give_up(&mut self, ids: &[ContainerId]) {
        ids.iter().for_each(|id| {
            self.containers.remove(id);
        });
    }
}

impl Drop for RetiredForNow {
    fn drop(&mut self) {
        let containers: Vec<_> = self.containers.iter().copied().collect();
        self.chunks.quarantine.retired.take_back(&containers);
    }
}

impl Collector {
    pub(super) fn copy(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        budget_bytes: u64,
    ) -> Result<()> {
        let Some(mut round) = self.round.take() else {
            if self.plan.is_empty() {
                self.counts.containers_in_trash += self.counts.containers_discarded;
                self.counts.trash_bytes += self.counts.discarded_bytes;
                self.stage = GcStage::Done;
                return Ok(());
            }
            self.round = Some(self.begin_round(pool)?);
            return Ok(());
        };
        let copies = round.bytes_left() > 0;
        if copies && round.is_short_of_room(pool) {
            self.counts.containers_without_room += self.plan.len() as u64 + round.rest.len() as u64;
            self.plan.clear();
            round.give_up_rest();
        }
        match self.copy_some(pool, cached, budget_bytes, &mut round) {
            Ok(true) => self.discard(pool, round),
            Ok(false) => {
                self.round = Some(round);
                Ok(())
            }
            Err(e) => {
                round.remove(pool);
                Err(e)
            }
        }
    }

    /// True when nothing of the round is left to be copied.
    fn copy_some(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        budget_bytes: u64,
        round: &mut Round,
    ) -> Result<bool> {
        let until = self.counts.copied_bytes.saturating_add(budget_bytes.max(1));
        let mut read_bytes = 0;
        loop {
            let live = &self.marking.live;
            while round.opener.len() <= REGIONS_AHEAD
                && let Some(bytes) = round.read_next(pool, cached, live)?
            {
                read_bytes += bytes;
                if read_bytes >= budget_bytes && round.opener.len() <= REGIONS_AHEAD {
                    return Ok(false);
                }
            }
            if !self.pack_next(pool, cached, round)? {
                return Ok(true);
            }
            if self.counts.copied_bytes >= until {
                return Ok(false);
            }
        }
    }

    /// Packs the oldest region that was read, or ends its container. False: all are done.
    fn pack_next(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        round: &mut Round,
    ) -> Result<bool> {
        let Some(source) = round.under_way.front_mut() else {
            return Ok(false);
        };
        if source.waiting == 0 {
            if let Some(source) = round.under_way.pop_front() {
                self.end(source, round);
            }
            return Ok(true);
        }
        source.waiting -= 1;
        let looked = round.opener.pop()?;
        let (Some(looked), Some(contents)) = (looked, &source.contents) else {
            return Ok(true);
        };
        if source.is_lost {
            return Ok(true);
        }
        let chunks = looked.chunks_wanted() as u64;
        match looked.pack(pool, cached, round.lanes.of(contents)?) {
            Err(e) if e.is_corruption() => source.is_lost = true,
            copied => {
                let copied = copied?;
                source.bytes += copied.bytes;
                self.counts.chunks_copied += chunks;
                self.counts.copied_bytes += copied.bytes;
                self.counts.cached_bytes += copied.cached_bytes;
                self.counts.as_stored_bytes += copied.as_stored_bytes;
            }
        }
        Ok(true)
    }

    /// Nothing more of a container is to be copied.
    fn end(&mut self, source: Source, round: &mut Round) {
        let Candidate {
            id,
            in_trash,
            is_small,
            ..
        } = source.candidate;
        if !source.is_copied(&self.marking.live) {
            self.counts.containers_kept_back += 1;
            if let Some(retired) = &mut self.retired {
                retired.take_back(id);
            }
        } else if !in_trash {
            round.done.push(id);
            round.merged += u64::from(is_small);
        }
    }

    fn begin_round(&mut self, pool: &Pool) -> Result<Round> {
        let mut rest: Vec<Candidate> = Vec::new();
        let mut bytes = 0;
        while let Some(candidate) = self.plan.last()
            && rest.len() < ROUND_CONTAINERS_MAX
            && (rest.is_empty() || bytes + candidate.live_bytes <= ROUND_BYTES_MAX)
        {
            // What needs no copying is given up before anything is copied, when there is little
            // room.
            let is_first = |rest: &[Candidate]| rest.first().is_none_or(|c| c.live_bytes == 0);
            if self.is_tight && is_first(&rest) && !rest.is_empty() && candidate.live_bytes > 0 {
                break;
            }
            bytes += candidate.live_bytes;
            rest.extend(self.plan.pop());
        }
        rest.reverse();
        let lanes = Lanes::begin(pool, self.lane)?;
        Ok(Round {
            first_sequence: pool.next_sequence(Purpose::Collect),
            lanes,
            opener: Opener::new(pool.containers()),
            under_way: VecDeque::new(),
            rest,
            done: Vec::new(),
            merged: 0,
        })
    }

    /// Enters the copies and puts their old containers into the trash; durable on return.
    fn discard(&mut self, pool: &Pool, round: Round) -> Result<()> {
        let Round {
            lanes,
            first_sequence,
            done,
            merged,
            ..
        } = round;
        // Before the commit, in which nobody waits for turns.
        let session = match lanes.finish() {
            Ok(session) => session,
            Err(e) => {
                pool.remove_uncommitted(Purpose::Collect, first_sequence);
                return Err(e);
            }
        };
        if let Some(retired) = &mut self.retired {
            retired.give_up(&done);
        }
        let (generation, _) = pool.newest();
        let mut discarded = 0;
        let committed = pool.commit_collected(first_sequence, |base| {
            let since = Discarded {
                by: base.generation,
                at: pool.now(),
            };
            let mut edits = Vec::new();
            for id in &done {
                let is_counted = pool.has_key(base.record.catalog, &inventory_key(*id))?;
                let entry = entry_of(pool, *id, is_counted);
                discarded += entry.blob_bytes;
                edits.push(Edit {
                    key: inventory_key(*id),
                    value: None,
                });
                edits.push(TrashedContainer { entry, since }.edit());
            }
            session.commit(base, edits, 0)
        });
        if let Err(e) = committed {
            if pool.is_still_at(generation) {
                pool.chunks().quarantine.retired.take_back(&done);
            }
            return Err(e);
        }
        self.counts.containers_discarded += done.len() as u64;
        self.counts.containers_merged += merged;
        self.counts.discarded_bytes += discarded;
        Ok(())
    }
}

/// What the trash says of a container. One that no commit has counted has the length 0.
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

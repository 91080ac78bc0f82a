//! Copying what is live out of containers, and putting those into the trash.
//!
//! Invariant: containers are retired before the first chunk is copied, so nobody refers to them anew
//! while they go; they are in the trash by the commit that enters the copies. A container whose live
//! chunks cannot all be read stays. Called by the collector.

use super::choose::Candidate;
use super::lanes::Lanes;
use super::region::SourceRegion;
use super::{CachedChunks, Collector, GcStage};
use crate::catalog::{Discarded, Edit, InventoryEntry, TrashedContainer, inventory_key};
use crate::chunk_map::ChunkMap;
use crate::container::{Contents, RegionPlace};
use crate::error::Result;
use crate::pool::{Pool, Purpose};
use format::container::ContainerClass;
use std::collections::BTreeSet;
use std::sync::Arc;
use units::ContainerId;

/// Containers that one commit gives up. What many small ones hold should fill a few.
const ROUND_CONTAINERS_MAX: usize = 4096;
/// Plain bytes that are copied for one commit: what a crash loses of the work.
const ROUND_BYTES_MAX: u64 = 1 << 30;

/// Containers between being retired and being in the trash.
pub(super) struct Round {
    lanes: Lanes,
    /// Under way.
    source: Option<Source>,
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
        self.source = None;
        self.rest.clear();
    }

    pub fn bytes_left(&self) -> u64 {
        let rest = self.rest.iter().map(|candidate| candidate.live_bytes);
        let under_way = self.source.as_ref();
        let left = under_way.map(|s| s.candidate.live_bytes.saturating_sub(s.bytes));
        rest.chain(left).sum()
    }

    /// The container that is under way, or else the next one.
    fn next(&mut self) -> Option<Source> {
        let under_way = self.source.take();
        under_way.or_else(|| self.rest.pop().map(Source::from))
    }
}

/// A container that is copied, and how far that is.
struct Source {
    candidate: Candidate,
    /// Once they were read.
    contents: Option<Contents>,
    /// Regions that are done, and the chunks in them.
    regions: usize,
    chunks: u32,
    /// Live bytes of those.
    bytes: u64,
}

impl From<Candidate> for Source {
    fn from(candidate: Candidate) -> Self {
        Self {
            candidate,
            contents: None,
            regions: 0,
            chunks: 0,
            bytes: 0,
        }
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

/// Whether all that is live of a container is stored elsewhere now.
enum Copied {
    All,
    /// More of it is to be copied.
    Part,
    /// Something of it cannot be read.
    Not,
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
        let until = self.counts.copied_bytes.saturating_add(budget_bytes.max(1));
        while let Some(mut source) = round.next() {
            match self.copy_out(pool, cached, &mut round.lanes, &mut source, until)? {
                Copied::Part => round.source = Some(source),
                Copied::All if source.candidate.in_trash => {}
                Copied::All => {
                    round.done.push(source.candidate.id);
                    round.merged += u64::from(source.candidate.is_small);
                }
                Copied::Not => {
                    self.counts.containers_kept_back += 1;
                    if let Some(retired) = &mut self.retired {
                        retired.take_back(source.candidate.id);
                    }
                }
            }
            if self.counts.copied_bytes >= until {
                self.round = Some(round);
                return Ok(());
            }
        }
        self.discard(pool, round)
    }

    fn begin_round(&mut self, pool: &Pool) -> Result<Round> {
        let mut rest = Vec::new();
        let mut bytes = 0;
        while let Some(candidate) = self.plan.last()
            && rest.len() < ROUND_CONTAINERS_MAX
            && (rest.is_empty() || bytes + candidate.live_bytes <= ROUND_BYTES_MAX)
        {
            bytes += candidate.live_bytes;
            rest.extend(self.plan.pop());
        }
        rest.reverse();
        Ok(Round {
            lanes: Lanes::begin(pool, self.lane)?,
            source: None,
            rest,
            done: Vec::new(),
            merged: 0,
        })
    }

    /// Goes on with a container, region by region, until so many bytes have been copied in all.
    fn copy_out(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        lanes: &mut Lanes,
        source: &mut Source,
        until: u64,
    ) -> Result<Copied> {
        let id = source.candidate.id;
        let Some(live) = self.marking.live.of(id) else {
            return Ok(Copied::All);
        };
        let contents = match &mut source.contents {
            Some(contents) => contents,
            none => match pool.containers().contents(id) {
                Err(e) if e.is_corruption() => return Ok(Copied::Not),
                contents => none.insert(contents?),
            },
        };
        let lane = lanes.of(contents)?;
        while let Some(region) = contents.directory.regions.get(source.regions) {
            if self.counts.copied_bytes >= until {
                return Ok(Copied::Part);
            }
            let first = source.chunks;
            source.regions += 1;
            source.chunks += region.chunks.len() as u32;
            let numbers = 0..region.chunks.len();
            let wanted: Vec<_> = numbers.filter(|n| live.holds(first + *n as u32)).collect();
            if wanted.is_empty() {
                continue;
            }
            let from = SourceRegion {
                place: RegionPlace {
                    container: id,
                    sector: region.sector,
                },
                class: contents.class,
                region,
            };
            match from.copy(pool, cached, lane, &wanted) {
                Err(e) if e.is_corruption() => return Ok(Copied::Not),
                copied => {
                    let copied = copied?;
                    source.bytes += copied.bytes;
                    self.counts.chunks_copied += wanted.len() as u64;
                    self.counts.copied_bytes += copied.bytes;
                    self.counts.cached_bytes += copied.cached_bytes;
                    self.counts.as_stored_bytes += copied.as_stored_bytes;
                }
            }
        }
        // A directory that is not the one that was marked proves nothing.
        Ok(match source.bytes == live.live_bytes {
            true => Copied::All,
            false => Copied::Not,
        })
    }

    /// Enters the copies and puts their old containers into the trash; durable on return.
    fn discard(&mut self, pool: &Pool, round: Round) -> Result<()> {
        let Round {
            lanes,
            done,
            merged,
            ..
        } = round;
        if let Some(retired) = &mut self.retired {
            retired.give_up(&done);
        }
        // Before the commit, in which nobody waits for turns.
        let session = lanes.finish()?;
        let mut discarded = 0;
        pool.commit_with(Purpose::Collect, |base| {
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
        })?;
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

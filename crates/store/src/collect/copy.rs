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
use crate::container::RegionPlace;
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
        self.rest.clear();
    }

    pub fn bytes_left(&self) -> u64 {
        self.rest.iter().map(|candidate| candidate.live_bytes).sum()
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
        while let Some(candidate) = round.rest.pop() {
            match self.copy_out(pool, cached, &mut round.lanes, candidate.id)? {
                Copied::All if candidate.in_trash => {}
                Copied::All => {
                    round.done.push(candidate.id);
                    round.merged += u64::from(candidate.is_small);
                }
                Copied::Not => {
                    self.counts.containers_kept_back += 1;
                    if let Some(retired) = &mut self.retired {
                        retired.take_back(candidate.id);
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
            rest,
            done: Vec::new(),
            merged: 0,
        })
    }

    fn copy_out(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        lanes: &mut Lanes,
        id: ContainerId,
    ) -> Result<Copied> {
        let Some(live) = self.marking.live.of(id) else {
            return Ok(Copied::All);
        };
        let contents = match pool.containers().contents(id) {
            Err(e) if e.is_corruption() => return Ok(Copied::Not),
            contents => contents?,
        };
        let lane = lanes.of(&contents)?;
        let (mut number, mut bytes) = (0, 0);
        for region in &contents.directory.regions {
            let first = number;
            number += region.chunks.len() as u32;
            let numbered = (first..).zip(&region.chunks);
            let wanted = numbered.filter(|(number, _)| live.holds(*number));
            let wanted: Vec<_> = wanted.map(|(n, _)| (n - first) as usize).collect();
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
                    bytes += copied.bytes;
                    self.counts.chunks_copied += wanted.len() as u64;
                    self.counts.copied_bytes += copied.bytes;
                    self.counts.cached_bytes += copied.cached_bytes;
                    self.counts.as_stored_bytes += copied.as_stored_bytes;
                }
            }
        }
        // A directory that is not the one that was marked proves nothing.
        Ok(match bytes == live.live_bytes {
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

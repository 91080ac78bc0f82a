//! Which containers are worth collecting.
//!
//! Invariant: of containers that the mark's commit had entered, and of no others. Called by the
//! collector.

use super::copy::RetiredForNow;
use super::merge::{Small, to_merge};
use super::policy::benefit;
use super::{CachedChunks, Collector, GcStage, settled};
use crate::container::visit_containers;
use crate::error::Result;
use crate::pool::Pool;
use crate::space::LiveContainer;
use format::container::ContainerClass;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use units::ContainerId;

/// A container that is worth it.
pub(super) struct Candidate {
    pub id: ContainerId,
    /// Plain bytes to be copied.
    pub live_bytes: u64,
    /// What the copies take on the disk, about, and what it takes itself; 0 of what is in no need
    /// of room.
    copy_bytes: u64,
    stored_bytes: u64,
    /// It is in the trash already, and somebody needs it again.
    pub in_trash: bool,
    /// It goes only because it is small.
    pub is_small: bool,
    /// Most of it is live: others go first.
    is_full: bool,
    /// However little is unused: nothing of it is needed, or it holds nodes, which are few bytes that every mark
    /// reads.
    goes_anyway: bool,
    /// What collecting it gives, about.
    gain_bytes: u64,
    benefit: u128,
}

impl From<Small> for Candidate {
    fn from(small: Small) -> Self {
        Self {
            id: small.id,
            live_bytes: small.live_bytes,
            copy_bytes: 0,
            stored_bytes: 0,
            in_trash: false,
            is_small: true,
            is_full: false,
            goes_anyway: false,
            gain_bytes: 0,
            benefit: 0,
        }
    }
}

impl Candidate {
    /// The lower goes first.
    fn rank(&self) -> u8 {
        match self {
            Self { in_trash: true, .. } => 0,
            Self {
                goes_anyway: true, ..
            } => 1,
            Self { is_full: false, .. } => 2,
            _ => 3,
        }
    }
}

impl Collector {
    /// Makes the plan: what nothing needs, then the best first, as much as may be copied and until little enough is
    /// unused; then small ones, if there are many; then in the order of their numbers, the newest first, so that of
    /// several copies the newest stays.
    pub(super) fn choose(&mut self, pool: &Pool, cached: &dyn CachedChunks) -> Result<()> {
        let (mut found, mut small) = self.candidates(pool, cached)?;
        found.sort_by_key(|c| (c.rank(), std::cmp::Reverse(c.benefit), c.id));
        let mut room = self.policy.copy_bytes_max;
        let live = self.marking.live.bytes;
        let may_stay = live.saturating_mul(self.policy.unused_percent_max) / 100;
        let mut unused: u64 = found.iter().map(|candidate| candidate.gain_bytes).sum();
        found.retain(|candidate| {
            let is_wanted = candidate.goes_anyway || unused > may_stay;
            let goes = candidate.in_trash || is_wanted && candidate.live_bytes <= room;
            if goes {
                room = room.saturating_sub(candidate.live_bytes);
                unused = unused.saturating_sub(candidate.gain_bytes);
            }
            goes
        });
        let gain: u64 = found.iter().map(|c| c.gain_bytes).sum();
        if gain < self.policy.gain_bytes_min {
            found.retain(|candidate| candidate.in_trash);
        }
        let chosen: HashSet<_> = found.iter().map(|candidate| candidate.id).collect();
        small.retain(|small| !chosen.contains(&small.id));
        let copied: u64 = found.iter().map(|candidate| candidate.live_bytes).sum();
        let room = self.policy.copy_bytes_max.saturating_sub(copied);
        let merged = to_merge(&small, self.policy.merge_ratio_min, room);
        found.extend(merged.into_iter().map(Candidate::from));
        self.fit_in(pool, &mut found);
        let is_tight = self.is_tight;
        found.sort_by_key(|c| (is_tight && c.live_bytes == 0, c.id));
        if self.policy.dry_run {
            for candidate in found.iter().filter(|candidate| !candidate.in_trash) {
                self.counts.containers_discarded += 1;
                self.counts.containers_merged += u64::from(candidate.is_small);
                let stored = pool.containers().stored_len(candidate.id).unwrap_or(0);
                self.counts.discarded_bytes += stored;
                self.counts.copied_bytes += candidate.live_bytes;
            }
            found.clear();
        }
        self.retired = Some(RetiredForNow::new(pool, &found));
        self.plan = found;
        self.stage = GcStage::Copying;
        Ok(())
    }

    /// Leaves those out that there is no room to copy: what gives most for the least goes first.
    fn fit_in(&mut self, pool: &Pool, found: &mut Vec<Candidate>) {
        let Some(reserved) = pool.reserved() else {
            return;
        };
        for candidate in found.iter_mut().filter(|c| c.live_bytes > 0) {
            let stored = pool.containers().stored_len(candidate.id).unwrap_or(0);
            let live = self.marking.live.of(candidate.id);
            let plain = live.map_or(0, |live| live.plain_bytes).max(1);
            let share = u128::from(stored) * u128::from(candidate.live_bytes) / u128::from(plain);
            let share = u64::try_from(share).unwrap_or(u64::MAX);
            // Repacked in part it may shrink less.
            candidate.copy_bytes = share.saturating_add(share / 8);
            candidate.stored_bytes = stored;
        }
        let mut room = reserved.for_copies();
        let needed: u64 = found.iter().map(|c| c.copy_bytes).sum();
        self.is_tight = needed > room;
        if !self.is_tight {
            return;
        }
        let cost = |c: &Candidate| u128::from(c.copy_bytes) << 20;
        let before = found.len();
        found.sort_by_key(|c| (cost(c) / u128::from(c.stored_bytes.max(1)), c.id));
        found.retain(|c| {
            let gives = c.copy_bytes < c.stored_bytes || c.live_bytes == 0;
            let goes = gives && c.copy_bytes <= room;
            room = room.saturating_sub(if goes { c.copy_bytes } else { 0 });
            goes
        });
        self.counts.containers_without_room += (before - found.len()) as u64;
    }

    /// What is worth it by itself, and what is small.
    fn candidates(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
    ) -> Result<(Vec<Candidate>, Vec<Small>)> {
        let Some(basis) = &self.basis else {
            return Ok((Vec::new(), Vec::new()));
        };
        let full_bytes = self.lane.container_bytes as u64;
        let small_bytes_max = full_bytes.saturating_mul(self.policy.small_percent_max) / 100;
        let mut small = Vec::new();
        let in_trash: BTreeSet<ContainerId> = self.trash.iter().map(|t| t.entry.id).collect();
        let is_settled = settled(&basis.record.next_sequence);
        let mut found = Vec::new();
        let mut seen = 0;
        visit_containers(pool.containers().blobs(), &BTreeMap::new(), &mut |id| {
            if !is_settled(id) {
                return Ok(ControlFlow::Continue(()));
            }
            seen += 1;
            let live = self.marking.live.of(id);
            if in_trash.contains(&id) {
                if let Some(live) = live {
                    found.push(Candidate {
                        id,
                        live_bytes: live.live_bytes,
                        copy_bytes: 0,
                        stored_bytes: 0,
                        in_trash: true,
                        is_small: false,
                        is_full: false,
                        goes_anyway: true,
                        gain_bytes: 0,
                        benefit: 0,
                    });
                }
                return Ok(ControlFlow::Continue(()));
            }
            if let Some(live) = live.filter(|live| live.live_bytes < small_bytes_max) {
                small.push(Small {
                    id,
                    class: live.class,
                    live_bytes: live.live_bytes,
                });
            }
            let age = basis.generation.0;
            found.extend(self.candidate(pool, cached, id, live, age)?);
            Ok(ControlFlow::Continue(()))
        })?;
        self.counts.containers = seen;
        Ok((found, small))
    }

    fn candidate(
        &self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        id: ContainerId,
        live: Option<&LiveContainer>,
        now: u64,
    ) -> Result<Option<Candidate>> {
        let Some(live) = live else {
            // Whatever it is: nothing needs it.
            return Ok(Some(Candidate {
                id,
                live_bytes: 0,
                copy_bytes: 0,
                stored_bytes: 0,
                in_trash: false,
                is_small: false,
                is_full: false,
                goes_anyway: true,
                gain_bytes: pool.containers().stored_len(id).unwrap_or(0),
                benefit: u128::MAX,
            }));
        };
        let (plain, bytes) = (live.plain_bytes, live.live_bytes);
        if bytes >= plain {
            return Ok(None);
        }
        let in_memory = match cached.is_empty() {
            true => 0,
            false => cached_bytes(pool, cached, id, live)?,
        };
        let to_copy = bytes - in_memory.min(bytes);
        let is_full =
            to_copy.saturating_mul(100) > plain.saturating_mul(self.policy.live_percent_max);
        let made = match pool.containers().shape(id) {
            Err(e) if e.is_corruption() => return Ok(None),
            shape => shape?.header.generation.0,
        };
        Ok(Some(Candidate {
            id,
            live_bytes: bytes,
            copy_bytes: 0,
            stored_bytes: 0,
            in_trash: false,
            is_small: false,
            is_full,
            goes_anyway: live.class == ContainerClass::Recipe && !is_full,
            gain_bytes: plain - bytes,
            benefit: benefit(to_copy, plain, now.saturating_sub(made) + 1),
        }))
    }
}

/// Plain bytes of the live chunks that are in memory.
fn cached_bytes(
    pool: &Pool,
    cached: &dyn CachedChunks,
    id: ContainerId,
    live: &LiveContainer,
) -> Result<u64> {
    let directory = match pool.chunks().directory(id) {
        Err(e) if e.is_corruption() => return Ok(0),
        directory => directory?,
    };
    let mut bytes = 0;
    directory.each(&mut |fingerprint, number, len| {
        if live.holds(number) && cached.holds(fingerprint) {
            bytes += u64::from(len);
        }
    });
    Ok(bytes)
}

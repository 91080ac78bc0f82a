//! Chooses the containers to collect. The collector calls this.
//!
//! Invariant: only containers that the mark's commit had entered are chosen.

use super::Collector;
use super::merge::{Small, to_merge};
use super::policy::benefit;
use format::container::ContainerClass;
use std::collections::HashSet;
use store::{CachedChunks, ContainerUsage, Mark, Pool, Result};
use units::ContainerId;

/// Space is scarce if less than one part in this many of the copies is left beside them.
const SCARCE_SHARE: u64 = 4;

/// A container worth collecting.
pub(super) struct Candidate {
    pub id: ContainerId,
    /// Plain bytes to copy.
    pub live_bytes: u64,
    /// Kind of its contents, if anything in it is live.
    pub class: Option<ContainerClass>,
    /// Approximate space of the copies on the disk, and space of the container itself; 0 if it
    /// needs no space.
    copy_bytes: u64,
    stored_bytes: u64,
    /// The container is in the trash, and is needed again.
    pub in_trash: bool,
    /// The container is collected only because it is small.
    pub is_small: bool,
    /// Most of it is live: others go first.
    is_full: bool,
    /// Collected however little of it is garbage: nothing needs it, or it has recipe nodes, which
    /// are few bytes that every mark reads.
    goes_anyway: bool,
    /// Approximate gain of collecting it.
    gain_bytes: u64,
    benefit: u128,
}

impl From<Small> for Candidate {
    fn from(small: Small) -> Self {
        Self {
            id: small.id,
            live_bytes: small.live_bytes,
            class: Some(small.class),
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
    /// Lower ranks are collected first.
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
    /// Makes the plan: first unneeded containers, then the most worthwhile, within the copy limit
    /// and until little enough garbage is left. Then small containers, if there are many. The plan
    /// is ordered by number and copied from the end, newest first, so that the newest of several
    /// copies stays.
    pub(super) fn chosen(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
    ) -> Result<Vec<Candidate>> {
        let (mut found, mut small) = self.candidates(pool, cached)?;
        found.sort_by_key(|c| (c.rank(), std::cmp::Reverse(c.benefit), c.id));
        let mut room = self.policy.copy_bytes_max;
        let live = self.counts().live_bytes;
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
        Ok(found)
    }

    /// Removes containers whose copies do not fit into free space. Keeps those that free most for
    /// the smallest copies.
    fn fit_in(&mut self, pool: &Pool, found: &mut Vec<Candidate>) {
        let Some(reserved) = pool.reserved() else {
            return;
        };
        for candidate in found.iter_mut().filter(|c| c.live_bytes > 0) {
            let stored = pool.container_bytes(candidate.id);
            let usage = self.mark.as_ref().and_then(|mark| mark.usage(candidate.id));
            let plain = usage.map_or(0, |usage| usage.plain_bytes).max(1);
            let share = u128::from(stored) * u128::from(candidate.live_bytes) / u128::from(plain);
            let share = u64::try_from(share).unwrap_or(u64::MAX);
            // A repacked part may compress less well.
            candidate.copy_bytes = share.saturating_add(share / 8);
            candidate.stored_bytes = stored;
        }
        let mut room = reserved.for_copies().saturating_sub(self.kept_bytes);
        let needed: u64 = found.iter().map(|c| c.copy_bytes).sum();
        self.is_tight = needed > room;
        self.is_scarce = needed.saturating_add(needed / SCARCE_SHARE) > room;
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

    /// Returns containers that are worthwhile by themselves, and small containers.
    fn candidates(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
    ) -> Result<(Vec<Candidate>, Vec<Small>)> {
        let Some(mark) = &self.mark else {
            return Ok((Vec::new(), Vec::new()));
        };
        let full_bytes = self.lane.container_bytes as u64;
        let small_bytes_max = full_bytes.saturating_mul(self.policy.small_percent_max) / 100;
        let (mut found, mut small) = (Vec::new(), Vec::new());
        let (mut seen, mut live_stored_bytes) = (0, 0);
        mark.visit_containers(pool, &mut |container| {
            seen += 1;
            let (id, usage) = (container.id, container.usage);
            if let Some(usage) = usage {
                let stored = u128::from(pool.container_bytes(id));
                let share = stored * u128::from(usage.live_bytes);
                live_stored_bytes += (share / u128::from(usage.plain_bytes.max(1))) as u64;
            }
            if container.in_trash {
                found.extend(usage.map(|usage| needed_again(id, usage)));
                return Ok(());
            }
            if let Some(usage) = usage.filter(|usage| usage.live_bytes < small_bytes_max) {
                small.push(Small {
                    id,
                    class: usage.class,
                    live_bytes: usage.live_bytes,
                });
            }
            found.extend(match usage {
                Some(usage) => self.sparse(pool, mark, cached, id, usage)?,
                None => Some(unneeded(pool, id)),
            });
            Ok(())
        })?;
        self.counts.containers = seen;
        self.counts.live_stored_bytes = live_stored_bytes;
        Ok((found, small))
    }

    /// Returns the candidate for a container that is needed in part.
    fn sparse(
        &self,
        pool: &Pool,
        mark: &Mark,
        cached: &dyn CachedChunks,
        id: ContainerId,
        usage: ContainerUsage,
    ) -> Result<Option<Candidate>> {
        let (plain, bytes) = (usage.plain_bytes, usage.live_bytes);
        if bytes >= plain {
            return Ok(None);
        }
        let in_memory = mark.cached_bytes(pool, cached, id);
        let to_copy = bytes - in_memory.min(bytes);
        let is_full =
            to_copy.saturating_mul(100) > plain.saturating_mul(self.policy.live_percent_max);
        let Some(made) = pool.container_generation(id)? else {
            return Ok(None);
        };
        let age = mark.generation().0.saturating_sub(made.0) + 1;
        Ok(Some(Candidate {
            id,
            live_bytes: bytes,
            class: Some(usage.class),
            copy_bytes: 0,
            stored_bytes: 0,
            in_trash: false,
            is_small: false,
            is_full,
            goes_anyway: usage.class == ContainerClass::Recipe && !is_full,
            gain_bytes: plain - bytes,
            benefit: benefit(to_copy, plain, age),
        }))
    }
}

/// A container in the trash that is needed again.
fn needed_again(id: ContainerId, usage: ContainerUsage) -> Candidate {
    Candidate {
        id,
        live_bytes: usage.live_bytes,
        class: Some(usage.class),
        copy_bytes: 0,
        stored_bytes: 0,
        in_trash: true,
        is_small: false,
        is_full: false,
        goes_anyway: true,
        gain_bytes: 0,
        benefit: 0,
    }
}

/// A container that nothing needs.
fn unneeded(pool: &Pool, id: ContainerId) -> Candidate {
    Candidate {
        id,
        live_bytes: 0,
        class: None,
        copy_bytes: 0,
        stored_bytes: 0,
        in_trash: false,
        is_small: false,
        is_full: false,
        goes_anyway: true,
        gain_bytes: pool.container_bytes(id),
        benefit: u128::MAX,
    }
}

//! The containers that a mark has seen, and how much of each is live: for choosing what to copy.
//!
//! Invariant: lists containers that the marked commit had entered, and no others. Nothing here
//! decides. Called by garbage collection.

use super::CachedChunks;
use super::mark::Mark;
use crate::pool::Pool;
use chunk_store::Result;
use chunk_store::container::visit_containers;
use format::container::ContainerClass;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use units::{ContainerId, Generation};

/// A container at the end of a mark.
#[derive(Clone, Copy, Debug)]
pub struct MarkedContainer {
    /// Its name.
    pub id: ContainerId,
    /// It is in the trash already.
    pub in_trash: bool,
    /// What is live of it; `None`: nothing.
    pub usage: Option<ContainerUsage>,
}

/// How much of a container is live.
#[derive(Clone, Copy, Debug)]
pub struct ContainerUsage {
    /// What it holds.
    pub class: ContainerClass,
    /// Plain bytes of its live chunks.
    pub live_bytes: u64,
    /// Plain bytes of all of its chunks.
    pub plain_bytes: u64,
}

impl Mark {
    /// Shows every container that the marked commit had entered and that is still stored.
    pub fn visit_containers(
        &self,
        pool: &Pool,
        show: &mut dyn FnMut(MarkedContainer) -> Result<()>,
    ) -> Result<()> {
        let in_trash: BTreeSet<ContainerId> = self.trash().iter().map(|t| t.entry.id).collect();
        let is_settled = self.settled();
        visit_containers(pool.containers().blobs(), &BTreeMap::new(), &mut |id| {
            if is_settled(id) {
                show(MarkedContainer {
                    id,
                    in_trash: in_trash.contains(&id),
                    usage: self.usage(id),
                })?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// How much of a container is live; `None`: nothing.
    pub fn usage(&self, id: ContainerId) -> Option<ContainerUsage> {
        self.live().of(id).map(|live| ContainerUsage {
            class: live.class,
            live_bytes: live.live_bytes,
            plain_bytes: live.plain_bytes,
        })
    }

    /// Plain bytes of a container's live chunks that are in memory; 0 when its directory is damaged.
    pub fn cached_bytes(
        &self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        id: ContainerId,
    ) -> Result<u64> {
        let Some(live) = self.live().of(id).filter(|_| !cached.is_empty()) else {
            return Ok(0);
        };
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
}

impl Pool {
    /// Stored bytes of a container; 0 when it cannot be read.
    pub fn container_bytes(&self, id: ContainerId) -> u64 {
        self.containers().stored_len(id).unwrap_or(0)
    }

    /// The commit that a container was written for; `None` when its header is damaged.
    pub fn container_generation(&self, id: ContainerId) -> Result<Option<Generation>> {
        match self.containers().shape(id) {
            Err(e) if e.is_corruption() => Ok(None),
            shape => Ok(Some(shape?.header.generation)),
        }
    }
}

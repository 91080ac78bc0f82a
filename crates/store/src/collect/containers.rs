//! Lists the containers of a mark and how much of each is live. Garbage collection uses it to
//! choose what to copy.
//!
//! Invariant: lists exactly the stored containers that the marked commit had entered. Nothing here
//! decides.

use super::CachedChunks;
use super::mark::Mark;
use crate::pool::Pool;
use chunk_store::{Result, container::visit_containers};
use format::container::ContainerClass;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use units::{ContainerId, Generation};

/// A container at the end of a mark.
#[derive(Clone, Copy, Debug)]
pub struct MarkedContainer {
    /// Its number.
    pub id: ContainerId,
    /// True if it is already in the trash.
    pub in_trash: bool,
    /// How much of it is live; `None`: nothing.
    pub usage: Option<ContainerUsage>,
}

/// How much of a container is live.
#[derive(Clone, Copy, Debug)]
pub struct ContainerUsage {
    /// Kind of its contents.
    pub class: ContainerClass,
    /// Length of its live chunks, bytes.
    pub live_bytes: u64,
    /// Length of all its chunks, bytes.
    pub plain_bytes: u64,
}

impl Mark {
    /// Visits every stored container that the marked commit had entered.
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

    /// Returns how much of a container is live, or `None` if nothing is.
    pub fn usage(&self, id: ContainerId) -> Option<ContainerUsage> {
        self.live().of(id).map(|live| ContainerUsage {
            class: live.class,
            live_bytes: live.live_bytes,
            plain_bytes: live.plain_bytes,
        })
    }

    /// Returns the length of a container's live chunks that are known to be in memory, bytes. Reads
    /// nothing: 0 if the container's directory is not in memory.
    pub fn cached_bytes(&self, pool: &Pool, cached: &dyn CachedChunks, id: ContainerId) -> u64 {
        let live = self.live().of(id).filter(|_| !cached.is_empty());
        let directory = live.and_then(|_| pool.chunks().directory_in_memory(id));
        let (Some(live), Some(directory)) = (live, directory) else {
            return 0;
        };
        let mut bytes = 0;
        directory.each(&mut |fingerprint, number, len| {
            if live.holds(number) && cached.holds(fingerprint) {
                bytes += u64::from(len);
            }
        });
        bytes
    }
}

impl Pool {
    /// Returns the stored size of a container, bytes; 0 if it cannot be read.
    pub fn container_bytes(&self, id: ContainerId) -> u64 {
        self.containers().stored_len(id).unwrap_or(0)
    }

    /// Returns the generation for which a container was written, or `None` if its header is
    /// damaged.
    pub fn container_generation(&self, id: ContainerId) -> Result<Option<Generation>> {
        match self.containers().shape(id) {
            Err(e) if e.is_corruption() => Ok(None),
            shape => Ok(Some(shape?.header.generation)),
        }
    }
}

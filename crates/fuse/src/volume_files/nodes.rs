//! Numbers of volumes as nodes.
//!
//! Invariant: a number means one volume for ever. Every volume that was ever looked up costs some
//! bytes, which nobody gives back: there are thousands, not millions.

use crate::wire::NodeId;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, PoisonError, RwLock};
use units::VolumeId;

/// Number of the first volume: the one after the directory's.
const FIRST: u64 = NodeId::ROOT.0 + 1;

/// A volume that was looked up.
pub(super) struct Known {
    /// Which.
    pub id: VolumeId,
    /// When it was last written through this mount, in ns since 1970; before all time if never.
    pub written: AtomicI64,
}

#[derive(Default)]
struct Tables {
    by_id: HashMap<VolumeId, NodeId>,
    by_number: Vec<Arc<Known>>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Nodes(RwLock<Tables>);

impl Nodes {
    /// What a number means.
    pub fn known(&self, node: NodeId) -> Result<Arc<Known>, Errno> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = node.0.checked_sub(FIRST);
        place
            .and_then(|place| tables.by_number.get(place as usize).cloned())
            .ok_or(Errno::NOENT)
    }

    /// The number of a volume, a new one if it has none yet.
    pub fn of(&self, id: VolumeId) -> NodeId {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = tables.by_id.get(&id) {
            return *node;
        }
        drop(tables);
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = NodeId(FIRST + tables.by_number.len() as u64);
        let node = *tables.by_id.entry(id).or_insert(next);
        if node == next {
            tables.by_number.push(Arc::new(Known {
                id,
                written: AtomicI64::new(i64::MIN),
            }));
        }
        node
    }
}

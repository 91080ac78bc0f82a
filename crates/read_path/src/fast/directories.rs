//! Directories of containers in the fast tier. `fast` gives them to the chunk map.
//!
//! Invariant: as with recipe nodes, only reads for clients bring them, and maintenance neither asks
//! for them nor brings any.

use chunk_store::chunk_map::DirectoryCopies;
use media::IoOrigin;
use ssd_tier::{CacheClass, Kind, Tier};
use std::sync::Arc;
use units::{Fingerprint, IoClass, Origin};

/// See the module's head.
pub(super) struct TierDirectories(Arc<Tier>);

impl TierDirectories {
    /// Returns `None` if directories have no share of the tier.
    pub fn of(tier: &Arc<Tier>) -> Option<Self> {
        let class = CacheClass::new(Kind::Directory, IoClass(0));
        let has_share = !tier.settings().bypasses(class);
        has_share.then(|| Self(Arc::clone(tier)))
    }
}

impl DirectoryCopies for TierDirectories {
    fn find(&self, name: &Fingerprint) -> Option<Vec<u8>> {
        if IoOrigin::current().origin.is_maintenance() {
            return None;
        }
        let copy = self.0.lookup(name, Kind::Directory)?;
        Some(copy.to_vec())
    }

    fn keep(&self, name: &Fingerprint, copy: &[u8]) {
        if IoOrigin::current().origin == Origin::Foreground {
            self.0.offer(name, Kind::Directory, IoClass(0), copy);
        }
    }

    fn reject(&self, name: &Fingerprint) {
        self.0.reject(name);
    }

    fn forget(&self, name: &Fingerprint) {
        self.0.forget(name);
    }
}

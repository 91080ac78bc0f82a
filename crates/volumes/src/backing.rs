//! Holds what all parts of the engine use: the pool, the journal, the page cache, and their
//! options.
//!
//! Every part of the engine refers to it.
//! Invariant: it has no lock of its own and knows no volume.

use super::VolumesOptions;
use super::decisions::{AccessOptions, Meters};
use super::tracing::Tracer;
use crate::budget::VolumesMemory;
use access_pattern::FetchInto;
use classes::Admission;
use journal::Journal;
use page_cache::PageCache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Admit, LaneOptions, Pool};
use units::IoClass;

/// The shared objects. See the module's head.
pub(crate) struct Backing {
    pub pool: Arc<Pool>,
    pub journal: Journal,
    pub cache: PageCache,
    pub lane: LaneOptions,
    pub access: AccessOptions,
    pub meters: Meters,
    pub tracer: Tracer,
    /// Next object number in the page cache.
    objects: AtomicU64,
}

impl Backing {
    pub fn new(
        pool: Arc<Pool>,
        journal: Journal,
        cache: PageCache,
        options: &VolumesOptions,
        memory: &VolumesMemory,
    ) -> Self {
        let access = AccessOptions {
            // Fetched pages that are not used yet must not evict pages that are.
            fetch_bytes_max: options
                .access
                .fetch_bytes_max
                .min(options.memory_bytes / 16),
            ..options.access
        };
        Self {
            pool,
            journal,
            cache,
            lane: options.lane,
            access,
            meters: Meters::default(),
            tracer: Tracer::new(memory.trace),
            objects: AtomicU64::new(1),
        }
    }

    /// Returns how the fast tier admits what a request of the class reads.
    pub fn admits(&self, class: IoClass, is_random: bool) -> Option<Admit> {
        let admits = match self.pool.reader().admission(class) {
            Admission::Never => false,
            Admission::Always if self.access.switches.fast_tier_by_class => true,
            _ => is_random,
        };
        admits.then(|| Admit::data(class))
    }

    /// Returns true if a plan may be fetched for requests of that class: its switch is on, and the
    /// tier wants what goes there.
    pub fn fetches(&self, into: FetchInto, class: IoClass) -> bool {
        let switches = &self.access.switches;
        match into {
            FetchInto::Memory => switches.prefetch,
            FetchInto::FastTier => {
                let admit = Admit::data(class);
                switches.fast_tier_prefetch && self.pool.reader().wants_for_fast_tier(admit)
            }
        }
    }

    /// Returns true if the device may begin with reads before they are executed: random reads go
    /// through the system's page cache, by the index alone.
    pub fn announces(&self) -> bool {
        self.access.switches.direct_regions
    }

    /// Returns an object number for the page cache that was never used before.
    pub fn new_object(&self) -> u64 {
        self.objects.fetch_add(1, Ordering::Relaxed)
    }
}

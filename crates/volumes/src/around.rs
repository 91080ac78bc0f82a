//! Fetches the surroundings of random requests into the fast tier (DDFS, ATC'18: 128 KB around the
//! request). The fetcher calls this, on its own threads.
//!
//! Invariant: the page cache learns nothing here, and no client waits. The cost is bounded: a
//! window reads at most its own length in regions, and gives up at the second place that is far
//! from the one before. What memory or the tier has is not read.

use super::backing::Backing;
use super::decisions::Meters;
use super::reading::RecipeReader;
use media::IoOrigin;
use page_cache::Use;
use std::ops::Range;
use store::{Admit, Approach, ChunkRef, Keep, Loaded, Reader, Result, Route};
use units::{Fingerprint, IoClass};

/// Maximum number of regions in other containers than the region before.
const JUMPS_MAX: u32 = 2;
/// Maximum number of regions that one window reads, besides the first.
const REGIONS_MAX: u64 = 8;

/// The tier keeps the chunks, and nothing else does.
struct Passing;

impl Keep for Passing {
    fn has(&self, _: &Fingerprint) -> bool {
        false
    }

    fn takes_one(&self) -> bool {
        false
    }

    fn keep(&self, _: &Fingerprint, _: &ChunkRef) -> bool {
        true
    }
}

/// State of one window. See the module's head.
struct Window<'a> {
    backing: &'a Backing,
    reader: &'a Reader,
    approach: Approach,
    admit: Admit,
    last: Option<ChunkRef>,
    regions_left: u64,
    jumps_left: u32,
}

/// Offers the chunks of `within` to the fast tier, in the class of the request.
pub(super) fn fetch<B: RecipeReader>(
    backing: &Backing,
    below: &B,
    within: Range<u64>,
    class: IoClass,
) -> Result<()> {
    let admit = Admit::data(class);
    if !backing.pool.reader().wants_for_fast_tier(admit) {
        return Ok(());
    }
    // Like the random request that it follows.
    let _asking = IoOrigin {
        is_sequential: false,
        ..IoOrigin::current()
    }
    .begin();
    let region_bytes = backing.lane.region_bytes.max(1) as u64;
    let regions = (within.end - within.start).div_ceil(region_bytes);
    let switches = backing.access.switches;
    let mut window = Window {
        backing,
        reader: backing.pool.reader(),
        approach: Approach {
            route: match switches.direct_regions {
                true => Route::Region,
                false => Route::Directory,
            },
            shares: switches.shared_reads,
            admit: Some(admit),
            ahead_bytes: 0,
            is_random: true,
            waiting: None,
        },
        admit,
        last: None,
        regions_left: 1 + regions.min(REGIONS_MAX),
        jumps_left: JUMPS_MAX,
    };
    let (mut at, mut leaves) = (within.start, None);
    let end = within.end.min(below.len());
    while at < end && window.may_go_on() {
        let leaf = below.leaf(at, &mut leaves, window.approach)?;
        if !leaf.fingerprint.is_hole() {
            window.chunk(&leaf.fingerprint)?;
        }
        at = leaf.offset + leaf.len.max(1);
    }
    if let Some(last) = window.last.take() {
        window.reader.reuse(last);
    }
    Ok(())
}

impl Window<'_> {
    fn may_go_on(&self) -> bool {
        self.regions_left > 0 && self.jumps_left > 0
    }

    fn chunk(&mut self, fingerprint: &Fingerprint) -> Result<()> {
        if self.reader.is_in_fast_tier(fingerprint) {
            return Ok(());
        }
        let cache = &self.backing.cache;
        if cache.is_content_resident(fingerprint)
            && let Some(frame) = cache.by_content(fingerprint, None, Use::Scan)
        {
            self.offer(fingerprint, &frame);
            return Ok(());
        }
        let beside = self.last.as_ref().and_then(|last| last.beside(fingerprint));
        if let Some(chunk) = beside {
            self.offer(fingerprint, &chunk);
            return Ok(());
        }
        let loaded = self.reader.load(fingerprint, self.approach, &Passing)?;
        let Loaded::Chunk(chunk) = loaded else {
            return Ok(());
        };
        // A load from a container has offered it already. A load from memory has not.
        self.offer(fingerprint, &chunk);
        if let Some(container) = chunk.container() {
            Meters::add(&self.backing.meters.around_regions, 1);
            self.regions_left -= 1;
            let before = self.last.as_ref().and_then(ChunkRef::container);
            let is_jump = before.is_some_and(|before| before != container);
            self.jumps_left -= u32::from(is_jump);
        }
        if let Some(old) = self.last.replace(chunk) {
            self.reader.reuse(old);
        }
        Ok(())
    }

    fn offer(&self, fingerprint: &Fingerprint, bytes: &[u8]) {
        self.reader
            .give_to_fast_tier(fingerprint, self.admit, bytes);
        Meters::add(&self.backing.meters.around_chunks, 1);
    }
}

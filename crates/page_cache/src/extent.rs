//! Allocates memory in large pieces and hands out ranges of it for frames. The arena calls this.
//!
//! All unsafe code of this crate is here. Its tests pass
//! `cargo +nightly miri test -p page_cache --lib extent`.
//!
//! Invariant: a run owns its granules exclusively, from the moment it found their bits clear and
//! set them until it clears them again. A run may therefore be read through `&` and written through
//! `&mut` like a box. A caller that chooses wrong granules gets nothing.

use rustix::mm::{Advice, madvise};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Alignment of runs.
pub(crate) const GRANULE_BYTES: usize = 2048;
/// Size of a slab: 64 granules. No run crosses its border.
pub(crate) const SLAB_BYTES: usize = 64 * GRANULE_BYTES;

/// Owner of an extent.
pub(crate) trait Home: Send + Sync {
    /// A run of `granules` is dropped. `clear` marks them free and must be called.
    fn freed(&self, position: (u32, u32), granules: u32, clear: &dyn Fn());
}

/// Owner of extents that belong to no arena.
pub(crate) enum NoArena {}

impl Home for NoArena {
    fn freed(&self, _: (u32, u32), _: u32, _: &dyn Fn()) {
        match *self {}
    }
}

/// A piece of memory.
pub(crate) struct Extent {
    start: NonNull<u8>,
    layout: Layout,
    /// One word a slab, one bit a granule. A bit is set while a run owns the granule.
    taken: Box<[AtomicU64]>,
    /// Number of the first slab.
    slab_first: u32,
    home: Weak<dyn Home>,
}

// SAFETY: the memory behind `start` is reached only through runs, each of which owns its range.
unsafe impl Send for Extent {}
// SAFETY: as above; everything else in an extent is atomic or never changes.
unsafe impl Sync for Extent {}

impl Extent {
    /// Allocates `slabs` slabs. `home` is notified of freed runs.
    pub fn new(slabs: usize, home: Weak<dyn Home>) -> Self {
        let taken = (0..slabs).map(|_| AtomicU64::new(0)).collect();
        let extent = Self::allocate(slabs * SLAB_BYTES, taken, u32::MAX, home);
        extent.populate();
        extent
    }

    /// Gives the first slab its number.
    pub fn numbered(self, slab_first: u32) -> Arc<Self> {
        let mut extent = self;
        extent.slab_first = slab_first;
        Arc::new(extent)
    }

    /// Makes the system map all pages at once. One call replaces a fault for each page, which costs
    /// a guest more than the copy of a page. The budget is charged for all of it anyway.
    fn populate(&self) {
        if cfg!(miri) {
            return;
        }
        let (start, len) = (self.start.as_ptr(), self.layout.size());
        // SAFETY: the range is this allocation, whole pages of it; the advice changes no byte. A
        // system that does not know it maps pages when they are touched.
        let _ = unsafe { madvise(start.cast(), len, Advice::LinuxPopulateWrite) };
    }

    fn allocate(
        bytes: usize,
        taken: Box<[AtomicU64]>,
        slab_first: u32,
        home: Weak<dyn Home>,
    ) -> Self {
        // Align to a page, so that a page of 4 KiB touches as few as possible.
        let layout = Layout::array::<u8>(bytes.max(1)).and_then(|l| l.align_to(4096));
        let Ok(layout) = layout else {
            handle_alloc_error(Layout::new::<u8>());
        };
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) });
        let Some(start) = start else {
            handle_alloc_error(layout);
        };
        Self {
            start,
            layout,
            taken,
            slab_first,
            home,
        }
    }

    /// Returns the granules of a slab without an owner, one bit each.
    pub fn free(&self, slab: usize) -> u64 {
        self.taken
            .get(slab)
            .map_or(0, |word| !word.load(Ordering::Acquire))
    }

    /// Copies `bytes` into a slab, starting at granule `first`; `None` when these granules are not
    /// all free.
    pub fn claim(self: &Arc<Self>, slab: usize, first: u32, bytes: &[u8]) -> Option<Run> {
        let mask = mask(first, granules(bytes.len()))?;
        let word = self.taken.get(slab)?;
        let before = word.fetch_or(mask, Ordering::Acquire);
        if before & mask != 0 {
            // The granules that were clear are ours; clear them again.
            word.fetch_and(before | !mask, Ordering::Release);
            return None;
        }
        let at = slab * SLAB_BYTES + first as usize * GRANULE_BYTES;
        let mut run = Run {
            extent: Arc::clone(self),
            at: u32::try_from(at).ok()?,
            len: 0,
        };
        run.write(bytes);
        Some(run)
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; no run is left, because runs hold the extent.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Returns the number of granules that `len` bytes take.
pub(crate) fn granules(len: usize) -> u32 {
    len.div_ceil(GRANULE_BYTES).max(1) as u32
}

fn mask(first: u32, granules: u32) -> Option<u64> {
    let ones = match granules {
        1..=64 => u64::MAX >> (64 - granules),
        _ => return None,
    };
    (first + granules <= 64).then(|| ones << first)
}

/// Bytes in memory. Dropping it frees its granules.
pub(crate) struct Run {
    extent: Arc<Extent>,
    /// Offset in the extent, bytes.
    at: u32,
    len: u32,
}

impl Run {
    /// Copies `bytes` to memory outside of all slabs, of any length.
    pub fn alone(bytes: &[u8]) -> Self {
        let extent = Extent::allocate(
            bytes.len(),
            Box::default(),
            u32::MAX,
            Weak::<NoArena>::new(),
        );
        let mut run = Self {
            extent: Arc::new(extent),
            at: 0,
            len: 0,
        };
        run.write(bytes);
        run
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `write` has initialized `len` bytes from `at` on, within the allocation, and only
        // this run owns them (see `claim`; a run outside of slabs has the whole extent).
        unsafe {
            std::slice::from_raw_parts(
                self.extent.start.as_ptr().add(self.at as usize),
                self.len as usize,
            )
        }
    }

    /// Returns the memory that the bytes take, bytes.
    pub fn taken_bytes(&self) -> usize {
        granules(self.len as usize) as usize * GRANULE_BYTES
    }

    /// Overwrites the bytes with others of the same length.
    pub fn fill(&mut self, bytes: &[u8]) {
        assert_eq!(self.len as usize, bytes.len(), "a run keeps its length");
        self.write(bytes);
    }

    /// Writes `bytes` at the start of this run's range, which must be long enough.
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(self.at as usize + bytes.len() <= self.extent.layout.size());
        // SAFETY: the range lies within the allocation. Only this run owns it, and the run is
        // borrowed mutably; so no other code reads it now and `bytes` is not part of it.
        unsafe {
            let to = self.extent.start.as_ptr().add(self.at as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.len = bytes.len() as u32;
    }

    /// Returns slab and first granule; `None` outside of all slabs.
    pub fn position(&self) -> Option<(u32, u32)> {
        let (slab, first) = self.within();
        self.extent.taken.get(slab)?;
        Some((self.extent.slab_first + slab as u32, first))
    }

    fn within(&self) -> (usize, u32) {
        let granule = self.at as usize / GRANULE_BYTES;
        (granule / 64, granule as u32 % 64)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let (slab, first) = self.within();
        let mask = mask(first, granules(self.len as usize));
        let (Some(word), Some(mask)) = (self.extent.taken.get(slab), mask) else {
            return;
        };
        let clear = || {
            word.fetch_and(!mask, Ordering::Release);
        };
        match self.extent.home.upgrade() {
            Some(home) => {
                let slab = self.extent.slab_first + slab as u32;
                home.freed((slab, first), mask.count_ones(), &clear);
            }
            None => clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(slabs: usize) -> Arc<Extent> {
        Extent::new(slabs, Weak::<NoArena>::new()).numbered(0)
    }

    #[test]
    fn no_caller_gets_what_is_taken() {
        let extent = extent(2);
        let one = extent.claim(1, 3, &[1; 5000]).expect("all is free");
        assert_eq!(extent.free(1), !0b111000);
        for first in 1..=5 {
            assert!(extent.claim(1, first, &[2; 6000]).is_none(), "{first}");
        }
        assert_eq!(extent.free(1), !0b111000, "what was tried left nothing");
        assert!(extent.claim(1, 62, &[2; 6000]).is_none(), "beyond the slab");
        assert!(extent.claim(2, 0, &[2]).is_none(), "beyond the extent");
        let two = extent.claim(1, 6, &[2; 6000]).expect("free");
        assert!(one.bytes().iter().all(|b| *b == 1) && one.bytes().len() == 5000);
        assert!(two.bytes().iter().all(|b| *b == 2) && two.bytes().len() == 6000);
        assert_eq!(two.position(), Some((1, 6)));
        drop(one);
        assert_eq!(extent.free(1), !0b111000000);
    }

    #[test]
    fn a_run_outlives_its_maker() {
        let mut run = {
            let extent = extent(1);
            extent.claim(0, 0, &[7; SLAB_BYTES]).expect("all is free")
        };
        run.fill(&[8; SLAB_BYTES]);
        assert!(run.bytes().iter().all(|b| *b == 8));
        let alone = Run::alone(&[3; 3 * SLAB_BYTES + 1]);
        assert_eq!(alone.bytes().len(), 3 * SLAB_BYTES + 1);
        assert_eq!(alone.position(), None);
        assert_eq!(Run::alone(&[]).bytes(), &[] as &[u8]);
    }

    /// Threads compete for the granules of one slab. Each sees only its own bytes in the granules
    /// it got.
    #[test]
    fn threads_never_share_a_granule() {
        let extent = extent(1);
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                let extent = &extent;
                scope.spawn(move || {
                    for n in 0..if cfg!(miri) { 15 } else { 2000u32 } {
                        let len = 1 + (n as usize * 977) % 9000;
                        let first = (n * 31 + u32::from(thread)) % 60;
                        let Some(run) = extent.claim(0, first, &vec![thread; len]) else {
                            continue;
                        };
                        std::thread::yield_now();
                        assert!(run.bytes().iter().all(|b| *b == thread));
                    }
                });
            }
        });
        assert_eq!(extent.free(0), u64::MAX);
    }
}

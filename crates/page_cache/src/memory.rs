//! Manages the budget, and frames within it. Both sides call this, and `cache`, which evicts.
//!
//! Invariant: all memory of this crate is charged here, including the allocator's overhead. Chunks
//! lie in extents that are kept until tables need their space. Memory that a guest has touched
//! before is much cheaper than new memory, and no mix of chunk sizes can fragment the allocator's
//! heap.

use crate::CHUNK_BYTES_MAX;
use crate::arena::{Arena, Owner, Window};
use crate::extent::{Extent, GRANULE_BYTES, Home, Run, SLAB_BYTES, granules};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A chunk or page in memory. Clones are cheap. The bytes live as long as any clone, even after
/// their eviction; until then their memory cannot be reused.
#[derive(Clone)]
pub struct Frame {
    run: Arc<Run>,
    is_first_of_class: bool,
}

impl Frame {
    pub(crate) fn new(run: Arc<Run>, is_first_of_class: bool) -> Self {
        Self {
            run,
            is_first_of_class,
        }
    }

    pub(crate) fn into_run(self) -> Arc<Run> {
        self.run
    }

    /// Returns true if the lookup that returned this said for the first time what the bytes are
    /// for: they were fetched ahead, or by a less important class.
    pub fn is_first_of_class(&self) -> bool {
        self.is_first_of_class
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.run.bytes()
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Returns the memory that the allocator takes for `len` bytes: eight in front, in steps of
/// sixteen.
const fn allocation_bytes(len: usize) -> u64 {
    ((len + 8).next_multiple_of(16)) as u64
}

/// Memory of an `Arc<Run>`: two counts and the run.
const RUN_BYTES: u64 = allocation_bytes(16 + size_of::<Run>());
/// Part of the budget that may be free in pieces too small for a request: a 64th.
const SLACK: u64 = 64;
/// Part of the budget that makes one extent, at most 2 MiB.
const EXTENTS: u64 = 128;
const EXTENT_SLABS_MAX: u64 = 16;

/// Reason for a lack of space.
pub(crate) enum Lacking {
    /// Something must be evicted.
    Room,
    /// There is enough free memory, but in pieces that are too small.
    Window,
}

/// Charges and extents of one cache.
pub(crate) struct Memory {
    bytes_max: u64,
    used: AtomicU64,
    /// Current and maximum number of runs. The allocator keeps the memory of dropped ones.
    runs: AtomicU64,
    runs_most: AtomicU64,
    arena: Mutex<Arena>,
    extent_slabs: usize,
    itself: Weak<Memory>,
}

impl Memory {
    pub fn new(bytes_max: u64) -> Arc<Self> {
        let slabs = (bytes_max / EXTENTS / SLAB_BYTES as u64).clamp(1, EXTENT_SLABS_MAX);
        let extent_slabs = 1 << slabs.ilog2();
        let slabs_max = bytes_max as usize / SLAB_BYTES;
        Arc::new_cyclic(|itself| Self {
            bytes_max,
            used: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            runs_most: AtomicU64::new(0),
            arena: Mutex::new(Arena::new(extent_slabs, slabs_max)),
            extent_slabs,
            itself: Weak::clone(itself),
        })
    }

    fn arena(&self) -> MutexGuard<'_, Arena> {
        self.arena.lock()
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.used() > self.bytes_max
    }

    /// Returns true while an eighth of the budget was never needed.
    pub fn has_room(&self) -> bool {
        self.used() <= self.bytes_max - self.bytes_max / 8
    }

    /// Adjusts the charge of tables from `before` to `now` bytes.
    pub fn adjust(&self, before: usize, now: usize) {
        if now > before {
            self.charge((now - before) as u64);
        } else {
            self.credit((before - now) as u64);
        }
    }

    fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn credit(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the cost of an extent: the extent, the page that aligns it, its bits.
    fn extent_cost(&self) -> u64 {
        (self.extent_slabs * (SLAB_BYTES + size_of::<u64>())) as u64 + 4096 + 128
    }

    /// Copies `bytes` into free memory. Adds an extent when the budget allows one.
    pub fn obtain(&self, bytes: &[u8]) -> Result<Arc<Run>, Lacking> {
        debug_assert!(bytes.len() <= CHUNK_BYTES_MAX);
        let mut arena = self.arena();
        if let Some(run) = arena.allocate(bytes) {
            drop(arena);
            return Ok(self.keep(run));
        }
        if self.used() + self.extent_cost() <= self.bytes_max {
            self.charge(self.extent_cost());
            drop(arena);
            // The system maps fresh memory slowly: other threads need not wait for it.
            let home: Weak<dyn Home> = self.itself.clone();
            let extent = Extent::new(self.extent_slabs, home);
            arena = self.arena();
            let before = arena.memory_bytes();
            arena.add(extent);
            self.adjust(before, arena.memory_bytes());
            if let Some(run) = arena.allocate(bytes) {
                drop(arena);
                return Ok(self.keep(run));
            }
        }
        let free_bytes = arena.free_granules() * GRANULE_BYTES as u64;
        let is_scattered = free_bytes > (self.bytes_max / SLACK).max(2 * bytes.len() as u64);
        Err(if is_scattered {
            Lacking::Window
        } else {
            Lacking::Room
        })
    }

    /// Copies `bytes` into free memory if there already is a place.
    pub fn relocate(&self, bytes: &[u8]) -> Option<Arc<Run>> {
        let run = self.arena().allocate(bytes)?;
        Some(self.keep(run))
    }

    fn keep(&self, run: Run) -> Arc<Run> {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let most = self.runs_most.fetch_max(runs, Ordering::Relaxed);
        self.charge(runs.saturating_sub(most) * RUN_BYTES);
        Arc::new(run)
    }

    /// Sets the owner of a run, which can then be asked to leave.
    pub fn set_owner(&self, run: &Run, owner: Owner) {
        if let Some(position) = run.position() {
            let len = granules(run.bytes().len());
            self.arena().set_owner(position, len, owner);
        }
    }

    /// Closes a window for `len` bytes. Its owners have to leave.
    pub fn close_window(&self, len: usize) -> Option<Window> {
        self.arena().close_window(len)
    }

    /// Opens the window. Puts `bytes` there if all owners have left.
    pub fn open_window(&self, window: &Window, bytes: &[u8]) -> Option<Arc<Run>> {
        let run = self.arena().open_window(window, bytes)?;
        Some(self.keep(run))
    }

    /// Returns true if the contents of one extent would fit in the others.
    pub fn can_spare_an_extent(&self) -> bool {
        let granules = self.extent_slabs * SLAB_BYTES / GRANULE_BYTES;
        self.arena().free_granules() >= granules as u64
    }

    /// Closes the extent that is cheapest to empty, or the `nth` after it. Its owners have to
    /// leave.
    pub fn close_extent(&self, nth: usize) -> Option<(usize, Vec<Owner>)> {
        self.arena().close_extent(nth)
    }

    /// Frees that extent if all owners have left; opens it otherwise.
    pub fn remove_extent(&self, number: usize) -> bool {
        let removed = self.arena().remove_extent(number);
        let is_removed = removed.is_some();
        if is_removed {
            self.credit(self.extent_cost());
        }
        is_removed
    }
}

impl Home for Memory {
    fn freed(&self, position: (u32, u32), granules: u32, clear: &dyn Fn()) {
        self.runs.fetch_sub(1, Ordering::Relaxed);
        let mut arena = self.arena();
        clear();
        arena.freed(position, granules);
    }
}

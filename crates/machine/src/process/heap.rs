//! Settings of the C library's allocator. `main` calls [`bound`] once, before there are threads.
//!
//! Invariant: freed memory is reused or returned to the system, whichever thread frees it. The
//! process then uses little more memory than the budget counts. By default each of many threads
//! allocates in its own heap (8 for each processor). A buffer that one thread allocates and another
//! frees leaves a hole that only the first can fill: 440 MiB in use took 600 MiB. C libraries other
//! than glibc have no such settings and do not need them.

/// Maximum number of heaps. Threads that meet in one wait for each other, but caches of the threads
/// serve small blocks, and buffer pools keep most large buffers.
const ARENAS_MAX: i32 = 2;
/// Blocks of this size or more get their own mapping, bytes. A dynamic limit would grow with freed
/// blocks, up to 32 MiB, and containers would lie in heaps. Client requests of 1 MiB and a little
/// stay in heaps: a mapping for each would fault on each of its pages, which cuts sequential reads
/// from memory to 0.6 of their speed.
const MAPPED_BYTES_MIN: i32 = 4 << 20;
/// Free memory that a heap keeps at its end, bytes. With less, buffers that come and go would be
/// mapped again page by page.
const KEPT_BYTES: i32 = 8 << 20;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    pub const M_TRIM_THRESHOLD: i32 = -1;
    pub const M_MMAP_THRESHOLD: i32 = -3;
    pub const M_ARENA_MAX: i32 = -8;

    // SAFETY: declared as in malloc.h of glibc. They change settings of the allocator, and what it
    // does with free memory.
    unsafe extern "C" {
        pub safe fn mallopt(parameter: i32, value: i32) -> i32;
        pub safe fn malloc_trim(kept_bytes: usize) -> i32;
    }
}

/// Sets the limits. See the module's head.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (glibc::M_ARENA_MAX, ARENAS_MAX),
        (glibc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        (glibc::M_TRIM_THRESHOLD, KEPT_BYTES),
    ] {
        // An allocator that does not know a parameter returns 0 and keeps its behaviour.
        let _ = glibc::mallopt(parameter, value);
    }
}

/// Returns free memory to the system.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    let _ = glibc::malloc_trim(KEPT_BYTES as usize);
}

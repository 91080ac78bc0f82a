//! How the C library's allocator deals with this process's memory.
//!
//! Invariant: what is freed is used again or given back, whichever thread freed it, so that the memory
//! the process takes is close to what the budget counts. By default each of many threads allocates in
//! a heap of its own (8 for each processor), and a buffer that one thread makes and another frees leaves
//! a hole that only the first can fill: 440 MiB in use took 600 MiB. Called once, by `main`, before there
//! are threads. Other C libraries than glibc have no such settings and need none.

/// Heaps; threads that meet in one wait for each other. Small blocks come from caches of the threads,
/// and most large buffers are kept by who uses them.
const ARENAS_MAX: i32 = 2;
/// Longer blocks have mappings of their own, bytes. A fixed limit: by itself it grows with what is freed,
/// up to 32 MiB, and containers would lie in heaps. Requests of clients, 1 MiB and a little, stay in heaps: a
/// mapping for each is a fault for each of its pages (sequential reads from memory: 0.6 of what they are).
const MAPPED_BYTES_MIN: i32 = 4 << 20;
/// Free memory at the end of a heap that it keeps, bytes: with less, what comes and goes is mapped anew
/// page by page.
const KEPT_BYTES: i32 = 8 << 20;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    pub const M_TRIM_THRESHOLD: i32 = -1;
    pub const M_MMAP_THRESHOLD: i32 = -3;
    pub const M_ARENA_MAX: i32 = -8;

    // SAFETY: as malloc.h of glibc declares it; it reads and writes settings of the allocator only.
    unsafe extern "C" {
        pub safe fn mallopt(parameter: i32, value: i32) -> i32;
    }
}

/// See the module's head.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (glibc::M_ARENA_MAX, ARENAS_MAX),
        (glibc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        (glibc::M_TRIM_THRESHOLD, KEPT_BYTES),
    ] {
        // An allocator that knows no such parameter says so with 0 and goes on as it did.
        let _ = glibc::mallopt(parameter, value);
    }
}

//! Settings of this process: its allocator, its open files, and who may read its memory. `main`
//! makes them, once.
//!
//! Invariant: see the modules.

#[allow(
    unsafe_code,
    reason = "two declarations of C functions that are safe to call"
)]
mod heap;
mod limits;
mod secrecy;

pub use heap::{bound as bound_heap, trim as trim_heap};
pub use limits::{open_files, raise_open_files};
pub use secrecy::keep_from_core_dumps;

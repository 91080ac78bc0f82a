//! The fuzz targets on a stable compiler: includes their code and their list from `fuzz/`. The
//! harness in `tests/replay.rs` uses them; it replays seeds and mutates them (`./test fuzz`).
//!
//! Invariant: [`quintet_fuzz::TARGETS`] names every file of `fuzz/fuzz_targets`; a test compares
//! them.
#![forbid(unsafe_code)]

mod mutate;

#[allow(missing_docs, dead_code)]
#[path = "../../src/lib.rs"]
pub mod quintet_fuzz;

pub use mutate::{Dice, INPUT_BYTES_MAX, mutate};

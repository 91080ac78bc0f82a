//! The fuzz targets on a stable compiler: their code and their list are those of `fuzz/`, included here.
//!
//! Invariant: [`quintet_fuzz::TARGETS`] names every file of `fuzz/fuzz_targets`; a test compares them. For
//! the harness in `tests/replay.rs`, which replays seeds and mutates them: `./test fuzz`.
#![forbid(unsafe_code)]

mod mutate;

#[allow(missing_docs, dead_code)]
#[path = "../../../fuzz/src/lib.rs"]
pub mod quintet_fuzz;

pub use mutate::{Dice, INPUT_BYTES_MAX, mutate};

//! Files that unit tests share with `tests/`.
//!
//! Invariant: compiled for tests only.

#[path = "../tests/small/mod.rs"]
pub mod small;
#[path = "../tests/whole_run/mod.rs"]
pub mod whole_run;

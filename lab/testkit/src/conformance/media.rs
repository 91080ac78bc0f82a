//! Tests the contract of every [`Disk`] and every [`Blobs`].
//!
//! Tests of the crates that implement them call these suites. A suite panics at the first wrong
//! answer.
//! Invariant: a check looks only at answers of the interface. The simulator (`sim`) explores which
//! data survives a power loss.

mod blobs;
mod disk;

use media::{Blobs, Disk, MediaError, MediaErrorKind};
use std::sync::Arc;

/// Number of threads that race for one name.
const RACERS: usize = 8;
/// Number of names that they race for, one after the other.
const RACES: usize = 25;

/// Runs every check. `make` returns a new and empty disk.
pub fn disk_suite(make: &dyn Fn() -> Arc<dyn Disk>) {
    disk::bytes(&*make());
    disk::lengths(&*make());
    disk::opening(&*make());
    disk::handles_follow_the_file(&*make());
    disk::renames(&*make());
    disk::directories(&*make());
    disk::locks(&*make());
    disk::paths_stay_below_the_top(&*make());
    disk::one_wins_a_new_name(&*make());
}

/// Runs every check. `make` returns a new and empty name space.
pub fn blobs_suite(make: &dyn Fn() -> Box<dyn Blobs>) {
    blobs::bytes(&*make());
    blobs::if_absent(&*make());
    blobs::replacing(&*make());
    blobs::names(&*make());
    blobs::deleting(&*make());
    blobs::the_last_of_a_name_wins(&*make());
    blobs::sweeping(&*make());
    blobs::one_wins_a_name(&*make());
    blobs::many_at_once(&*make());
}

/// Asserts that `result` is an error of this kind.
#[track_caller]
fn fails<T>(result: Result<T, MediaError>, kind: MediaErrorKind, what: &str) {
    match result {
        Ok(_) => panic!("{what}: succeeded instead of {kind:?}"),
        Err(e) => assert_eq!(e.kind, kind, "{what}: {e}"),
    }
}

/// Returns bytes that differ by place and by `number`.
fn pattern(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 31 + at / 251 + number * 101) as u8)
        .collect()
}

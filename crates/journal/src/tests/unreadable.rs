//! Unreadable sectors: the other records come back, and every loss is reported.

use super::{Owned, Reopened, START, open, open_over};
use format::config::Seal;
use sim::{BadSectors, SimDisk};
use std::ops::Range;
use std::sync::Arc;

const SLOT: &str = "journal/00";

/// Returns a disk with six records of two blocks each, all flushed.
fn written() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    let journal = open(&disk, Seal::Aes256Gcm, START).journal;
    for n in 0..6 {
        journal.append(&Owned::write(n, 4096).record()).unwrap();
        journal.flush().unwrap();
    }
    disk
}

fn reopen(bad: Range<u64>) -> Reopened {
    let disk = written();
    let media = Arc::new(BadSectors::new(disk, SLOT, bad));
    open_over(media, 99, Seal::Aes256Gcm, START).unwrap()
}

fn numbers(again: &Reopened) -> Vec<u64> {
    let number = |owned: &Owned| match owned {
        Owned::Write(offset, _) => offset >> 16,
        other => panic!("{other:?}"),
    };
    again
        .replayed
        .iter()
        .map(|(_, owned)| number(owned))
        .collect()
}

/// Returns the offset of the n-th record's batch.
fn batch(n: u64) -> u64 {
    4096 + n * 8192
}

#[test]
fn a_bad_sector_costs_what_lies_in_it() {
    for (bad, kept) in [
        (batch(2)..batch(2) + 512, vec![0, 1, 3, 4, 5]),
        (batch(2) + 4096..batch(3), vec![0, 1, 3, 4, 5]),
        (batch(1) + 4096..batch(3) + 512, vec![0, 4, 5]),
    ] {
        let again = reopen(bad.clone());
        assert_eq!(numbers(&again), kept, "{bad:?}");
        let reported = again.damage.iter().all(|d| d.found == "cannot be read");
        assert!(reported && !again.damage.is_empty(), "{:?}", again.damage);
    }
}

#[test]
fn the_end_may_not_hide_in_a_bad_sector() {
    let again = reopen(batch(5)..batch(5) + 512);
    assert_eq!(numbers(&again), [0, 1, 2, 3, 4]);
    assert_eq!(again.damage.len(), 1, "{:?}", again.damage);
    // The header is readable, the end of the data is not.
    let again = reopen(batch(5) + 4096..batch(6));
    assert_eq!(numbers(&again), [0, 1, 2, 3, 4]);
    assert_eq!(again.damage.len(), 1, "{:?}", again.damage);
    assert!(again.damage[0].end.0 > again.damage[0].at.0 + 4096);
}

#[test]
fn an_unreadable_header_is_reported() {
    let again = reopen(0..512);
    assert_eq!(numbers(&again), []);
    assert_eq!(again.damage[0].found, "the header cannot be read");
}

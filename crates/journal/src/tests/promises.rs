//! Records come back as written: order, reads, a ring that wraps, limits, sizes, positions.

use super::{Owned, SEALS, SMALL, START, open, try_open};
use crate::{Journal, JournalOptions};
use chunk_store::StoreErrorKind;
use format::config::Seal;
use sim::SimDisk;
use units::{Fingerprint, JournalPosition};

#[test]
fn gives_back_what_was_flushed_in_order() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let mut written = Vec::new();
        for n in 0..20 {
            let owned = Owned::some(n);
            let at = journal.append(&owned.record()).unwrap();
            assert!(written.last().is_none_or(|(last, _)| *last < at));
            written.push((at, owned));
            journal.write_out().unwrap();
            if n % 3 == 0 {
                journal.flush().unwrap();
            }
        }
        journal.flush().unwrap();
        let head = journal.head();
        drop(journal);
        let again = open(&disk, seal, START);
        assert_eq!(again.replayed, written);
        assert!(again.journal.head() > head);
        let (from, _) = written[7];
        assert_eq!(open(&disk, seal, from).replayed, written[7..]);
        assert_eq!(open(&disk, seal, head).replayed, []);
    }
}

#[test]
fn reads_from_memory_and_from_the_device() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let lens = [1, 4096, 65536, 512, 9999];
        let writes: Vec<_> = (0..)
            .zip(lens)
            .map(|(n, len)| Owned::write(n, len))
            .collect();
        let at: Vec<_> = writes
            .iter()
            .map(|owned| journal.append(&owned.record()).unwrap())
            .collect();
        let check = |journal: &Journal| {
            for (at, owned) in at.iter().zip(&writes) {
                let Owned::Write(_, data) = owned else {
                    continue;
                };
                for (skip, len) in [(0, data.len()), (data.len() / 3, data.len() / 2)] {
                    let mut into = vec![0; len];
                    journal.read(*at, skip, &mut into).unwrap();
                    assert_eq!(into, data[skip..skip + len]);
                }
                let mut more = vec![0; data.len() + 1];
                let refused = journal.read(*at, 0, &mut more).unwrap_err();
                assert_eq!(refused.kind, StoreErrorKind::Invalid);
            }
        };
        check(&journal);
        assert_eq!(disk.counts().reads, 0);
        journal.flush().unwrap();
        check(&journal);
        let again = open(&disk, seal, START).journal;
        check(&again);
        again.append(&Owned::write(9, 9).record()).unwrap();
        again.flush().unwrap();
        check(&again);
        // Neither zeroes nor positions between records can be read.
        let zero = again.append(&Owned::Zero(0, 5).record()).unwrap();
        let between = JournalPosition(at[1].0 + 16);
        for at in [zero, between, again.head(), JournalPosition(1 << 50)] {
            assert!(again.read(at, 0, &mut [0]).is_err());
        }
    }
}

#[test]
fn a_full_ring_waits_for_a_trim() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let record = Owned::write(1, 60_000);
        let mut at = Vec::new();
        let full = loop {
            match journal.append(&record.record()) {
                Ok(position) => at.push(position),
                Err(e) => break e,
            }
            journal.write_out().unwrap();
        };
        assert_eq!(full.kind, StoreErrorKind::JournalFull);
        assert_eq!(at.len(), 8, "two in each of four slots");
        journal.flush().unwrap();
        let usage = journal.usage();
        assert!(usage.used_bytes > usage.bytes_max * 9 / 10, "{usage:?}");
        // A trim within the first slot frees nothing; a trim past it frees it.
        journal.trim(at[1]);
        assert!(journal.append(&record.record()).is_err());
        journal.trim(at[2]);
        let trimmed_error = journal.read(at[1], 0, &mut [0]).unwrap_err();
        assert_eq!(trimmed_error.kind, StoreErrorKind::NotFound);
        journal.read(at[2], 0, &mut [0]).unwrap();
        for _ in 0..2 {
            at.push(journal.append(&record.record()).unwrap());
        }
        assert!(journal.append(&record.record()).is_err());
        journal.flush().unwrap();
        // The ring wraps many times. A new process finds what was not trimmed.
        let from = at[at.len() - 3];
        journal.trim(from);
        let mut from = from;
        for round in 0..9 {
            let again = open(&disk, seal, from);
            assert_eq!(again.replayed.first().map(|(at, _)| *at), Some(from));
            for _ in 0..3 {
                at.push(again.journal.append(&record.record()).unwrap());
            }
            again.journal.flush().unwrap();
            from = at[at.len() - 1 - round % 3];
            again.journal.trim(from);
        }
        assert_eq!(slots(&disk), 4, "slots are used again");
    }
}

#[test]
fn every_opening_can_be_the_last_before_a_trim() {
    let disk = SimDisk::new();
    let mut kept = Vec::new();
    for n in 0.. {
        let opened = open(&disk, Seal::Aes256Gcm, START);
        assert_eq!(opened.owned(), kept);
        let owned = Owned::write(n, 100);
        match opened.journal.append(&owned.record()) {
            Ok(_) => kept.push(owned),
            Err(e) => {
                assert_eq!(e.kind, StoreErrorKind::JournalFull);
                opened.journal.trim(opened.journal.head());
                opened.journal.append(&owned.record()).unwrap();
                assert_eq!(n, 4);
                break;
            }
        }
        opened.journal.flush().unwrap();
    }
}

#[test]
fn what_breaks_the_limits_is_refused() {
    let disk = SimDisk::new();
    let journal = open(&disk, Seal::None, START).journal;
    for owned in [
        Owned::Write(0, Vec::new()),
        Owned::Write(0, vec![0; 65537]),
        Owned::Write(u64::MAX, vec![0; 2]),
        Owned::Zero(0, 0),
        Owned::Zero(2, u64::MAX - 1),
        Owned::Chunks(0, Vec::new()),
        Owned::Chunks(0, vec![Fingerprint::HOLE; 2049]),
    ] {
        let refused = journal.append(&owned.record()).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Invalid);
    }
    assert_eq!(journal.usage().records, 0);
    for (bytes_max, slot_bytes) in [
        (1 << 20, 64 << 10),
        (1 << 20, (128 << 10) + 512),
        (128 << 10, 128 << 10),
        (1 << 37, 1 << 30),
        (1 << 30, 128 << 10),
    ] {
        let options = JournalOptions {
            bytes_max,
            slot_bytes,
            buffer_bytes: 0,
        };
        let refused = try_open(&disk, Seal::None, &options, START).err().unwrap();
        assert_eq!(refused.kind, StoreErrorKind::Invalid);
    }
}

#[test]
fn the_size_may_change_between_openings() {
    let disk = SimDisk::new();
    let large = JournalOptions {
        bytes_max: 4 << 20,
        slot_bytes: 512 << 10,
        buffer_bytes: 0,
    };
    let mut kept = Vec::new();
    let mut at = START;
    for (round, options) in [SMALL, large, SMALL, large].iter().enumerate() {
        let opened = try_open(&disk, Seal::None, options, START).unwrap();
        assert_eq!((opened.owned(), opened.damage), (kept.clone(), Vec::new()));
        for n in 0..2 {
            let owned = Owned::write(round as u64 * 2 + n, 60_000);
            // At the end the small ring is full of other processes' slots.
            if opened.journal.append(&owned.record()).is_ok() {
                kept.push(owned);
            }
        }
        opened.journal.flush().unwrap();
        at = opened.journal.head();
    }
    assert_eq!(kept.len(), 8);
    let opened = try_open(&disk, Seal::None, &SMALL, at).unwrap();
    assert_eq!((opened.owned(), opened.damage), (Vec::new(), Vec::new()));
    assert_eq!(slots(&disk), 4, "surplus slots are removed");
}

#[test]
fn positions_rise_above_what_the_caller_knows() {
    let disk = SimDisk::new();
    let from = JournalPosition(1 << 45);
    let journal = open(&disk, Seal::None, from).journal;
    assert!(journal.head().0 > 1 << 45);
    journal.raise(JournalPosition((1 << 50) + 1));
    assert!(journal.head().0 > 1 << 50);
    journal.flush().unwrap();
    let at = journal.append(&Owned::write(1, 5).record()).unwrap();
    assert!(at.0 > 1 << 50);
    journal.raise(JournalPosition(1 << 55));
    journal.flush().unwrap();
    assert_eq!(open(&disk, Seal::None, from).replayed[0].0, at);
}

/// Returns the number of slot files.
fn slots(disk: &SimDisk) -> usize {
    disk.image().files_below("journal").len()
}

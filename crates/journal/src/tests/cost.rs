//! Costs of the journal: syncs, writes and bytes are counted.

use super::{Owned, SEALS, START, open, try_open};
use crate::JournalOptions;
use format::config::Seal;
use sim::SimDisk;

const LARGE: JournalOptions = JournalOptions {
    bytes_max: 32 << 20,
    slot_bytes: 8 << 20,
    buffer_bytes: 4 << 20,
};

#[test]
fn a_flush_is_one_sync_and_two_at_slot_changes() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let flush = |records: u64| {
            let before = disk.counts();
            for n in 0..records {
                let record = Owned::write(n, 4096);
                journal.append(&record.record()).unwrap();
            }
            journal.flush().unwrap();
            let after = disk.counts();
            (
                after.file_syncs - before.file_syncs,
                after.dir_syncs - before.dir_syncs,
            )
        };
        // A slot's first flush costs two more syncs, for the reach record.
        assert_eq!(flush(1), (3, 3), "the names of all slots, once");
        // 15 records of two blocks fill the 31 blocks of a slot. All are durable when the next slot
        // begins, so only the reach record adds syncs.
        for n in 1..45 {
            let is_first = n % 15 == 0;
            assert_eq!(flush(1), (if is_first { 3 } else { 1 }, 0));
        }
        journal.trim(journal.head());
        assert_eq!((flush(20), flush(20)), ((3, 0), (4, 0)));
        let before = disk.counts();
        journal.flush().unwrap();
        assert_eq!(disk.counts(), before, "nothing to do");
        assert_eq!(journal.usage().syncs, disk.counts().file_syncs);
    }
}

#[test]
fn bytes_written_for_4_kib() {
    for seal in SEALS {
        for (together, at_most) in [(1, 8192), (8, 4700), (64, 4300), (10_000, 4230)] {
            let disk = SimDisk::new();
            let journal = try_open(&disk, seal, &LARGE, START).unwrap().journal;
            let record = Owned::write(1, 4096);
            journal.append(&record.record()).unwrap();
            journal.flush().unwrap();
            let before = journal.usage();
            for _ in 0..together.min(1500) {
                journal.append(&record.record()).unwrap();
                journal.write_out().unwrap();
            }
            journal.flush().unwrap();
            let written = journal.usage().bytes_written - before.bytes_written;
            let each = written / together.min(1500);
            println!("{seal:?}, {together} a flush: {each} bytes written for a record of 4096");
            assert!(each <= at_most, "{each}");
        }
    }
}

#[test]
fn a_read_is_one_read() {
    let disk = SimDisk::new();
    let journal = open(&disk, Seal::Aes256Gcm, START).journal;
    let at = journal.append(&Owned::write(1, 8192).record()).unwrap();
    journal.flush().unwrap();
    let reads = |skip, len| {
        let before = disk.counts().reads;
        journal.read(at, skip, &mut vec![0; len]).unwrap();
        disk.counts().reads - before
    };
    assert_eq!(
        (reads(0, 8192), reads(4096, 4096), reads(0, 4096)),
        (1, 1, 0)
    );
}

#[test]
fn records_are_read_once_for_all_their_parts_and_in_the_order_of_the_journal() {
    let disk = SimDisk::new();
    let journal = open(&disk, Seal::Aes256Gcm, START).journal;
    let append = |n| journal.append(&Owned::write(n, 64 << 10).record()).unwrap();
    let mut positions: Vec<_> = (0..4).map(append).collect();
    journal.flush().unwrap();
    let before = disk.counts().reads;
    positions.reverse();
    positions.push(positions[0]);
    let asked = positions.clone();
    journal.read_ahead(&mut positions);
    assert!(positions.is_sorted() && positions.len() == 4);
    // Their size is not known before their first page: two reads each.
    let kept = (journal.ahead_bytes() / (64 << 10)).min(4);
    assert!(kept > 0);
    let read_ahead = disk.counts().reads - before;
    assert!(
        (2 * kept..=2 * kept + 2).contains(&read_ahead),
        "{read_ahead}"
    );
    let first = positions.iter().take(kept as usize);
    for at in asked.iter().filter(|at| first.clone().any(|of| of == *at)) {
        for page in 0..16 {
            let mut bytes = [0; 4096];
            journal.read(*at, page * 4096, &mut bytes).unwrap();
        }
    }
    assert_eq!(disk.counts().reads - before, read_ahead);
    // Trimmed records are not read, whatever is kept.
    journal.trim(journal.head());
    for at in asked {
        assert!(journal.read(at, 0, &mut [0; 4096]).is_err());
    }
}

#[test]
fn slots_are_made_ahead_and_once() {
    let disk = SimDisk::new();
    let journal = try_open(&disk, Seal::None, &LARGE, START).unwrap().journal;
    let record = Owned::write(1, 4096);
    let mut most = 0;
    for n in 0..12_000 {
        let at = journal.append(&record.record()).unwrap();
        let before = journal.usage().bytes_zeroed;
        journal.write_out().unwrap();
        // No writes precede the first slot, so it is not created ahead of time.
        if n > 200 {
            most = most.max(journal.usage().bytes_zeroed - before);
        }
        if n % 1000 == 999 {
            journal.flush().unwrap();
            journal.trim(at);
        }
    }
    assert!(most <= 2 << 20, "{most} bytes at once");
    assert_eq!(journal.usage().bytes_zeroed, LARGE.bytes_max);
}

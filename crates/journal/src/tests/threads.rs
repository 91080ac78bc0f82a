//! Many threads: one sync covers all waiting flushes, and no record is lost or mixed up.

use super::{Owned, SEALS, START, try_open};
use crate::{JournalOptions, Record};
use parking_lot::Mutex;
use sim::SimDisk;
use std::collections::BTreeMap;
use std::thread;
use units::VolumeId;

const OPTIONS: JournalOptions = JournalOptions {
    bytes_max: 16 << 20,
    slot_bytes: 1 << 20,
    buffer_bytes: 1 << 20,
};

#[test]
fn flushers_share_syncs_and_each_thread_keeps_its_order() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = try_open(&disk, seal, &OPTIONS, START).unwrap().journal;
        let written = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for thread in 0..8_u8 {
                let (journal, written) = (&journal, &written);
                scope.spawn(move || {
                    for n in 0..60 {
                        let data = vec![thread ^ n; 4096 + usize::from(n)];
                        let volume = VolumeId([thread; 16]);
                        let record = Record::Write {
                            volume,
                            offset_bytes: u64::from(n),
                            data: &data,
                        };
                        let at = journal.append(&record).unwrap();
                        journal.write_out().unwrap();
                        let mut into = vec![0; data.len()];
                        journal.read(at, 0, &mut into).unwrap();
                        assert_eq!(into, data);
                        if n % 4 == 3 {
                            journal.flush().unwrap();
                        }
                        written.lock().insert(at, (volume, data));
                        thread::yield_now();
                    }
                });
            }
        });
        let usage = journal.usage();
        assert_eq!((usage.records, usage.flushes), (480, 120));
        // Each reach record costs two syncs.
        assert!(usage.syncs <= usage.flushes + 4 + 16, "{usage:?}");
        let written = written.into_inner();
        let again = try_open(&disk, seal, &OPTIONS, START).unwrap();
        assert_eq!(again.damage, []);
        let replayed: Vec<_> = again.replayed.iter().map(|(at, _)| *at).collect();
        let expected: Vec<_> = written.keys().copied().collect();
        assert_eq!(replayed, expected);
        for ((_, owned), (_, data)) in again.replayed.iter().zip(written.values()) {
            assert!(matches!(owned, Owned::Write(_, found) if found == data));
        }
    }
}

/// Appending threads have nothing to do while another writes, until the buffers are full. Then they
/// wait.
#[test]
fn one_writer_does_not_wait_and_many_do() {
    let disk = SimDisk::new();
    let journal = try_open(&disk, SEALS[1], &OPTIONS, START).unwrap().journal;
    let append = || {
        let data = &[1; 64 << 10];
        let (volume, offset_bytes) = (VolumeId([1; 16]), 0);
        let record = Record::Write {
            volume,
            offset_bytes,
            data,
        };
        journal.append(&record).unwrap();
    };
    assert!(!journal.is_write_out_due());
    while !journal.is_write_out_due() {
        append();
    }
    let lead = |leading| {
        let mut state = journal.state.lock();
        state.leading = leading;
        journal.note(&state);
    };
    lead(true);
    assert!(!journal.is_write_out_due());
    while !journal.is_write_out_due() {
        append();
    }
    let waiting = journal.usage().waiting_bytes;
    // A quarter is for records that are read.
    assert!(waiting > OPTIONS.buffer_bytes as u64 / 4 * 3, "{waiting}");
    lead(false);
    journal.write_out().unwrap();
    assert!(!journal.is_write_out_due());
    assert_eq!(journal.usage().waiting_bytes, 0);
}

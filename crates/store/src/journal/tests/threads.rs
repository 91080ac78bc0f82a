//! Many threads at once: one sync for all who wait, and nothing lost or mixed up.

use super::{Owned, SEALS, START, try_open};
use crate::journal::{JournalOptions, Record};
use sim::SimDisk;
use std::collections::BTreeMap;
use std::sync::Mutex;
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
                        written.lock().unwrap().insert(at, (volume, data));
                        thread::yield_now();
                    }
                });
            }
        });
        let usage = journal.usage();
        assert_eq!((usage.records, usage.flushes), (480, 120));
        assert!(usage.syncs <= usage.flushes + 4, "{usage:?}");
        let written = written.into_inner().unwrap();
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

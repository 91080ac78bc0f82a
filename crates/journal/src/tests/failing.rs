//! Failing and full disks: a write that may be lost is never acknowledged.

use super::{Owned, SEALS, SMALL, START, open, try_open};
use chunk_store::StoreErrorKind;
use media::MediaErrorKind;
use sim::{CrashPoint, Fault, Plan, SimDisk, Walker};
use std::sync::Arc;

/// Returns the disk after a power loss that dropped everything that was not durable.
fn after_power_loss(disk: &Arc<SimDisk>) -> Arc<SimDisk> {
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    walker.advance(recording.log.len());
    SimDisk::on(CrashPoint::new(&walker).state(Plan::Nothing))
}

#[test]
fn a_failed_write_or_sync_is_for_ever() {
    for seal in SEALS {
        for fault in [
            Fault::Write { after: 0 },
            Fault::Sync {
                after: 0,
                sticky: false,
            },
        ] {
            let disk = SimDisk::new();
            let journal = open(&disk, seal, START).journal;
            let first = Owned::write(1, 4096);
            journal.append(&first.record()).unwrap();
            journal.flush().unwrap();
            let second = Owned::write(2, 4096);
            let at = journal.append(&second.record()).unwrap();
            disk.inject(fault);
            let failed = journal.flush().unwrap_err();
            assert_eq!(failed.kind, StoreErrorKind::Media(MediaErrorKind::Io));
            let poisoned = StoreErrorKind::Media(MediaErrorKind::Poisoned);
            assert_eq!(journal.flush().unwrap_err().kind, poisoned);
            let refused = journal.append(&second.record()).unwrap_err();
            assert_eq!(refused.kind, poisoned);
            // Appended records can still be read.
            journal.read(at, 0, &mut [0; 4096]).unwrap();

            // A new process reads what the failed sync left in memory. It may do so only if that is
            // durable from then on.
            let disk = disk.kill();
            let again = open(&disk, seal, START);
            let replayed = again.owned();
            assert_eq!(replayed.first(), Some(&first));
            assert_eq!(
                replayed.len(),
                if matches!(fault, Fault::Sync { .. }) {
                    2
                } else {
                    1
                }
            );
            again.journal.flush().unwrap();
            let disk = after_power_loss(&disk);
            assert_eq!(open(&disk, seal, START).owned(), replayed);
        }
    }
}

#[test]
fn a_slot_header_that_a_failed_sync_dropped_is_written_again() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let record = Owned::write(1, 4096);
        journal.append(&record.record()).unwrap();
        // After the two directories: the slot with its header.
        disk.inject(Fault::Sync {
            after: 2,
            sticky: false,
        });
        assert!(journal.flush().is_err());
        let disk = disk.kill();
        let replayed = open(&disk, seal, START).owned();
        assert_eq!(replayed, std::slice::from_ref(&record));
        let disk = after_power_loss(&disk);
        assert_eq!(open(&disk, seal, START).owned(), replayed);
    }
}

#[test]
fn a_full_disk_is_reported_before_anything_is_acknowledged() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        // Space for the first slot, a batch of four records, and half of the second slot.
        let batch = 120 << 10;
        disk.inject(Fault::NoSpaceAfter(SMALL.slot_bytes * 3 / 2 + 4096 + batch));
        let record = Owned::write(1, 30_000);
        for _ in 0..4 {
            journal.append(&record.record()).unwrap();
        }
        journal.flush().unwrap();
        journal.append(&record.record()).unwrap();
        for _ in 0..2 {
            let full = journal.flush().unwrap_err();
            assert_eq!(full.kind, StoreErrorKind::Media(MediaErrorKind::NoSpace));
        }
        let crashed = after_power_loss(&disk);
        assert_eq!(open(&crashed, seal, START).owned().len(), 4);
        // Space appears: the refused records are written after all.
        disk.clear_faults();
        journal.flush().unwrap();
        let crashed = after_power_loss(&disk);
        assert_eq!(open(&crashed, seal, START).owned().len(), 5);
    }
}

#[test]
fn a_disk_that_cannot_be_written_is_reported_at_once() {
    let disk = SimDisk::new();
    let journal = open(&disk, SEALS[1], START).journal;
    disk.inject(Fault::ReadOnly);
    journal.append(&Owned::write(1, 9).record()).unwrap();
    assert!(journal.flush().is_err());
    disk.inject(Fault::Missing);
    assert!(try_open(&disk, SEALS[1], &SMALL, START).is_err());
}

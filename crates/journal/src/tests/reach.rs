//! Missing flushed batches are reported, however the end of the journal was lost. No crash is
//! mistaken for that.

use super::{Owned, POOL, SEALS, START, VOLUME, open, try_open};
use crate::reach::{NAMES, SYNCS_BETWEEN};
use crate::slot_use::slot_name;
use crate::{Inspection, Journal, MasterKey};
use format::config::Seal;
use media::Media;
use sim::{Damage, SimDisk};
use std::sync::Arc;
use units::{JournalPosition, UnixNanos};

/// Makes a full slot, and one with `in_last` acknowledged flushes.
fn flushed(seal: Seal, in_last: u64) -> (Arc<SimDisk>, Vec<Owned>) {
    let disk = SimDisk::new();
    let journal = open(&disk, seal, START).journal;
    let mut written = Vec::new();
    for n in 0..15 + in_last {
        let owned = Owned::write(n, 4096);
        journal.append(&owned.record()).unwrap();
        journal.flush().unwrap();
        written.push(owned);
    }
    (disk, written)
}

fn inspect(disk: &Arc<SimDisk>, seal: Seal) -> Inspection {
    let media = Media::seeded(Arc::clone(disk) as _, UnixNanos::default(), 1);
    Journal::inspect(&media, POOL, &MasterKey::new([4; 32]), seal, START).unwrap()
}

#[test]
fn a_last_slot_that_is_missing_cut_or_older_is_reported() {
    for seal in SEALS {
        let (disk, written) = flushed(seal, 5);
        let image = disk.image();
        let empty = vec![0; 128 << 10];
        let last = image.contents(&slot_name(1)).unwrap();
        for (what, bytes) in [
            ("gone", None),
            ("zeroed", Some(empty)),
            ("cut", Some(last[..4096].to_vec())),
        ] {
            let disk = SimDisk::on(image.clone());
            match bytes {
                None => media::Disk::remove(&*disk, &slot_name(1)).unwrap(),
                Some(bytes) => disk.plant(&slot_name(1), &bytes),
            }
            let seen = inspect(&disk, seal);
            assert!(!seen.damage.is_empty(), "{what} {seal:?}");
            assert!(seen.losses.is_empty(), "nobody wrote it down");
            let opened = try_open(&disk, seal, &super::SMALL, START).unwrap();
            assert_eq!(opened.owned(), written[..15], "{what}");
            let lost = opened.damage.iter().find_map(|d| d.record.as_ref());
            if what != "cut" {
                let lost = lost.expect("it says whose");
                assert_eq!((lost.volume, lost.start), (VOLUME, 15 << 16), "{what}");
            }
            // Every process reports it until it is acknowledged.
            drop(opened);
            let again = try_open(&disk, seal, &super::SMALL, START).unwrap();
            let (losses, more) = again.journal.losses();
            assert!(!losses.is_empty() && more == 0, "{what}");
            assert_eq!(inspect(&disk, seal).losses, losses);
            let from = again.journal.head();
            again.journal.acknowledge_losses().unwrap();
            drop(again);
            // A root that is newer than the evidence.
            let known = try_open(&disk, seal, &super::SMALL, from).unwrap();
            assert_eq!(
                (known.damage, known.journal.losses()),
                (vec![], (vec![], 0))
            );
            assert_eq!(inspect(&disk, seal).losses, []);
        }
    }
}

#[test]
fn a_slot_that_is_replaced_by_an_earlier_use_is_reported() {
    for seal in SEALS {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let flush = |n: u64| {
            journal.append(&Owned::write(n, 4096).record()).unwrap();
            journal.flush().unwrap();
        };
        (0..3).for_each(flush);
        let old = disk.image().contents(&slot_name(0)).unwrap();
        (3..60).for_each(flush);
        let from = journal.head();
        journal.trim(from);
        // The ring wraps into the first slot.
        (60..64).for_each(flush);
        drop(journal);
        assert_ne!(disk.image().contents(&slot_name(0)).unwrap(), old);
        disk.plant(&slot_name(0), &old);
        let opened = try_open(&disk, seal, &super::SMALL, from).unwrap();
        assert!(opened.owned().is_empty());
        assert!(!opened.damage.is_empty(), "{seal:?}");
        assert!(opened.journal.head() > from);
    }
}

/// Only flushes since the last reach record can vanish unnoticed.
#[test]
fn only_flushes_since_the_last_record_can_vanish() {
    let large = super::JournalOptions {
        bytes_max: 8 << 20,
        slot_bytes: 4 << 20,
        buffer_bytes: 0,
    };
    let count = u64::from(SYNCS_BETWEEN) + 40;
    for close in [false, true] {
        let disk = SimDisk::new();
        let journal = try_open(&disk, Seal::None, &large, START).unwrap().journal;
        let mut ends = Vec::new();
        for n in 0..count {
            journal.append(&Owned::write(n, 4096).record()).unwrap();
            journal.flush().unwrap();
            ends.push(journal.head());
        }
        if close {
            journal.note_reach().unwrap();
        }
        let reached = journal.reached();
        drop(journal);
        let vouched = ends.iter().filter(|end| **end <= reached).count() as u64;
        match close {
            true => assert_eq!(vouched, count),
            false => assert_eq!(vouched, u64::from(SYNCS_BETWEEN) + 1),
        }
        // Cut after each flush: reported if the reach record covers it.
        let image = disk.image();
        let whole = image.contents(&slot_name(0)).unwrap();
        for kept in [1, 20, SYNCS_BETWEEN as usize, SYNCS_BETWEEN as usize + 10] {
            let disk = SimDisk::on(image.clone());
            let bytes = (ends[kept - 1].0 - (ends[0].0 - 8192)) as usize + 4096;
            disk.plant(&slot_name(0), &whole[..bytes]);
            let opened = try_open(&disk, Seal::None, &large, START).unwrap();
            assert_eq!(opened.owned().len(), kept);
            let is_reported = !opened.damage.is_empty();
            assert_eq!(is_reported, (kept as u64) < vouched, "{kept} of {vouched}");
        }
    }
}

#[test]
fn a_record_costs_two_syncs_for_so_many_flushes() {
    let large = super::JournalOptions {
        bytes_max: 32 << 20,
        slot_bytes: 8 << 20,
        buffer_bytes: 0,
    };
    let disk = SimDisk::new();
    let journal = try_open(&disk, Seal::None, &large, START).unwrap().journal;
    let flushes = 10 * u64::from(SYNCS_BETWEEN);
    for n in 0..flushes {
        journal.append(&Owned::write(n, 4096).record()).unwrap();
        journal.flush().unwrap();
    }
    // One record for the slot, and one for each interval after it.
    assert_eq!(disk.counts().file_syncs, flushes + 2 * 10);
}

#[test]
fn one_of_the_two_files_is_enough_and_none_is_quiet() {
    for seal in SEALS {
        let (disk, _) = flushed(seal, 5);
        media::Disk::remove(&*disk, &slot_name(1)).unwrap();
        let image = disk.image();
        for name in NAMES {
            let disk = SimDisk::on(image.clone());
            disk.damage(name, &Damage::FlipBit(8 * 50)).unwrap();
            let opened = try_open(&disk, seal, &super::SMALL, START).unwrap();
            assert!(!opened.damage.is_empty(), "{name}");
        }
        // A pool of an earlier version has no reach record, and opens without a report.
        let old = SimDisk::on(image.clone());
        NAMES
            .iter()
            .for_each(|name| media::Disk::remove(&*old, name).unwrap());
        drop(open(&old, seal, START));
        // With both files damaged, opening reports it.
        let disk = SimDisk::on(image);
        for name in NAMES {
            disk.damage(name, &Damage::FlipBit(8 * 50)).unwrap();
        }
        let opened = try_open(&disk, seal, &super::SMALL, START).unwrap();
        let text = opened.damage[0].to_string();
        assert!(text.contains("is unknown"), "{text}");
    }
}

#[test]
fn a_record_of_another_key_is_not_believed() {
    let (disk, _) = flushed(Seal::Aes256Gcm, 5);
    let media = Media::seeded(Arc::clone(&disk) as _, UnixNanos::default(), 1);
    let none = JournalPosition(0);
    let other = MasterKey::new([5; 32]);
    let seen = Journal::inspect(&media, POOL, &other, Seal::Aes256Gcm, none).unwrap();
    assert!(
        seen.damage
            .iter()
            .any(|d| d.found.contains("journal-reach"))
    );
}

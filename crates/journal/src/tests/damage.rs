//! Damage to slots: which records must come back, which must be reported, and of which volume.
//!
//! Invariant of every case: replayed records were written, in order. A missing record is covered by
//! a report if anything intact shows that it was durable: the next slot, or a later batch.

use super::{Owned, Reopened, SEALS, SMALL, START, VOLUME, open, try_open};
use crate::JournalDamage;
use crate::slot_use::slot_name;
use chunk_store::StoreErrorKind;
use format::bytes::checksum;
use format::config::Seal;
use format::preamble::BlobKind;
use sim::{Damage, Image, Seed, SimDisk};
use std::sync::Arc;
use units::JournalPosition;

/// A journal of three slots, its records, and the position up to which it is known to be durable.
struct Sample {
    image: Image,
    seal: Seal,
    written: Vec<(JournalPosition, Owned)>,
    /// Positions of the batches.
    batches: Vec<JournalPosition>,
    /// First position of each slot.
    firsts: Vec<u64>,
}

impl Sample {
    fn new(seal: Seal) -> Self {
        let disk = SimDisk::new();
        let journal = open(&disk, seal, START).journal;
        let in_slot = SMALL.slot_bytes - 4096;
        let firsts: Vec<u64> = (0..3).map(|n| journal.head().0 + n * in_slot).collect();
        let mut written: Vec<(JournalPosition, Owned)> = Vec::new();
        let mut batches = vec![journal.head()];
        for n in 0.. {
            let owned = match n % 4 {
                3 => Owned::write(n, 40_000),
                kind => Owned::some(n * 7 + [1, 3, 6][kind as usize]),
            };
            let at = journal.append(&owned.record()).unwrap();
            written.push((at, owned));
            // Some batches have two records.
            if n % 3 == 1 {
                continue;
            }
            journal.flush().unwrap();
            if n % 3 == 0 && at.0 > firsts[2] + 20_000 {
                break;
            }
            batches.push(journal.head());
        }
        Self {
            image: disk.image(),
            seal,
            written,
            batches,
            firsts,
        }
    }

    /// Returns slot and offset of a position.
    fn place(&self, at: JournalPosition) -> (u32, u64) {
        let slot = self.firsts.partition_point(|first| *first <= at.0) - 1;
        (slot as u32, at.0 - self.firsts[slot] + 4096)
    }

    /// Returns the index of a record in slot 1 with at least `data_bytes` of data.
    fn record(&self, data_bytes: usize) -> usize {
        let fits = |owned: &Owned| matches!(owned, Owned::Write(_, d) if d.len() >= data_bytes);
        let is_in = |at: &JournalPosition| self.place(*at).0 == 1;
        let found = self.written.iter().position(|(at, o)| is_in(at) && fits(o));
        found.unwrap()
    }

    fn disk(&self, slot: u32, damage: &[Damage]) -> Arc<SimDisk> {
        let disk = SimDisk::on(self.image.clone());
        for damage in damage {
            disk.damage(&slot_name(slot), damage).unwrap();
        }
        disk
    }

    fn reopen(&self, slot: u32, damage: &[Damage]) -> Reopened {
        let disk = self.disk(slot, damage);
        let again = try_open(&disk, self.seal, &SMALL, START).unwrap();
        self.check(&again);
        // A process continues, and the next one reports the damage again.
        let added = Owned::write(99, 99);
        let at = again.journal.append(&added.record()).unwrap();
        again.journal.flush().unwrap();
        let third = try_open(&disk, self.seal, &SMALL, START).unwrap();
        let mut expected = again.replayed.clone();
        expected.push((at, added));
        assert_eq!(third.replayed, expected);
        // A slot without a header may have been reused, so nothing of it could be replayed. If only
        // the reach record knew it, its list of losses has it.
        let is_recorded = |d: &JournalDamage| d.found.starts_with("flushed writes are lost");
        let still =
            |d: &&JournalDamage| d.end == START || is_recorded(d) || third.damage.contains(d);
        let recorded = again.damage.iter().any(is_recorded);
        assert!(!recorded || !third.journal.losses().0.is_empty());
        assert_eq!(again.damage.iter().find(|d| !still(d)), None);
        again
    }

    /// Checks the invariant.
    fn check(&self, again: &Reopened) {
        let mut rest = self.written.iter();
        for (at, owned) in &again.replayed {
            assert!(rest.any(|w| w == &(*at, owned.clone())), "{at} out of turn");
        }
        let last = again.replayed.last().map(|(at, _)| self.batch_of(*at));
        for (at, _) in self.missing(again) {
            let slot = self.place(*at).0;
            let covers = |d: &JournalDamage| {
                let is_slot = d.slot == Some(slot) && d.end == START;
                is_slot || (d.at <= *at && *at < d.end)
            };
            let is_certain = slot < 2 || last > Some(self.batch_of(*at));
            let is_reported = again.damage.iter().any(covers);
            assert!(!is_certain || is_reported, "{at}: {:?}", again.damage);
        }
        for damage in &again.damage {
            assert!(!damage.to_string().is_empty());
        }
    }

    /// Returns the position of a record's batch.
    fn batch_of(&self, at: JournalPosition) -> JournalPosition {
        let above = self.batches.partition_point(|batch| *batch <= at);
        self.batches[above - 1]
    }

    fn missing<'a>(&'a self, again: &Reopened) -> Vec<&'a (JournalPosition, Owned)> {
        let is_there = |w: &&(JournalPosition, Owned)| again.replayed.contains(w);
        self.written.iter().filter(|w| !is_there(w)).collect()
    }
}

fn flip(byte: u64) -> Damage {
    Damage::FlipBit(8 * byte + 3)
}

#[test]
fn damaged_data_is_reported_with_its_volume_and_range() {
    for seal in SEALS {
        let sample = Sample::new(seal);
        let number = sample.record(5000);
        let (at, owned) = &sample.written[number];
        let (slot, offset) = sample.place(*at);
        let again = sample.reopen(slot, &[flip(offset + 64 + 2000)]);
        assert_eq!(sample.missing(&again), [&(*at, owned.clone())]);
        let [damage] = again.damage.as_slice() else {
            panic!("{:?}", again.damage);
        };
        let record = damage.record.unwrap();
        let Owned::Write(start, data) = owned else {
            panic!("{owned:?}");
        };
        assert_eq!((damage.slot, damage.at), (Some(1), *at));
        assert_eq!(
            (record.volume, record.start, record.len),
            (VOLUME, *start, data.len() as u64)
        );
        let text = damage.to_string();
        assert!(text.starts_with("journal/01 positions"), "{text}");
        assert!(text.contains(&VOLUME.to_string()), "{text}");
        // Reading the record fails too; reading its neighbours does not.
        let read = |n: usize| again.journal.read(sample.written[n].0, 0, &mut [0; 9]);
        assert_eq!(read(number).unwrap_err().kind, StoreErrorKind::Corruption);
    }
}

#[test]
fn a_damaged_record_header_costs_one_record() {
    for seal in SEALS {
        let sample = Sample::new(seal);
        let number = sample.record(1);
        let (at, _) = &sample.written[number];
        let (slot, offset) = sample.place(*at);
        for byte in [0, 5, 17, 36, 60] {
            let again = sample.reopen(slot, &[flip(offset + byte)]);
            assert_eq!(sample.missing(&again).len(), 1);
            assert!(again.damage.iter().all(|d| d.record.is_none()));
        }
    }
}

#[test]
fn a_damaged_batch_header_costs_nothing_but_a_note() {
    for seal in SEALS {
        let sample = Sample::new(seal);
        for slot in [0, 1] {
            let again = sample.reopen(slot, &[flip(4096 + 9)]);
            assert_eq!(sample.missing(&again).len(), 0);
            assert_eq!(again.damage.len(), 1, "{:?}", again.damage);
        }
    }
}

#[test]
fn slot_headers() {
    for seal in SEALS {
        let sample = Sample::new(seal);
        let in_slot = |n: u32| {
            let is_in = |w: &&&(JournalPosition, Owned)| sample.place(w.0).0 == n;
            sample
                .written
                .iter()
                .collect::<Vec<_>>()
                .iter()
                .filter(is_in)
                .count()
        };
        for slot in 0..3 {
            for copy in [40, 2048 + 80] {
                let again = sample.reopen(slot, &[flip(copy)]);
                assert_eq!((sample.missing(&again).len(), again.damage.len()), (0, 1));
            }
            let again = sample.reopen(slot, &[flip(40), flip(2048 + 80)]);
            assert_eq!(sample.missing(&again).len(), in_slot(slot));
            let text = format!("{:?}", again.damage);
            assert!(text.contains("header"), "{text}");
            // The next use reports it; for the last use, the reach record does.
            assert!(text.contains("is missing"), "{text}");
        }
        for slot in 0..2 {
            let again = sample.reopen(slot, &[Damage::Delete]);
            assert_eq!(sample.missing(&again).len(), in_slot(slot));
            let again = sample.reopen(slot, &[Damage::SetLen(0)]);
            assert_eq!(sample.missing(&again).len(), in_slot(slot));
        }
        let again = sample.reopen(0, &[Damage::Swap(slot_name(1))]);
        assert_eq!(sample.missing(&again).len(), in_slot(0) + in_slot(1));
    }
}

#[test]
fn zeroes_and_cuts() {
    for seal in SEALS {
        let sample = Sample::new(seal);
        for slot in 0..3 {
            for (offset, len) in [(4096, 4096), (8192, 512), (20480, 65536), (4096, 1 << 20)] {
                sample.reopen(slot, &[Damage::Zero { offset, len }]);
            }
            for len in [4096, 5000, 70_000] {
                sample.reopen(slot, &[Damage::SetLen(len)]);
            }
        }
    }
}

#[test]
fn only_the_last_batch_can_be_lost_without_a_word() {
    for seal in SEALS {
        let sample = Sample::new(seal);
        let (slot, offset) = sample.place(*sample.batches.last().unwrap());
        let again = sample.reopen(slot, &[flip(offset + 9)]);
        assert_eq!(again.damage, []);
        assert_eq!(sample.missing(&again).len(), 1);
        // The last record shows that the one before was durable.
        let before = sample.written[sample.written.len() - 2].0;
        let (slot, offset) = sample.place(before);
        let again = sample.reopen(slot, &[flip(offset + 9)]);
        assert_eq!((sample.missing(&again).len(), again.damage.len()), (1, 1));
    }
}

#[test]
fn a_later_version_is_not_read_and_not_written() {
    let sample = Sample::new(Seal::None);
    let mut page = sample.image.contents(&slot_name(1)).unwrap();
    for copy in [0, 2048] {
        page[copy + 10] = 2;
        let sum = checksum(BlobKind::Journal.seed(), &page[copy..copy + 504]);
        page[copy + 504..copy + 512].copy_from_slice(&sum.to_le_bytes());
    }
    let disk = sample.disk(1, &[Damage::Replace(page)]);
    let refused = try_open(&disk, Seal::None, &SMALL, START).err().unwrap();
    assert_eq!(refused.kind, StoreErrorKind::Unsupported);
}

#[test]
fn other_pools_and_other_keys_are_not_replayed() {
    let [plain, sealed] = SEALS.map(Sample::new);
    let disk = sealed.disk(
        0,
        &[Damage::Replace(
            plain.image.contents(&slot_name(0)).unwrap(),
        )],
    );
    let again = try_open(&disk, sealed.seal, &SMALL, START).unwrap();
    sealed.check(&again);
    assert!(format!("{:?}", again.damage).contains("encrypted in another way than the pool"));
    // Forged without the key: checksums are right, seals are not.
    let mut page = sealed.image.contents(&slot_name(2)).unwrap();
    for copy in [0, 2048] {
        page[copy + 64] ^= 16;
        let sum = checksum(BlobKind::Journal.seed(), &page[copy..copy + 504]);
        page[copy + 504..copy + 512].copy_from_slice(&sum.to_le_bytes());
    }
    let disk = sealed.disk(2, &[Damage::Replace(page)]);
    let again = try_open(&disk, sealed.seal, &SMALL, START).unwrap();
    assert!(format!("{:?}", again.damage).contains("seal of its header"));
}

#[test]
fn random_damage() {
    let samples = SEALS.map(Sample::new);
    let mut reported = 0;
    for seed in 0..1500 {
        let mut seed = Seed::new(seed);
        let sample = &samples[seed.below(2) as usize];
        // Spare the header page of the last slot: nothing shows that it was durable.
        let slot = seed.below(3) as u32;
        let offset = 4096 * u64::from(slot == 2) + seed.below(SMALL.slot_bytes - 8192);
        let len = 1 << seed.below(17);
        let bytes = (0..len.min(9000)).map(|_| seed.draw() as u8).collect();
        let damage = match seed.below(4) {
            0 => flip(offset),
            1 => Damage::Zero { offset, len },
            2 => Damage::Overwrite { offset, bytes },
            _ => Damage::SetLen(offset),
        };
        reported += sample.reopen(slot, &[damage]).damage.len();
    }
    assert!(reported > 500, "{reported}");
}

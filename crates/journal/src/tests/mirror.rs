//! A journal on two disks: whatever happens to one of them, nothing is lost.

use super::{Owned, POOL, Reopened, SEALS, SMALL, START, open, try_open};
use crate::slot_use::slot_name;
use crate::{Journal, JournalDisks, MasterKey, Record};
use chunk_store::Result;
use format::config::Seal;
use format::journal_place::JournalPlace;
use media::{Disk, Media};
use sim::{Damage, SimDisk};
use std::sync::Arc;
use units::{JournalPosition, UnixNanos};

/// The fast disk and the pool's.
#[derive(Clone)]
struct Pair {
    fast: Arc<SimDisk>,
    pool: Arc<SimDisk>,
}

impl Pair {
    fn new() -> Self {
        Self {
            fast: SimDisk::new(),
            pool: SimDisk::new(),
        }
    }

    /// The same disks, of which one has lost everything but the reach record.
    fn without(&self, which: usize) -> Self {
        let copy = self.copy();
        let disk = copy.disks()[which];
        for (name, _) in disk.image().files_below("journal") {
            disk.remove(&name).unwrap();
        }
        copy
    }

    fn copy(&self) -> Self {
        Self {
            fast: SimDisk::on(self.fast.image()),
            pool: SimDisk::on(self.pool.image()),
        }
    }

    fn disks(&self) -> [&SimDisk; 2] {
        [&self.fast, &self.pool]
    }

    fn try_open(&self, seal: Seal, from: JournalPosition) -> Result<Reopened> {
        let mut replayed = Vec::new();
        let master = MasterKey::new([4; 32]);
        let seed = 7 + self.pool.position() as u64;
        let media = Media::seeded(Arc::clone(&self.pool) as _, UnixNanos::default(), seed);
        let disks = JournalDisks::mirrored(&media, Arc::clone(&self.fast) as _);
        let mut take = |at, record: Record<'_>| {
            replayed.push((at, Owned::of(record)));
            Ok(())
        };
        let (journal, damage) = Journal::open(disks, POOL, &master, seal, &SMALL, from, &mut take)?;
        Ok(Reopened {
            journal,
            replayed,
            damage,
        })
    }

    fn open(&self, seal: Seal) -> Reopened {
        self.try_open(seal, START).expect("open")
    }
}

/// Writes records to a new pair. Returns it with them.
fn written(seal: Seal) -> (Pair, Vec<Owned>) {
    let pair = Pair::new();
    let journal = pair.open(seal).journal;
    let records: Vec<_> = (0..18).map(Owned::some).collect();
    for record in &records {
        journal.append(&record.record()).unwrap();
        journal.flush().unwrap();
    }
    (pair, records)
}

#[test]
fn the_loss_of_either_disk_loses_nothing() {
    for seal in SEALS {
        let (pair, records) = written(seal);
        let whole = pair.copy().open(seal);
        assert_eq!((whole.owned(), whole.damage), (records.clone(), vec![]));
        assert!(!whole.journal.is_degraded());
        for which in 0..2 {
            let left = pair.without(which);
            let opened = left.open(seal);
            assert_eq!(opened.owned(), records);
            assert_eq!(opened.damage, []);
            assert!(opened.journal.is_degraded());
            assert_eq!(opened.journal.usage().place, JournalPlace::Mirrored);
            // New records are on both again.
            let more = Owned::write(99, 4096);
            opened.journal.append(&more.record()).unwrap();
            opened.journal.flush().unwrap();
            drop(opened);
            let again = left.without(1 - which).open(seal);
            let last = again.owned().pop();
            assert_eq!(last, Some(more));
        }
    }
}

#[test]
fn the_pools_own_disk_is_enough() {
    for seal in SEALS {
        let (pair, records) = written(seal);
        let alone = open(&SimDisk::on(pair.pool.image()), seal, START);
        assert_eq!(alone.owned(), records);
    }
}

#[test]
fn damage_of_one_copy_is_read_around() {
    for seal in SEALS {
        let (pair, records) = written(seal);
        // Every block is damaged in one of the copies, by turns.
        let damaged = pair.copy();
        for (which, disk) in damaged.disks().into_iter().enumerate() {
            for (name, len) in disk.image().files_below("journal") {
                for block in (which as u64..len / 4096).step_by(2) {
                    let offset = block * 4096 + 100;
                    let damage = Damage::Zero { offset, len: 3000 };
                    disk.damage(&name, &damage).unwrap();
                }
            }
        }
        let opened = damaged.open(seal);
        // A record of several blocks is damaged in both.
        let short = |owned: &&Owned| match owned {
            Owned::Write(_, data) => data.len() < 600,
            _ => true,
        };
        let found = opened.owned();
        assert!(records.iter().filter(short).all(|r| found.contains(r)));
        assert!(found.iter().all(|r| records.contains(r)));
        let lost = records.len() - found.len();
        assert!(opened.damage.len() >= lost.min(1), "{:?}", opened.damage);
        // All of one copy.
        for which in 0..2 {
            let damaged = pair.copy();
            for (name, len) in damaged.disks()[which].image().files_below("journal") {
                let damage = Damage::Zero { offset: 5000, len };
                damaged.disks()[which].damage(&name, &damage).unwrap();
            }
            let opened = damaged.open(seal);
            assert_eq!((opened.owned(), opened.damage), (records.clone(), vec![]));
        }
    }
}

#[test]
fn a_record_is_read_from_the_copy_that_has_it() {
    for seal in SEALS {
        let pair = Pair::new();
        let journal = pair.open(seal).journal;
        let record = Owned::write(3, 4096);
        let at = journal.append(&record.record()).unwrap();
        journal.flush().unwrap();
        let damage = Damage::Zero {
            offset: 4096,
            len: 8192,
        };
        pair.fast.damage(&slot_name(0), &damage).unwrap();
        let mut found = vec![0; 4096];
        journal.read(at, 0, &mut found).unwrap();
        assert_eq!(Owned::Write(3 << 16, found), record);
    }
}

#[test]
fn a_flush_syncs_both() {
    for seal in SEALS {
        let pair = Pair::new();
        let journal = pair.open(seal).journal;
        let flush = || {
            let counts = || pair.disks().map(|disk| disk.counts().file_syncs);
            let before = counts();
            journal.append(&Owned::write(1, 512).record()).unwrap();
            journal.flush().unwrap();
            let after = counts();
            [after[0] - before[0], after[1] - before[1]]
        };
        assert_eq!(
            flush(),
            [1, 3],
            "the record of the reach is in the pool only"
        );
        assert_eq!(flush(), [1, 1]);
    }
}

#[test]
fn a_device_in_an_earlier_state_is_reported() {
    for seal in SEALS {
        let (fast, pool) = (SimDisk::new(), SimDisk::new());
        let open_fast = |fast: &Arc<SimDisk>, from| {
            let master = MasterKey::new([4; 32]);
            let seed = 7 + pool.position() as u64;
            let media = Media::seeded(Arc::clone(&pool) as _, UnixNanos::default(), seed);
            let disks = JournalDisks::fast(&media, Arc::clone(fast) as _);
            Journal::open(disks, POOL, &master, seal, &SMALL, from, &mut |_, _| Ok(())).unwrap()
        };
        let (journal, _) = open_fast(&fast, START);
        let old = fast.image();
        journal.append(&Owned::write(1, 512).record()).unwrap();
        journal.flush().unwrap();
        assert!(pool.image().files_below("journal").is_empty());
        // A root has all of it; later flushes may have followed.
        let from = journal.head();
        drop(journal);
        for is_old in [false, true] {
            let fast = SimDisk::on(if is_old { old.clone() } else { fast.image() });
            let (_, damage) = open_fast(&fast, from);
            assert_eq!(!damage.is_empty(), is_old, "{damage:?}");
        }
        // Reported once, and recorded.
        let losses = open_fast(&SimDisk::on(old), from).0.losses();
        assert_eq!(losses.0.len(), 1, "{losses:?}");
        drop(try_open(&pool, seal, &SMALL, from));
    }
}

/// A crash came between the first writes of a use to both disks. The process that opens the journal
/// then records how far it reaches, and may crash too: each disk has what that record names.
#[test]
fn a_use_that_only_one_disk_has_is_copied_before_it_is_relied_upon() {
    for seal in SEALS {
        for which in 0..2 {
            let pair = Pair::new();
            let journal = pair.open(seal).journal;
            let records: Vec<_> = (0..3).map(Owned::some).collect();
            for record in &records {
                journal.append(&record.record()).unwrap();
            }
            journal.flush().unwrap();
            drop(journal);
            let left = pair.without(which);
            let opened = left.open(seal);
            assert_eq!(opened.owned(), records);
            drop(opened);
            let alone = left.without(1 - which).open(seal);
            assert_eq!(alone.damage, []);
            assert!(alone.owned() == records, "other records");
        }
    }
}

//! Compares the index with a map, through merges, growth, reopening, crashes and damage.

mod bench;
mod copies;
mod cost;
mod damage;
mod disk;
mod history;

use super::*;
use disk::TestDisk;
use media::Disk;
use units::{PoolId, UnixNanos};

const PATH: &str = "cache/fpi";
const POOL: PoolId = PoolId([3; 16]);
const MIB: usize = 1 << 20;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn fingerprint(&mut self) -> Fingerprint {
        let mut bytes = [0; 32];
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
        Fingerprint(bytes)
    }
}

/// Returns the place of the `n`-th chunk of a writer that puts 256 chunks into each container.
fn location(n: u64) -> Location {
    Location {
        container: ContainerId::new(WriterId(1), n / 256),
        sector: (n % 256) as u32 * 250,
        sectors: 250,
    }
}

fn covers(next: u64) -> Coverage {
    Coverage::from([(WriterId(1), next)])
}

fn open(disk: &Arc<TestDisk>, memory_bytes: usize) -> Opened {
    FingerprintIndex::open(Arc::clone(disk) as Arc<dyn Disk>, PATH, POOL, memory_bytes)
}

fn open_read_only(disk: &Arc<TestDisk>, memory_bytes: usize) -> Opened {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    FingerprintIndex::open_read_only(disk, PATH, POOL, memory_bytes)
}

fn lookup(index: &FingerprintIndex, fingerprint: &Fingerprint) -> Vec<Location> {
    let mut candidates = vec![location(0)];
    index.lookup(fingerprint, &mut candidates).unwrap();
    candidates
}

/// Inserts `count` random chunks and returns their fingerprints.
fn fill(index: &FingerprintIndex, dice: &mut Dice, count: u64) -> Vec<Fingerprint> {
    let fingerprints: Vec<_> = (0..count).map(|_| dice.fingerprint()).collect();
    for (n, fingerprint) in (0..).zip(&fingerprints) {
        index.insert(fingerprint, location(n)).unwrap();
    }
    fingerprints
}

fn assert_holds(index: &FingerprintIndex, fingerprints: &[Fingerprint]) {
    for (n, fingerprint) in (0..).zip(fingerprints) {
        assert!(
            lookup(index, fingerprint).contains(&location(n)),
            "chunk {n}"
        );
    }
}

#[test]
fn what_was_inserted_is_found_before_and_after_commit_and_reopening() {
    let disk = TestDisk::new();
    let opened = open(&disk, MIB);
    assert_eq!(
        (opened.found, opened.coverage),
        (IndexFound::Missing, Coverage::new())
    );
    let index = opened.index;
    let mut dice = Dice(1);
    let fingerprints = fill(&index, &mut dice, 3000);
    assert_holds(&index, &fingerprints);
    assert!(index.commit(&covers(12)).unwrap());
    assert_holds(&index, &fingerprints);
    assert_eq!(index.counters().pending_entries, 0);
    drop(index);
    for reopened in [open(&disk, MIB), open_read_only(&disk, MIB)] {
        assert_eq!(
            (reopened.found, &reopened.coverage),
            (IndexFound::Loaded, &covers(12))
        );
        assert_holds(&reopened.index, &fingerprints);
        assert_eq!(reopened.index.counters().entries, 3000);
        assert!((0..1000).all(|_| lookup(&reopened.index, &dice.fingerprint()).is_empty()));
    }
}

#[test]
fn a_place_is_kept_once_and_the_latest_of_several_comes_first() {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let fingerprint = Dice(2).fingerprint();
    for n in [5, 9, 5, 9, 9] {
        index.insert(&fingerprint, location(n)).unwrap();
        index.commit(&covers(1)).unwrap();
    }
    assert_eq!(index.counters().entries, 2);
    assert_eq!(lookup(&index, &fingerprint), [location(9), location(5)]);
    for n in 10..40 {
        index.insert(&fingerprint, location(n)).unwrap();
        index.commit(&covers(1)).unwrap();
        assert!(lookup(&index, &fingerprint).contains(&location(n)), "{n}");
    }
    assert!(lookup(&index, &fingerprint).len() <= 8);
}

#[test]
fn fingerprints_that_look_alike_in_an_entry_are_distinguished_by_the_overflow_table() {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let first = Dice(3).fingerprint();
    let mut second = first;
    // A change above the top ten bucket bits: equal bucket, equal 36 bits.
    second.0[0] ^= 1;
    index.insert(&first, location(1)).unwrap();
    index.commit(&covers(1)).unwrap();
    assert_eq!(lookup(&index, &second), [location(1)], "the false positive");
    index.note_false_positive();
    index.insert_colliding(&second, location(2)).unwrap();
    assert_eq!(lookup(&index, &second), [location(2), location(1)]);
    assert_eq!(lookup(&index, &first), [location(1)]);
    assert!(index.commit(&covers(1)).unwrap());
    let counters = index.counters();
    assert_eq!(
        (counters.overflow_entries, counters.false_positives),
        (1, 1)
    );
    drop(index);
    let index = open(&disk, MIB).index;
    assert_eq!(lookup(&index, &second), [location(2), location(1)]);
    assert_eq!(lookup(&index, &first), [location(1)]);
}

#[test]
fn regions_that_do_not_fit_are_refused_and_use_nothing_up() {
    let index = open(&TestDisk::new(), MIB).index;
    let fingerprint = Dice(4).fingerprint();
    for (sector, sectors) in [(65536, 1), (0, 4096), (0, 0)] {
        let location = Location {
            sector,
            sectors,
            ..location(0)
        };
        let refused = index.insert(&fingerprint, location).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Invalid);
    }
    assert_eq!(index.counters().entries, 0);
}

#[test]
fn containers_in_any_order_and_of_many_writers_keep_their_numbers() {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let mut dice = Dice(5);
    let mut model = Vec::new();
    for _ in 0..3000 {
        let sequence = match dice.below(20) {
            0 => ContainerId::SEQUENCE_MAX - dice.below(5),
            _ => dice.below(100_000),
        };
        let writer = WriterId([0, 1, 7, u16::MAX][dice.below(4) as usize]);
        let container = ContainerId::new(writer, sequence);
        let place = Location {
            container,
            sector: 8,
            sectors: 3,
        };
        let fingerprint = dice.fingerprint();
        index.insert(&fingerprint, place).unwrap();
        model.push((fingerprint, place));
    }
    assert!(index.commit(&covers(1)).unwrap());
    let check = |index: &FingerprintIndex| {
        model
            .iter()
            .for_each(|(fp, place)| assert_eq!(lookup(index, fp), [*place]));
    };
    check(&index);
    drop(index);
    check(&open(&disk, MIB).index);
}

#[test]
fn consecutive_containers_are_one_run_and_shuffled_ones_few() {
    let mut numbers = numbers::Numbers::default();
    for sequence in 0..5000 {
        numbers
            .assign(ContainerId::new(WriterId(1), sequence))
            .unwrap();
    }
    assert_eq!(numbers.runs_of(WriterId(1)), 1);
    for sequence in (0..5000u64).map(|n| n * 7 % 5000) {
        let id = ContainerId::new(WriterId(2), sequence);
        let number = numbers.assign(id).unwrap();
        assert_eq!(numbers.id(number), Some(id));
    }
    assert!(numbers.runs_of(WriterId(2)) <= 5);
    let again = numbers::Numbers::load(numbers.runs()).unwrap();
    let id = ContainerId::new(WriterId(2), 4321);
    assert_eq!(again.runs(), numbers.runs());
    assert_eq!(
        numbers.assign(id).and_then(|number| again.id(number)),
        Some(id)
    );
    assert_eq!(again.id(1 << 30), None);
}

#[test]
fn several_threads_look_up_while_one_inserts_and_the_file_grows() {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let mut dice = Dice(6);
    let old = fill(&index, &mut dice, 5000);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut rounds = 0;
                while !done.load(Relaxed) || rounds == 0 {
                    assert_holds(&index, &old);
                    rounds += 1;
                }
            });
        }
        for n in 0..60_000 {
            index
                .insert(&dice.fingerprint(), location(5000 + n))
                .unwrap();
            if n % 10_000 == 0 {
                index.commit(&covers(n)).unwrap();
            }
        }
        done.store(true, Relaxed);
    });
    assert!(!index.is_damaged(), "a read beneath a write is not damage");
    assert_holds(&index, &old);
}

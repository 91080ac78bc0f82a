//! The damage matrix: for each kind of damage to the file, what the caller gets.

use super::*;
use format::index::{BUCKET_BYTES, BUCKETS_START};

fn committed() -> (Arc<TestDisk>, Vec<Fingerprint>) {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let fingerprints = fill(&index, &mut Dice(11), 4000);
    assert!(index.commit(&covers(15)).unwrap());
    (disk, fingerprints)
}

fn found_after(change: impl FnOnce(&mut Vec<u8>)) -> IndexFound {
    let (disk, _) = committed();
    disk.bytes(PATH, change);
    let read_only = open_read_only(&disk, MIB);
    let opened = open(&disk, MIB);
    assert_eq!(read_only.found, opened.found);
    for opened in [&read_only, &opened] {
        assert_eq!(
            opened.coverage.is_empty(),
            opened.found != IndexFound::Loaded
        );
    }
    if opened.found != IndexFound::Loaded {
        assert_eq!(opened.index.counters().entries, 0);
        assert_eq!(open(&disk, MIB).found, IndexFound::Loaded, "made anew");
    }
    opened.found
}

#[test]
fn a_file_that_cannot_be_believed_is_empty() {
    assert_eq!(found_after(|_| {}), IndexFound::Loaded);
    assert_eq!(found_after(Vec::clear), IndexFound::Damaged);
    assert_eq!(found_after(|b| b.truncate(4096)), IndexFound::Unclean);
    assert_eq!(found_after(|b| b.truncate(100_000)), IndexFound::Damaged);
    assert_eq!(
        found_after(|b| b.truncate(b.len() - 1)),
        IndexFound::Damaged
    );
    assert_eq!(found_after(|b| b.fill(0)), IndexFound::Damaged);
    assert_eq!(found_after(|b| b.fill(0xff)), IndexFound::Damaged);
    assert_eq!(
        found_after(|b| *b.last_mut().unwrap() ^= 1),
        IndexFound::Damaged,
        "tail"
    );
    let version = |b: &mut Vec<u8>| [10, 4106].iter().for_each(|at| b[*at] = 9);
    assert_eq!(found_after(version), IndexFound::Version);
}

#[test]
fn a_torn_header_leaves_its_predecessor_which_says_unclean() {
    // The last header of a commit is clean, the one before it is not.
    let slots = [0, 4096].map(|at| found_after(|b| b[at + 100] ^= 1));
    assert!(
        slots.contains(&IndexFound::Unclean) && slots.contains(&IndexFound::Loaded),
        "{slots:?}"
    );
}

#[test]
fn another_pool_finds_nothing() {
    let (disk, fingerprints) = committed();
    let disk_too = Arc::clone(&disk) as Arc<dyn Disk>;
    let other = FingerprintIndex::open_read_only(disk_too, PATH, PoolId([4; 16]), MIB);
    assert_eq!(
        (other.found, other.coverage),
        (IndexFound::Foreign, Coverage::new())
    );
    assert!(
        fingerprints
            .iter()
            .all(|fp| lookup(&other.index, fp).is_empty())
    );
}

#[test]
fn a_flipped_bucket_is_noticed_and_its_loss_is_kept_in_the_file() {
    let (disk, fingerprints) = committed();
    disk.bytes(PATH, |b| {
        b[BUCKETS_START as usize + 5 * BUCKET_BYTES + 50] ^= 1
    });
    let Opened {
        index,
        coverage,
        found,
    } = open(&disk, MIB);
    assert_eq!(
        (found, coverage),
        (IndexFound::Loaded, covers(15)),
        "nobody looked yet"
    );
    let misses = fingerprints
        .iter()
        .filter(|fp| lookup(&index, fp).is_empty())
        .count();
    assert!((30..100).contains(&misses), "one bucket of 64: {misses}");
    assert!(index.is_damaged());
    assert!(index.counters().bad_buckets > 0);
    assert!(!index.commit(&covers(15)).unwrap());
    drop(index);

    let Opened {
        index,
        coverage,
        found,
    } = open(&disk, MIB);
    assert_eq!(
        (found, coverage),
        (IndexFound::Loaded, Coverage::new()),
        "nothing is promised"
    );
    for (n, fingerprint) in (0..).zip(&fingerprints) {
        index.insert(fingerprint, location(n)).unwrap();
    }
    index.commit(&covers(15)).unwrap();
    drop(index);
    let Opened { index, .. } = open(&disk, MIB);
    assert_holds(&index, &fingerprints);
    // The count does not know what was lost.
    assert_eq!(index.counters().entries, 4000 + misses as u64);
}

#[test]
fn a_bad_bucket_is_noticed_by_a_merge_and_by_a_growth() {
    for count in [200, 30_000] {
        let (disk, fingerprints) = committed();
        let index = open(&disk, MIB).index;
        disk.bytes(PATH, |b| {
            for bucket in 0..64 {
                b[BUCKETS_START as usize + bucket * BUCKET_BYTES + 2000] ^= 0x10;
            }
        });
        let mut dice = Dice(12);
        for n in 0..count {
            index
                .insert(&dice.fingerprint(), location(n + 4000))
                .unwrap();
        }
        assert!(!index.commit(&covers(20)).unwrap());
        assert!(index.is_damaged());
        assert!(lookup(&index, &fingerprints[0]).is_empty());
        drop(index);
        assert_eq!(open(&disk, MIB).coverage, Coverage::new());
    }
}

#[test]
fn a_file_cut_beneath_an_open_index_is_damage_and_no_error() {
    let (disk, fingerprints) = committed();
    let index = open(&disk, MIB).index;
    disk.bytes(PATH, |b| b.truncate(10_000));
    assert!(fingerprints.iter().any(|fp| lookup(&index, fp).is_empty()));
    assert!(index.is_damaged());
}

#[test]
fn a_reader_never_writes_and_keeps_what_it_inserts_in_memory() {
    let (disk, fingerprints) = committed();
    let index = open_read_only(&disk, MIB).index;
    let writes = disk.counts.writes.load(Relaxed);
    let mut dice = Dice(13);
    let more: Vec<_> = (0..20_000).map(|_| dice.fingerprint()).collect();
    more.iter()
        .for_each(|fp| index.insert(fp, location(7)).unwrap());
    assert!(!index.commit(&covers(99)).unwrap());
    assert_holds(&index, &fingerprints);
    assert!(lookup(&index, &more[0]).contains(&location(7)));
    let counters = index.counters();
    assert!(counters.dropped > 0 && counters.pending_entries + counters.dropped == 20_000);
    index.reset(10);
    assert!(lookup(&index, &more[0]).is_empty());
    assert_eq!(disk.counts.writes.load(Relaxed), writes);
    assert_eq!(open(&disk, MIB).coverage, covers(15));

    disk.remove(PATH).unwrap();
    let Opened { index, found, .. } = open_read_only(&disk, MIB);
    assert_eq!(found, IndexFound::Missing);
    more.iter()
        .take(5000)
        .for_each(|fp| index.insert(fp, location(7)).unwrap());
    assert!(lookup(&index, &more[0]).contains(&location(7)));
    assert!(!disk.exists(PATH));
}

#[test]
fn the_whole_cache_directory_may_vanish() {
    let (disk, fingerprints) = committed();
    disk.remove(PATH).unwrap();
    disk.remove("cache").unwrap();
    let Opened { index, found, .. } = open(&disk, MIB);
    assert_eq!(found, IndexFound::Missing);
    assert!(lookup(&index, &fingerprints[0]).is_empty());
}

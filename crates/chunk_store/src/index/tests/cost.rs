//! Costs of the index: reads, writes, syncs, bytes and false positives; never time.

use super::*;
use format::index::{BUCKET_BYTES, BUCKET_ENTRIES, ENTRY_BYTES};
use media::IoOrigin;
use units::Origin;

const COUNT: u64 = 1_000_000;

#[test]
fn a_million_entries_are_small_precise_and_one_read_away() {
    let disk = TestDisk::new();
    let memory = 16 * MIB;
    let index = open(&disk, memory).index;
    let mut dice = Dice(21);
    let fingerprints = fill(&index, &mut dice, COUNT);
    assert!(index.commit(&covers(COUNT / 256)).unwrap());
    drop(index);

    let index = open(&disk, memory / 4).index;
    let before = disk.counts.reads.load(Relaxed);
    assert_holds(&index, &fingerprints);
    let counters = index.counters();
    assert_eq!(counters.probes, COUNT);
    assert!(counters.device_reads <= COUNT, "at most one read a lookup");
    assert_eq!(
        counters.device_reads,
        disk.counts.reads.load(Relaxed) - before
    );
    assert_eq!((counters.entries, counters.dropped), (COUNT, 0));
    assert!(counters.overflow_entries <= COUNT / 10_000);
    assert!(counters.memory_bytes <= memory as u64 / 4);
    let entry_bytes = BUCKET_BYTES as f64 / BUCKET_ENTRIES as f64 / 0.35;
    assert!(ENTRY_BYTES == 12 && entry_bytes < 34.5);
    let slack = 64 << 10;
    assert!(counters.file_bytes as f64 <= COUNT as f64 * entry_bytes + slack as f64);

    let wrong = (0..COUNT)
        .filter(|_| !lookup(&index, &dice.fingerprint()).is_empty())
        .count();
    assert!(wrong < COUNT as usize / 10_000, "{wrong} false positives");
    assert!(index.is_precise());
}

#[test]
fn a_hot_index_reads_nothing() {
    let disk = TestDisk::new();
    let index = open(&disk, 8 * MIB).index;
    let fingerprints = fill(&index, &mut Dice(22), 20_000);
    index.commit(&covers(1)).unwrap();
    assert_holds(&index, &fingerprints);
    let reads = disk.counts.reads.load(Relaxed);
    assert_holds(&index, &fingerprints);
    assert_eq!(disk.counts.reads.load(Relaxed), reads);
}

/// Garbage collection looks every chunk up. Clients must not need a device read for each lookup
/// afterwards.
#[test]
fn what_clients_look_up_stays_in_memory_while_maintenance_goes_through_all() {
    let disk = TestDisk::new();
    let index = open(&disk, 8 * MIB).index;
    let fingerprints = fill(&index, &mut Dice(27), 60_000);
    index.commit(&covers(1)).unwrap();
    drop(index);
    let index = open(&disk, MIB).index;
    // Half a MiB of buckets is in memory. Clients return to a quarter of that.
    let hot = |fingerprint: &&Fingerprint| fingerprint.0[7] < 64;
    let clients: Vec<_> = fingerprints.iter().filter(hot).copied().collect();
    let look = |fingerprints: &[Fingerprint]| {
        let before = disk.counts.reads.load(Relaxed);
        for fingerprint in fingerprints {
            assert!(!lookup(&index, fingerprint).is_empty());
        }
        disk.counts.reads.load(Relaxed) - before
    };
    look(&clients);
    let again = look(&clients);
    for origin in [Origin::Collect, Origin::Scrub, Origin::Replication] {
        let _task = IoOrigin::of(origin).begin();
        assert!(look(&fingerprints) > 200, "not all are in memory");
    }
    assert_eq!(look(&clients), again);
}

#[test]
fn a_commit_costs_three_syncs_and_an_idle_one_none() {
    let disk = TestDisk::new();
    let index = open(&disk, 2 * MIB).index;
    fill(&index, &mut Dice(23), 100);
    let count = |work: &dyn Fn()| {
        let counters = [&disk.counts.reads, &disk.counts.writes, &disk.counts.syncs];
        let before = counters.map(|c| c.load(Relaxed));
        work();
        let after = counters.map(|c| c.load(Relaxed));
        [0, 1, 2].map(|n| after[n] - before[n])
    };
    let commit = |next| assert!(index.commit(&covers(next)).unwrap());
    let [reads, writes, syncs] = count(&|| commit(1));
    // 64 buckets are 2 windows of 32. The other writes are header, tail, header.
    assert!(
        reads <= 4 && writes <= 4 + 3,
        "{reads} reads, {writes} writes"
    );
    assert_eq!(syncs, 3);
    assert_eq!(count(&|| commit(1)), [0, 0, 0], "nothing new");
    assert_eq!(count(&|| commit(2)), [0, 3, 3], "coverage alone");
}

#[test]
fn memory_stays_within_the_budget_and_the_file_follows_the_entries() {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let mut dice = Dice(24);
    let mut most = 0;
    for n in 0..200_000 {
        index.insert(&dice.fingerprint(), location(n)).unwrap();
        if n % 1000 == 0 {
            lookup(&index, &dice.fingerprint());
            most = most.max(index.counters().memory_bytes);
        }
    }
    assert!(index.commit(&covers(1)).unwrap());
    assert!(most <= MIB as u64, "{most}");
    let counters = index.counters();
    let load = counters.entries as f64 * 12.0 / counters.file_bytes as f64;
    assert!((0.34..0.71).contains(&load), "{load}");
}

#[test]
fn inserting_everything_again_does_not_grow_the_file() {
    let disk = TestDisk::new();
    let index = open(&disk, 2 * MIB).index;
    let fingerprints = fill(&index, &mut Dice(25), 14_000);
    index.commit(&covers(1)).unwrap();
    let before = index.counters();
    for _ in 0..3 {
        for (n, fingerprint) in (0..).zip(&fingerprints) {
            index.insert(fingerprint, location(n)).unwrap();
        }
        index.commit(&covers(1)).unwrap();
    }
    assert_eq!(index.counters().entries, before.entries);
    assert_eq!(index.counters().file_bytes, before.file_bytes);
}

#[test]
fn full_buckets_overflow_grow_and_stay_bounded() {
    let disk = TestDisk::new();
    let index = open(&disk, 4 * MIB).index;
    let mut dice = Dice(26);
    let mut fingerprints = Vec::new();
    for n in 0..6000 {
        // All fall into one bucket of the first 64.
        let mut fingerprint = dice.fingerprint();
        fingerprint.0[7] = 0;
        index.insert(&fingerprint, location(n)).unwrap();
        fingerprints.push(fingerprint);
    }
    index.commit(&covers(1)).unwrap();
    let counters = index.counters();
    let overflow = 4 * MIB as u64 / 32 / 40;
    assert!(counters.overflow_entries <= overflow);
    assert_eq!(counters.entries + counters.dropped, 6000);
    let found = (0..)
        .zip(&fingerprints)
        .filter(|(n, fp)| lookup(&index, fp).contains(&location(*n)));
    assert_eq!(found.count() as u64 + counters.dropped, 6000);
}

#[test]
fn few_entries_for_a_large_file_wait() {
    let shares = shares::Shares::of(256 * MIB);
    let buckets = |entries: u64| shares::first_size(entries).buckets();
    let may_wait =
        |pending, containers, entries| shares.may_wait(pending, containers, buckets(entries));
    // A window has 256 buckets. 1 << 20 entries have 4096 to 8192 buckets: 16 to 32 windows.
    assert!(!may_wait(4000, 4, 1 << 20), "64 reads and writes: merged");
    assert!(may_wait(4000, 1, 1 << 20), "one directory is less");
    assert!(!may_wait(1, 1, 1 << 30), "one bucket");
    assert!(may_wait(4000, 60, 1 << 30), "4000 buckets");
    assert!(!may_wait(0, 0, 1 << 30), "nothing but the coverage");
    assert!(
        may_wait(100_000, 400, 1 << 30),
        "many directories, but sparse in a large file"
    );
    assert!(
        !may_wait(100_000, 400, 1 << 26),
        "many directories, and dense enough"
    );
    assert!(!may_wait(700_000, 400, 1 << 34), "memory would be full");
}

/// A server's checkpoints store a container or two each.
#[test]
fn commits_of_few_containers_merge_now_and_then() {
    let disk = TestDisk::new();
    let mut dice = Dice(33);
    let index = open(&disk, 16 * MIB).index;
    fill(&index, &mut dice, COUNT / 2);
    index.commit(&covers(1)).unwrap();
    let before = disk.counts.writes.load(Relaxed);
    let merged = (2..42).filter(|next| {
        fill(&index, &mut dice, 300);
        index.commit(&covers(*next)).unwrap()
    });
    let merged = merged.count();
    assert!((4..=20).contains(&merged), "{merged} of 40");
    let writes = disk.counts.writes.load(Relaxed) - before;
    // Each of the 12,000 entries would touch a bucket of its own.
    assert!(writes <= 6000, "{writes} writes");
}

#[test]
fn a_first_size_needs_no_growth() {
    for entries in [0, 1, 15_231, 15_233, 1_000_000, 1 << 34] {
        let size = shares::first_size(entries);
        assert_eq!(size::size_for(size, entries, 0), size);
    }
    assert_eq!(shares::first_size(0).log2(), 6);
    let disk = TestDisk::new();
    let index = open(&disk, 4 * MIB).index;
    index.reset(100_000);
    let bytes = index.counters().file_bytes;
    let fingerprints = fill(&index, &mut Dice(27), 100_000);
    index.commit(&covers(1)).unwrap();
    assert_holds(&index, &fingerprints);
    assert!(index.counters().file_bytes - bytes < 1000, "only the tail");
}

/// Writing a bucket drops entries of deleted containers, with the same reads and writes.
#[test]
fn what_is_deleted_leaves_with_the_next_writes_and_costs_none() {
    let work = |forgets: bool| {
        let disk = TestDisk::new();
        let index = open(&disk, 2 * MIB).index;
        let mut dice = Dice(29);
        let fingerprints = fill(&index, &mut dice, 12_000);
        index.commit(&covers(1)).unwrap();
        // The first half of the containers. Later chunks go into other containers.
        let half = 6_144;
        if forgets {
            index.forget((0..half / 256).map(|n| ContainerId::new(WriterId(1), n)));
        }
        let later: Vec<_> = (0..6_000).map(|_| dice.fingerprint()).collect();
        let before = [&disk.counts.reads, &disk.counts.writes].map(|c| c.load(Relaxed));
        for (n, fingerprint) in (20_000..).zip(&later) {
            index.insert(fingerprint, location(n)).unwrap();
        }
        index.commit(&covers(2)).unwrap();
        let after = [&disk.counts.reads, &disk.counts.writes].map(|c| c.load(Relaxed));
        for (n, fingerprint) in (half..).zip(&fingerprints[half as usize..]) {
            assert!(
                lookup(&index, fingerprint).contains(&location(n)),
                "chunk {n}"
            );
        }
        for (n, fingerprint) in (20_000..).zip(&later) {
            assert!(
                lookup(&index, fingerprint).contains(&location(n)),
                "chunk {n}"
            );
        }
        let deleted = &fingerprints[..half as usize];
        let known = deleted
            .iter()
            .filter(|f| !lookup(&index, f).is_empty())
            .count();
        let counters = index.counters();
        drop(index);
        let reopened = open(&disk, MIB).index.counters();
        assert_eq!(reopened.entries, counters.entries);
        let costs = [0, 1].map(|n| after[n] - before[n]);
        (costs, counters.entries, known)
    };
    let (usual, all, known) = work(false);
    assert_eq!((all, known), (18_000, 6_144));
    let (costs, left, known) = work(true);
    assert_eq!(
        (left, known),
        (18_000 - 6_144, 0),
        "every bucket was written"
    );
    assert!(
        costs.iter().zip(usual).all(|(now, then)| *now <= then),
        "{costs:?}, {usual:?}"
    );
}

/// The number of places shows that one may have been dropped. It stays, whichever containers are
/// deleted.
#[test]
fn a_chunk_that_was_stored_too_often_is_not_believed_to_be_known_in_full() {
    let disk = TestDisk::new();
    let index = open(&disk, MIB).index;
    let mut dice = Dice(31);
    let chunk = dice.fingerprint();
    let places = 2 * crate::index::delta::PLACES_MAX as u64;
    for n in 0..places {
        index.insert(&chunk, location(n * 256)).unwrap();
        index.commit(&covers(n)).unwrap();
    }
    // All known places: the first ones were dropped.
    index.forget((1..places).map(|n| ContainerId::new(WriterId(1), n)));
    fill(&index, &mut dice, 5_000);
    index.commit(&covers(places)).unwrap();
    assert!(!index.knows_all(&lookup(&index, &chunk)));
}

/// A checkpoint or a backup asks for chunks that the pool does not have, while memory holds a small
/// part of the index.
#[test]
fn new_chunks_cost_few_reads_after_the_first_and_what_is_there_is_found() {
    let disk = TestDisk::new();
    let mut dice = Dice(31);
    let index = open(&disk, 16 * MIB).index;
    let fingerprints = fill(&index, &mut dice, COUNT / 2);
    index.commit(&covers(1)).unwrap();
    drop(index);
    let index = open(&disk, 4 * MIB).index;
    let buckets = index.counters().file_bytes / BUCKET_BYTES as u64;
    assert!(buckets as usize * BUCKET_BYTES > 8 * MIB, "memory is small");
    let new_ones = |count: u64, dice: &mut Dice| {
        let before = disk.counts.reads.load(Relaxed);
        for _ in 0..count {
            lookup(&index, &dice.fingerprint());
        }
        disk.counts.reads.load(Relaxed) - before
    };
    let first = new_ones(20_000, &mut dice);
    assert!(first < 20_000 / 4, "{first} reads of {buckets} buckets");
    // Filters of 128 bytes, 36 % full: 2 of 100 pass.
    let again = new_ones(20_000, &mut dice);
    assert!(again < 20_000 / 25, "{again} reads");
    assert!(index.counters().denials > 30_000);
    assert!(index.counters().memory_bytes <= 4 * MIB as u64);
    assert_holds(&index, &fingerprints);

    // Merges and a growth keep the filters.
    let more: Vec<_> = (0..COUNT / 2).map(|_| dice.fingerprint()).collect();
    for (n, fingerprint) in (0..).zip(&more) {
        index.insert(fingerprint, location(n)).unwrap();
    }
    index.commit(&covers(2)).unwrap();
    assert!(index.counters().file_bytes / BUCKET_BYTES as u64 > buckets);
    let grown = new_ones(20_000, &mut dice);
    assert!(grown < 20_000 / 5, "{grown} reads");
    assert_holds(&index, &fingerprints);
    assert_holds(&index, &more);
}

/// No message tells a reader of what another process writes.
#[test]
fn a_reader_beside_a_writer_finds_what_was_not_there_before() {
    let disk = TestDisk::new();
    let mut dice = Dice(32);
    let index = open(&disk, 4 * MIB).index;
    fill(&index, &mut dice, 100_000);
    index.commit(&covers(1)).unwrap();
    let reader = open_read_only(&disk, MIB).index;
    let new: Vec<_> = (0..10_000).map(|_| dice.fingerprint()).collect();
    let found = || {
        let has = |fingerprint: &&Fingerprint| !lookup(&reader, fingerprint).is_empty();
        new.iter().filter(has).count()
    };
    assert!(found() < 10);
    for (n, fingerprint) in (0..).zip(&new) {
        index.insert(fingerprint, location(n)).unwrap();
    }
    index.commit(&covers(2)).unwrap();
    // Buckets that the reader has in memory are old.
    assert!(found() > 5000);
}

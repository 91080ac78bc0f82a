//! Replication between real pools on simulated disks: what is sent, what is read, what arrives.

use crate::copies;
use crate::small_volumes;

use chunking::Compression;
use copies::{copy, copy_all, copy_options, open_receiver, receiver, replication};
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use maintenance::{MaintenanceTask, TaskStep};
use media::Disk;
use replication::{
    CopiedSnapshot, CopyCounts, CopyError, CopyLimits, CopyNews, CopyOptions, Replication,
};
use sim::pool_histories::{check_all, data_regions};
use sim::{Damage, SimDisk};
use small_volumes::{small, write};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, ChunkRun, GrowingObject, IMAGE_REGION_BYTES, OpenMode, Pool, WriteCounts};
use testkit::specimen::{Specimen, noise, options, store_image, store_stream};
use units::Fingerprint;
use volume::Volume;
use volumes::Volumes;

const WITH: Compression = Compression::Zstd(1);

fn source(seed: u64) -> (Specimen, Arc<SimDisk>) {
    let of = Specimen::new(seed, true);
    let disk = of.disk();
    (of, disk)
}

fn open_source((of, disk): &(Specimen, Arc<SimDisk>)) -> Arc<Pool> {
    Arc::new(of.open(disk, 7, OpenMode::Write).unwrap())
}

/// Compares every byte, name and attribute. Fingerprints are each pool's own.
fn assert_same(pools: [&Pool; 2], roots: [&ObjectRoot; 2], is_tree: bool) {
    let [here, there] = [0, 1].map(|n| pools[n].reader());
    if !is_tree {
        let read = |n: usize| pools[n].reader().read_whole(roots[n], 1 << 30).unwrap();
        assert!(read(0) == read(1), "other bytes");
        return;
    }
    let (here, there) = (here.directory(roots[0]), there.directory(roots[1]));
    let (here, there) = (here.unwrap(), there.unwrap());
    assert_eq!(here.len(), there.len());
    for (a, b) in here.iter().zip(&there) {
        let kind = a.kind.clone();
        assert_eq!(*a, Entry { kind, ..b.clone() });
        match (&a.kind, &b.kind) {
            (
                EntryKind::File { content: x, sparse },
                EntryKind::File {
                    content: y,
                    sparse: s,
                },
            ) => {
                assert_eq!(sparse, s);
                assert_same(pools, [x, y], false);
            }
            (EntryKind::Directory { content: x }, EntryKind::Directory { content: y }) => {
                assert_same(pools, [x, y], true);
            }
            (x, y) => assert_eq!(x, y),
        }
    }
}

/// Asserts that all snapshots are there, with names and contents, and the pool is sound.
fn assert_copied(from: &Pool, to: &Pool) {
    let there = to.snapshots().unwrap();
    for here in from.snapshots().unwrap() {
        let found = there
            .iter()
            .find(|s| s.key() == here.key())
            .expect("copied");
        assert_same(
            [from, to],
            [&here.root, &found.root],
            here.kind == SnapshotKind::Tree,
        );
        let record = Snapshot {
            root: here.root,
            added_bytes: here.added_bytes,
            ..found.clone()
        };
        assert_eq!(record, here);
    }
    assert_sound(to);
}

fn assert_sound(pool: &Pool) {
    let report = check_all(pool).unwrap();
    assert!(report.is_sound(), "{:?}", report.damage);
}

#[test]
fn a_pool_with_other_keys_gets_all_of_it_once() {
    let world = source(1);
    let (from, disk) = (open_source(&world), receiver(50));
    let to = open_receiver(&disk, 51);
    assert!(!from.shares_fingerprints_with(&to));
    let copied = copy_all(&from, &to);
    assert_eq!(copied.len(), world.0.truths.len());
    assert_copied(&from, &to);
    // The recipe equals the one of storing it there: a backup of the same data finds all of it.
    let before = to.record().stored_bytes;
    world.0.store_again(&to);
    let added = to.record().stored_bytes - before;
    assert!(added < 40_000, "{added} bytes were stored again");
    assert!(copy_all(&from, &to).is_empty());
}

#[test]
fn what_did_not_change_since_the_last_copy_is_not_read() {
    let world = source(2);
    let (from, disk) = (open_source(&world), receiver(60));
    let image = noise(5, 3 << 20);
    let stream = noise(6, 2 << 20);
    store_image(&from, "large", &image, WITH);
    store_stream(&from, "long", &stream);
    copy_all(&from, &open_receiver(&disk, 61));
    let mut changed = image.clone();
    changed[1_500_000] ^= 1;
    changed.truncate((2 << 20) + 100);
    store_image(&from, "large", &changed, WITH);
    // Longer than before, with zeroes at the end.
    changed.resize(5 << 20, 0);
    store_image(&from, "large", &changed, WITH);
    let inserted = [&stream[..700_000], b"inserted", &stream[700_000..]].concat();
    store_stream(&from, "long", &inserted);
    let to = open_receiver(&disk, 62);
    for copied in copy_all(&from, &to) {
        let counts = copied.counts;
        assert!(counts.read_bytes <= 40_000, "{copied:?}");
        assert!(copied.stored.new_bytes <= 60_000, "{copied:?}");
    }
    assert_copied(&from, &to);
}

#[test]
fn a_pool_of_the_same_domain_is_asked_for_chunks() {
    let world = source(3);
    let from = open_source(&world);
    // The pool as it was one commit earlier, copied to another disk.
    let disk = SimDisk::unrecorded(world.0.older.clone());
    let to = Arc::new(world.0.open(&disk, 9, OpenMode::Write).unwrap());
    assert!(from.shares_fingerprints_with(&to));
    let copied = copy_all(&from, &to);
    assert_eq!(copied.len(), world.0.newest);
    for copied in &copied {
        assert_eq!(copied.counts.read_bytes, copied.stored.logical_bytes);
        assert!(copied.counts.read_bytes < copied.snapshot.logical_bytes.max(1 << 20) / 2);
    }
    let roots = |pool: &Pool| -> Vec<_> {
        let all = pool.snapshots().unwrap();
        all.into_iter().map(|s| (s.id, s.root)).collect()
    };
    assert_eq!(roots(&from), roots(&to));
    assert_copied(&from, &to);
}

#[test]
fn a_dry_run_counts_and_stores_nothing() {
    let world = source(4);
    let (from, disk) = (open_source(&world), receiver(70));
    let to = open_receiver(&disk, 71);
    let before = (to.record(), disk.counts().writes, disk.counts().names);
    let planned = copy_all(&from, &Arc::new(to.dry_run(64 << 20).unwrap()));
    let after = (to.record(), disk.counts().writes, disk.counts().names);
    assert_eq!(after, before);
    let done = copy_all(&from, &to);
    assert_eq!(planned.len(), done.len());
    for (planned, done) in planned.iter().zip(&done) {
        assert_eq!(planned.snapshot, done.snapshot);
        assert_eq!(planned.counts, done.counts);
        assert_eq!(planned.stored, done.stored);
    }
    assert_copied(&from, &to);
}

/// Copies all snapshots that can be read. Returns them, the number of others, and the totals.
fn copy_readable(
    from: &Arc<Pool>,
    to: &Arc<Pool>,
) -> (Vec<CopiedSnapshot>, usize, (CopyCounts, WriteCounts)) {
    let mut run = replication(from, to);
    let (mut copied, mut failed) = (Vec::new(), 0);
    for snapshot in from.snapshots().unwrap() {
        if run.is_there(&snapshot) {
            continue;
        }
        match copy(&mut run, &snapshot) {
            Ok(one) => copied.push(one),
            Err(CopyError::Source(e)) => {
                assert!(e.is_corruption(), "{e}");
                run.give_up().unwrap();
                failed += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }
    (copied, failed, run.counts())
}

/// A snapshot that cannot be read to its end leaves containers that the next session adopts.
#[test]
fn a_dry_run_counts_what_abandoned_copies_left() {
    let world = source(13);
    let from = open_source(&world);
    let before = containers(&world.1);
    let stream = noise(14, 300_000);
    store_stream(&from, "damaged", &stream);
    let damaged: Vec<_> = containers(&world.1)
        .into_iter()
        .filter(|container| !before.contains(container))
        .collect();
    // Both share chunks with what was sent before the damage was met.
    let shares = [&stream[..100_000], b"inserted"].concat();
    store_stream(&from, "shares", &shares);
    store_stream(&from, "again", &[b"before", &shares[..]].concat());
    let mut names: Vec<_> = damaged.iter().map(|(name, _)| name).collect();
    names.sort();
    world.1.remove(names[names.len() / 2 + 1]).unwrap();
    drop(from);
    let from = open_source(&world);
    // Into an empty pool, and into one that has containers.
    for has_some in [false, true] {
        let disk = receiver(160);
        let to = open_receiver(&disk, 161);
        if has_some {
            store_stream(&to, "other", &noise(15, 50_000));
        }
        let planned = copy_readable(&from, &Arc::new(to.dry_run(64 << 20).unwrap()));
        let done = copy_readable(&from, &to);
        assert_eq!(done.1, 1, "damaged");
        for (planned, done) in planned.0.iter().zip(&done.0) {
            assert_eq!(planned.snapshot, done.snapshot);
            assert_eq!((planned.counts, planned.stored), (done.counts, done.stored));
        }
        assert_eq!((planned.1, planned.2), (done.1, done.2));
        assert_sound(&to);
    }
}

#[test]
fn what_was_sent_before_an_interruption_is_found() {
    let world = source(5);
    let (from, disk) = (open_source(&world), receiver(80));
    let all = from.snapshots().unwrap();
    let mut stored = 0;
    for (n, snapshot) in (0..).zip(all.iter().cycle().take(12)) {
        let to = open_receiver(&disk, 81 + n);
        let mut run = replication(&from, &to);
        if run.is_there(snapshot) {
            continue;
        }
        run.begin(snapshot).unwrap();
        for _ in 0..=n {
            let _ = run.step(0, 10_000).unwrap();
        }
        // Half of them are killed: data in containers is found.
        if n % 2 == 0 {
            run.give_up().unwrap();
        }
        stored += run.counts().1.new_bytes;
    }
    assert!(stored > 0);
    let to = open_receiver(&disk, 99);
    copy_all(&from, &to);
    assert_copied(&from, &to);
    let undisturbed = open_receiver(&receiver(100), 101);
    copy_all(&from, &undisturbed);
    let (a, b) = (to.space().unwrap(), undisturbed.space().unwrap());
    assert_eq!(a.duplicate_bytes, 0);
    // Except for the catalog, which names more containers.
    assert!(a.live_bytes.abs_diff(b.live_bytes) < 1000, "{a:?} {b:?}");
}

/// Containers and their sizes, the largest last.
fn containers(disk: &Arc<SimDisk>) -> Vec<(String, u64)> {
    let mut containers = disk.image().files_below("containers");
    containers.sort_by_key(|(_, bytes)| *bytes);
    containers
}

/// Flips a bit in the middle of the largest container.
fn flip(disk: &Arc<SimDisk>) {
    let (name, bytes) = containers(disk).pop().unwrap();
    let middle = Damage::FlipBit(8 * (bytes / 2));
    disk.damage(&name, &middle).unwrap();
}

#[test]
fn what_was_damaged_there_is_stored_anew() {
    let world = source(6);
    let (from, disk) = (open_source(&world), receiver(110));
    copy_all(&from, &open_receiver(&disk, 111));
    flip(&disk);
    let to = open_receiver(&disk, 112);
    // The damage is not known yet.
    assert!(copy_all(&from, &to).is_empty());
    let all = CheckDepth::ALL;
    let go_on = &mut |_, _| ControlFlow::Continue(());
    to.repair(all, options(WITH), go_on).unwrap();
    let before = to.snapshots().unwrap();
    let again = copy_all(&from, &to);
    assert_eq!(again.len(), world.0.truths.len());
    let stored: u64 = again.iter().map(|c| c.stored.new_bytes).sum();
    assert!(stored > 0 && stored < 60_000, "{stored}");
    assert_eq!(to.snapshots().unwrap(), before);
    assert_copied(&from, &to);
}

#[test]
fn newer_states_do_not_lean_on_what_is_damaged_there() {
    let world = source(11);
    let older = SimDisk::unrecorded(world.0.older.clone());
    let before = Arc::new(world.0.open(&older, 9, OpenMode::Read).unwrap());
    let stream = noise(12, 300_000);
    let from = open_source(&world);
    store_stream(&from, "long", &stream);
    let changed = [&stream[..100_000], b"inserted", &stream[100_000..]].concat();
    // One container after the other, in a receiver of its own.
    for n in 0..100 {
        let disk = receiver(150);
        let to = open_receiver(&disk, 151);
        copy_all(&before, &to);
        copy_all(&from, &to);
        let last = from.snapshots().unwrap().pop().unwrap();
        drop(to);
        let Some((name, bytes)) = containers(&disk).into_iter().rev().nth(n) else {
            assert!(n > 5, "{n} containers");
            break;
        };
        disk.damage(&name, &Damage::FlipBit(8 * (bytes / 3)))
            .unwrap();
        let to = open_receiver(&disk, 152);
        let all = CheckDepth::ALL;
        let go_on = &mut |_, _| ControlFlow::Continue(());
        to.repair(all, options(WITH), go_on).unwrap();
        // For everything there is a newer state, and nothing else is copied again.
        let newer = store_stream(&from, "long", &changed).snapshot;
        let mut run = replication(&from, &to);
        let copied = copy(&mut run, &newer).unwrap().snapshot;
        let arrived = to.reader().read_whole(&copied.root, 1 << 30).unwrap();
        assert!(arrived == changed, "{name}");
        from.change_snapshots(&[], &[newer]).unwrap();
        assert_eq!(from.snapshots().unwrap().pop().unwrap(), last);
        copy_all(&from, &to);
        drop((run, to));
        // The next writer reports a lost commit for the last time.
        assert_copied(&from, &open_receiver(&disk, 153));
    }
}

#[test]
fn damage_here_is_reported_and_spares_the_others() {
    let world = source(7);
    flip(&world.1);
    let (from, disk) = (open_source(&world), receiver(120));
    let to = open_receiver(&disk, 121);
    let (copied, failed, _) = copy_readable(&from, &to);
    let copied = copied.len();
    assert!(failed > 0 && copied > 0, "{failed} failed, {copied} copied");
    assert_eq!(to.snapshots().unwrap().len(), copied);
    assert_sound(&to);
}

#[test]
fn what_is_in_memory_goes_first_and_what_is_dirty_never() {
    const BYTES: usize = 6 << 20;
    let disk = small_volumes::made();
    let held = Arc::new(small_volumes::open(&disk, 3));
    let old = noise(9, BYTES);
    held.create("disk", BYTES as u64, 12).unwrap();
    write(&held.volume("disk").unwrap(), 0, &old);
    let snapshot = held.snapshot("disk", "monday").unwrap();
    drop(held);
    // A new process has nothing in memory. Then a client reads the last MiB and overwrites the
    // first.
    let pool = Arc::new(testkit::specimen::open(&disk, 4, None, OpenMode::Write).unwrap());
    let held = Arc::new(Volumes::open(pool, &small()).unwrap());
    let live = held.volume("disk").unwrap();
    let mut read = vec![0; 1 << 20];
    live.read(
        small_volumes::CONTEXT,
        (BYTES - (1 << 20)) as u64,
        &mut read,
    )
    .unwrap();
    write(&live, 0, &noise(10, 300_000));
    let there = receiver(130);
    let to = open_receiver(&there, 131);
    let from = Arc::clone(held.pool());
    let options = CopyOptions {
        volumes: Some(Arc::clone(&held)),
        ..copy_options()
    };
    let all = from.snapshots().unwrap();
    let mut run = Replication::new(Arc::clone(&from), all, Arc::clone(&to), options).unwrap();
    run.begin(&snapshot).unwrap();
    // The part in memory is copied first.
    let mut steps = 0;
    while run.counts().0.cached_bytes < 1 << 20 {
        assert!(matches!(
            run.step(0, 1 << 20).unwrap(),
            TaskStep::Worked { .. }
        ));
        steps += 1;
        assert!(steps < 4, "{:?}", run.counts().0);
    }
    let before = run.counts().0.read_bytes;
    assert!(before <= 1 << 20, "{before} bytes were read before it");
    let copied = loop {
        match run.step(0, 1 << 20).unwrap() {
            TaskStep::Worked { .. } | TaskStep::News(CopyNews::Sent(_)) => {}
            TaskStep::News(CopyNews::Copied(copied)) => break copied,
            other => panic!("{other:?}"),
        }
    };
    let counts = copied.counts;
    assert_eq!(counts.cached_bytes + counts.read_bytes, BYTES as u64);
    let arrived = to.reader().read_whole(&copied.snapshot.root, 1 << 30);
    assert!(arrived.unwrap() == old);
}

/// A disk of 1100 MiB with three levels of nodes, mostly holes.
fn wide(pool: &Pool, seed: u64, base: Option<&Snapshot>) -> Snapshot {
    const LEN: u64 = 1100 << 20;
    let mut session = pool.begin(options(WITH)).unwrap();
    let mut object = match base {
        Some(base) => GrowingObject::over(base.root, LEN),
        None => GrowingObject::empty(LEN, 12),
    };
    let mut runs: Vec<_> = (0..300)
        .map(|n| {
            // Every third chunk is alike, as are the nodes around it.
            let bytes = noise(if n % 3 == 0 { 1 } else { seed + n }, 4096);
            ChunkRun {
                first: n * 900 + n % 2,
                count: 1,
                fingerprint: session.main().store_chunk(&bytes).unwrap(),
            }
        })
        .collect();
    runs.reverse();
    object
        .put(&mut runs, pool.reader(), session.main())
        .unwrap();
    let snapshot = testkit::specimen::snapshot(pool, SnapshotKind::Image, "wide", object.root());
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .unwrap();
    snapshot
}

#[test]
fn a_disk_that_is_put_together_piece_by_piece_is_the_same() {
    let from = open_source(&source(8));
    let first = wide(&from, 1000, None);
    let second = wide(&from, 2000, Some(&first));
    for (runs_max, nodes_max) in [(1, 0), (7, 1), (20, 5), (100, 1000)] {
        let disk = receiver(140);
        let to = open_receiver(&disk, 141);
        let few = CopyOptions {
            limits: CopyLimits {
                runs_max,
                nodes_max,
                ..CopyLimits::default()
            },
            ..copy_options()
        };
        let all = from.snapshots().unwrap();
        let mut run = Replication::new(Arc::clone(&from), all, Arc::clone(&to), few).unwrap();
        for snapshot in [&first, &second] {
            let copied = copy(&mut run, snapshot).unwrap().snapshot;
            let pieces = |pool: &Pool, root: &ObjectRoot| {
                let mut pieces = Vec::new();
                let mut add = |offset, len, f: Fingerprint| {
                    let bytes = (!f.is_hole()).then(|| pool.reader().chunk(&f).unwrap().to_vec());
                    pieces.push((offset, len, bytes));
                    Ok(ControlFlow::Continue(()))
                };
                let reader = pool.reader();
                reader.visit_pieces(root, 0, root.len, &mut add).unwrap();
                pieces
            };
            assert!(pieces(&from, &snapshot.root) == pieces(&to, &copied.root));
        }
        assert_sound(&to);
    }
}

/// As a backup stores them: mounts read files from 64 MiB on at random.
#[test]
fn long_files_arrive_in_small_regions() {
    let (_, from) = testkit::specimen::new_pool();
    let from = Arc::new(from);
    let mut session = from.begin(options(WITH)).unwrap();
    // Compresses: what does not is in small regions anyway.
    let bytes = testkit::specimen::dense(1, 64 << 20);
    let (short, long) = bytes.split_at(6 << 20);
    let mut file = |name: &str, bytes: &[u8]| {
        let content = session.main().store_object(bytes, false).unwrap();
        let sparse = false;
        testkit::specimen::entry(name, EntryKind::File { content, sparse })
    };
    let entries = [file("long", &[short, long].concat()), file("short", short)];
    let directory = Entry::encode_directory(&entries);
    let root = session.main().store_object(&directory, true).unwrap();
    let tree = testkit::specimen::snapshot(&from, SnapshotKind::Tree, "files", root);
    let stream = session.main().store_object(long, false).unwrap();
    let stream = testkit::specimen::snapshot(&from, SnapshotKind::Stream, "stream", stream);
    from.commit(session, &[tree, stream], &[]).unwrap();
    for (kind, is_small) in [(SnapshotKind::Tree, true), (SnapshotKind::Stream, false)] {
        let disk = receiver(80);
        let to = open_receiver(&disk, 81);
        let mut with = copy_options();
        with.lane.region_bytes = 1 << 20;
        with.lane.container_bytes = 8 << 20;
        let all = from.snapshots().unwrap();
        let mut run = Replication::new(Arc::clone(&from), all.clone(), to, with).unwrap();
        let snapshot = all.iter().find(|s| s.kind == kind).unwrap();
        copy(&mut run, snapshot).unwrap();
        let sizes: Vec<usize> = data_regions(&disk).into_iter().flatten().collect();
        let is_of_images = |bytes: &&usize| **bytes < 2 * IMAGE_REGION_BYTES;
        let small: usize = sizes.iter().filter(is_of_images).sum();
        let all: usize = sizes.iter().sum();
        match is_small {
            true => assert!(small > all / 10 * 9, "{small} of {all}"),
            false => assert!(small < all / 10, "{small} of {all}"),
        }
    }
}

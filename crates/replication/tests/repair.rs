//! Repairs from a replica between real pools on simulated disks: what is repaired, and what is not.

use crate::copies;
use crate::small_volumes;

use chunking::Compression;
use copies::{copy_all, open_receiver, receiver};
use replication::{ReplicaCounts, ReplicaRepair};
use sim::{Damage, Image, SimDisk};
use small_volumes::write;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{Affected, CheckDepth, CheckReport, OpenMode, Pool, StoreErrorKind};
use testkit::specimen::restore::{Content, Truth};
use testkit::specimen::{Specimen, noise, options, store_image};

const WITH: Compression = Compression::Zstd(1);

/// A pool and a replica with other keys.
struct World {
    of: Specimen,
    replica: Arc<SimDisk>,
}

impl World {
    fn new(seed: u64) -> Self {
        let of = Specimen::new(seed, true);
        let replica = receiver(seed + 50);
        let from = Arc::new(of.open(&of.disk(), 7, OpenMode::Write).unwrap());
        copy_all(&from, &open_receiver(&replica, seed + 51));
        Self { of, replica }
    }

    fn open(&self, disk: &Arc<SimDisk>) -> Arc<Pool> {
        Arc::new(self.of.open(disk, 8, OpenMode::Write).unwrap())
    }

    fn replica(&self) -> Arc<Pool> {
        Arc::new(testkit::specimen::open(&self.replica, 9, None, OpenMode::Read).unwrap())
    }

    /// Number of names that cannot be read.
    fn lost(&self, pool: &Pool) -> usize {
        let lost = |truth: &Truth| truth.restore(pool).unwrap().len();
        self.of.truths.iter().map(lost).sum()
    }
}

fn containers(image: &Image) -> Vec<(String, u64)> {
    image.files_below("containers")
}

fn check(pool: &Pool, depth: CheckDepth) -> CheckReport {
    pool.check(depth, &mut |_, _| ControlFlow::Continue(()))
        .unwrap()
}

/// Finds the damage and puts it into quarantine.
fn put_in_quarantine(pool: &Pool) {
    pool.repair(CheckDepth::ALL, options(WITH), &mut |_, _| {
        ControlFlow::Continue(())
    })
    .unwrap();
}

fn repair(pool: &Arc<Pool>, replica: &Arc<Pool>) -> ReplicaCounts {
    let repairing = ReplicaRepair::new(Arc::clone(pool), Arc::clone(replica)).unwrap();
    let go_on = &mut |_: &ReplicaCounts| ControlFlow::Continue(());
    repairing.run(options(WITH), go_on).unwrap()
}

/// Data, recipe nodes, directories: whatever a damaged region or a lost container had.
#[test]
fn what_is_lost_comes_back_whatever_it_was() {
    let world = World::new(1);
    let replica = world.replica();
    let mut damages = Vec::new();
    for (file, len) in containers(&world.of.image) {
        let flips = (1..12).map(|n| Damage::FlipBit(8 * (n * len / 12)));
        damages.extend(flips.chain([Damage::Delete]).map(|d| (file.clone(), d)));
    }
    let (mut repaired, mut nodes, mut directories) = (0, 0, 0);
    for (file, damage) in damages {
        let disk = world.of.disk();
        disk.damage(&file, &damage).unwrap();
        let pool = world.open(&disk);
        if pool.snapshots().map(|all| all.len()).unwrap_or(0) < world.of.truths.len() {
            // A replica cannot repair the catalog.
            continue;
        }
        put_in_quarantine(&pool);
        let lost_before = world.lost(&pool);
        let affected = check(&pool, CheckDepth::Structure).affected;
        let is_cut = |t: &Truth| {
            let (reader, root) = (pool.reader(), &t.snapshot.root);
            let go_on = &mut |_, _, _| Ok(ControlFlow::Continue(()));
            reader.visit_pieces(root, 0, root.len, go_on).is_err()
        };
        nodes += usize::from(world.of.truths.iter().any(is_cut));
        let counts = repair(&pool, &replica);
        let case = || format!("{file} {damage:?} {affected:?} {counts:?}");
        assert_eq!((counts.missing, counts.refused), (0, 0), "{}", case());
        assert_eq!(counts.trouble, None, "{}", case());
        assert_eq!(world.lost(&pool), 0, "{}", case());
        assert_eq!(counts.chunks > 0, lost_before > 0, "{}", case());
        repaired += usize::from(lost_before > 0);
        let is_directory = |a: &Affected| {
            let of = world.of.truths.iter().find(|t| t.snapshot.id == a.snapshot);
            let content = of.and_then(|t| t.objects.get(&a.path));
            matches!(content, Some(Content::Directory(_)))
        };
        directories += usize::from(affected.iter().any(is_directory));
        drop(pool);
        // Durable, and found without the state of the process.
        let pool = world.open(&disk);
        let report = check(&pool, CheckDepth::ALL);
        assert!(report.affected.is_empty(), "{} {report:?}", case());
        assert_eq!(repair(&pool, &replica).chunks, 0, "{}", case());
    }
    assert!(
        repaired > 60 && nodes > 5 && directories > 5,
        "{repaired} {nodes} {directories}"
    );
}

#[test]
fn pools_with_the_same_keys_are_asked_by_fingerprint() {
    let world = World::new(2);
    // A copy of the files, from before the newest snapshots.
    let replica = SimDisk::unrecorded(world.of.older.clone());
    let replica = Arc::new(world.of.open(&replica, 9, OpenMode::Read).unwrap());
    let mut came_back = 0;
    for (file, _) in containers(&world.of.older) {
        let disk = world.of.disk();
        disk.damage(&file, &Damage::Delete).unwrap();
        let pool = world.open(&disk);
        put_in_quarantine(&pool);
        let lost = world.lost(&pool);
        let counts = repair(&pool, &replica);
        assert_eq!(
            (counts.missing, counts.refused),
            (0, 0),
            "{file} {counts:?}"
        );
        assert_eq!(world.lost(&pool), 0, "{file}: {lost} were lost, {counts:?}");
        came_back += counts.chunks;
    }
    assert!(came_back > 50, "{came_back}");
}

#[test]
fn live_volumes_come_back_from_a_pool_with_the_same_keys() {
    let disk = small_volumes::made();
    let held = small_volumes::open(&disk, 3);
    let bytes = noise(5, 1 << 20);
    held.create("disk", 1 << 20, 12).unwrap();
    write(&held.volume("disk").unwrap(), 0, &bytes);
    held.checkpoint().unwrap();
    drop(held);
    let replica = SimDisk::unrecorded(disk.image());
    let (file, len) = containers(&disk.image())
        .into_iter()
        .max_by_key(|(_, len)| *len)
        .unwrap();
    let flip = Damage::FlipBit(8 * (len / 2));
    disk.damage(&file, &flip).unwrap();
    let open = |disk, mode| Arc::new(testkit::specimen::open(disk, 4, None, mode).unwrap());
    let (pool, replica) = (open(&disk, OpenMode::Write), open(&replica, OpenMode::Read));
    put_in_quarantine(&pool);
    assert_eq!(check(&pool, CheckDepth::Structure).affected.len(), 1);
    assert!(repair(&pool, &replica).chunks > 0);
    assert_eq!(check(&pool, CheckDepth::ALL).affected, []);
}

/// Chunks that no snapshot of the replica has stay lost, and are named; the others are repaired.
#[test]
fn what_the_replica_never_had_stays_lost() {
    let world = World::new(3);
    let disk = world.of.disk();
    let pool = world.open(&disk);
    let before = containers(&disk.image());
    let newer = store_image(&pool, "newer", &noise(77, 60_000), WITH);
    drop(pool);
    let mut files = containers(&disk.image());
    files.retain(|file| !before.contains(file));
    let (newest, len) = files.into_iter().max_by_key(|(_, len)| *len).unwrap();
    let (older, _) = before.iter().max_by_key(|(_, len)| *len).unwrap();
    disk.damage(&newest, &Damage::FlipBit(8 * (len / 2)))
        .unwrap();
    disk.damage(older, &Damage::Delete).unwrap();
    let pool = world.open(&disk);
    put_in_quarantine(&pool);
    assert!(world.lost(&pool) > 0);
    let counts = repair(&pool, &world.replica());
    assert_eq!(counts.snapshots_common, world.of.truths.len() as u64);
    assert!(counts.chunks > 0, "{counts:?}");
    assert_eq!(world.lost(&pool), 0);
    let report = check(&pool, CheckDepth::Structure);
    let affected: Vec<_> = report.affected.iter().map(|a| a.snapshot).collect();
    assert_eq!(affected, [newer.snapshot.id]);
}

/// A damaged replica gives what it can, and its error is reported. No byte of it is trusted.
#[test]
fn a_damaged_replica_gives_what_it_has() {
    let world = World::new(4);
    let (mut all, mut some, mut reported) = (0, 0, 0);
    let lost = containers(&world.of.image);
    for (n, (file, _)) in lost.iter().enumerate() {
        let disk = world.of.disk();
        disk.damage(file, &Damage::Delete).unwrap();
        let pool = world.open(&disk);
        if pool.snapshots().is_err() {
            continue;
        }
        put_in_quarantine(&pool);
        let before = world.lost(&pool);
        let replica = SimDisk::unrecorded(world.replica.image());
        for (file, len) in containers(&replica.image()).iter().skip(n % 3).step_by(3) {
            replica
                .damage(file, &Damage::FlipBit(8 * (len / 2)))
                .unwrap();
        }
        let Ok(replica) = testkit::specimen::open(&replica, 9, None, OpenMode::Read) else {
            continue;
        };
        let counts = repair(&pool, &Arc::new(replica));
        // Everything readable equals what was stored: `lost` fails otherwise.
        let after = world.lost(&pool);
        assert!(after <= before, "{before} {after}");
        if counts.snapshots_common == world.of.truths.len() as u64 {
            assert_eq!(after == 0, counts.missing == 0, "{after} {counts:?}");
        }
        all += usize::from(before > 0 && after == 0);
        some += usize::from(after > 0 && counts.chunks > 0);
        reported += usize::from(counts.trouble.is_some());
    }
    assert!(
        all > 0 && some > 0 && reported > 0,
        "{all} {some} {reported}"
    );
}

/// A snapshot of the same name with other bytes.
#[test]
fn other_bytes_are_refused() {
    let world = World::new(5);
    let disk = world.of.disk();
    let replica = receiver(60);
    let to = open_receiver(&replica, 61);
    let liar = |truth: &Truth, bytes: &[u8]| {
        let stored = store_image(&to, "disk", bytes, WITH).snapshot;
        let renamed = format::snapshot::Snapshot {
            root: stored.root,
            ..truth.snapshot.clone()
        };
        to.change_snapshots(&[renamed], &[stored]).unwrap();
    };
    let truth = &world.of.truths[0];
    let Content::Bytes(bytes) = &truth.objects[&Vec::new()] else {
        panic!("an image")
    };
    let mut others = bytes.clone();
    others.iter_mut().for_each(|b| *b ^= 1);
    liar(truth, &others);
    for (file, _) in containers(&world.of.image) {
        disk.damage(&file, &Damage::Delete).unwrap();
        if !truth.restore(&world.open(&disk)).unwrap().is_empty() {
            break;
        }
    }
    let pool = world.open(&disk);
    put_in_quarantine(&pool);
    let before = pool.record().stored_bytes;
    let counts = repair(&pool, &to);
    assert!(counts.refused > 0, "{counts:?}");
    assert_eq!((counts.chunks, counts.snapshots_common), (0, 1));
    assert_eq!(pool.record().stored_bytes, before, "nothing was stored");
    assert!(world.lost(&pool) > 0);
}

#[test]
fn what_came_back_before_an_interruption_is_found() {
    let world = World::new(6);
    let disk = world.of.disk();
    let (file, _) = containers(&world.of.image)
        .into_iter()
        .max_by_key(|(_, len)| *len)
        .unwrap();
    disk.damage(&file, &Damage::Delete).unwrap();
    let mut interruptions = 0;
    for reported in 1u64.. {
        let pool = world.open(&disk);
        put_in_quarantine(&pool);
        let repairing = ReplicaRepair::new(Arc::clone(&pool), world.replica()).unwrap();
        let mut left = reported * 5;
        let go_on = &mut |_: &ReplicaCounts| {
            left = left.saturating_sub(1);
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        match repairing.run(options(WITH), go_on) {
            Ok(counts) => {
                assert!(interruptions > 2, "{counts:?}");
                assert_eq!(world.lost(&pool), 0);
                break;
            }
            Err(e) => assert_eq!(e.kind, StoreErrorKind::Interrupted, "{e}"),
        }
        interruptions += 1;
        assert!(interruptions < 200, "no end");
    }
}

//! A pool that an older version wrote, of which `store`'s golden pools keep the bytes: it is read,
//! served and collected like a new one, before and after an upgrade.
//!
//! Invariant: what is written into such a pool is what its readers know: before the upgrade, no
//! region begins within a sector.

use crate::small_volumes;
use chunking::Compression;
use format::config::{FEATURE_INCOMPAT_OWNERS, FEATURE_INCOMPAT_PACKED};
use format::container::{ContainerHeader, find_region};
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::Collector;
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use sim::{Image, SimDisk};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::{noise, options, store_image};
use volumes::Volumes;

const BYTES_MAX: u64 = 10 << 20;

fn golden(name: &str) -> PathBuf {
    let below = Path::new(env!("CARGO_MANIFEST_DIR"));
    below.join("../../lab/testkit/tests/golden").join(name)
}

fn plant(disk: &SimDisk, from: &Path, below: &Path) {
    for entry in std::fs::read_dir(below).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            plant(disk, from, &path);
            continue;
        }
        let name = path.strip_prefix(from).expect("below it");
        let bytes = std::fs::read(&path).expect("a golden file");
        disk.plant(name.to_str().expect("our names are ASCII"), &bytes);
    }
}

/// Reads every image and stream, directly and as a served disk.
fn contents(volumes: &Volumes) -> Vec<(Snapshot, Vec<u8>)> {
    let pool = volumes.pool();
    let all = pool.snapshots().expect("a list");
    let disks = all.into_iter().filter(|s| s.kind != SnapshotKind::Tree);
    let read = disks.map(|snapshot| {
        let read = pool.reader().read_whole(&snapshot.root, BYTES_MAX);
        let bytes = read.expect("whole");
        let view = volumes.view(snapshot.root, String::new());
        assert!(small_volumes::read(&view) == bytes, "{}", snapshot.name);
        (snapshot, bytes)
    });
    read.collect()
}

fn begins_with_sectors(disk: &SimDisk) -> bool {
    let image = disk.image();
    let names = image.files_below("containers");
    let is_aligned = |bytes: &[u8]| {
        let container = ContainerHeader::decode(bytes, false).expect("a container");
        let sectors = (0..bytes.len()).step_by(512);
        let found = sectors.filter_map(|at| find_region(&bytes[at..], container.id));
        found.map(|(within, _)| within).all(|within| within == 0)
    };
    names
        .iter()
        .all(|(name, _)| is_aligned(&image.contents(name).expect("listed")))
}

fn collect(pool: &Pool) -> u64 {
    let lane = options(Compression::Default);
    let mut run = Collector::new(pool, for_any_gain(), lane).expect("alone");
    finish_gc(pool, None, &mut run, 300_000)
        .expect("step")
        .copied_bytes
}

#[test]
fn an_old_pool_is_read_served_and_collected() {
    for name in ["v1-clear", "v1-x86"] {
        let disk = SimDisk::unrecorded(Image::new());
        plant(&disk, &golden(name), &golden(name));
        use_and_collect(name, &disk);
        assert!(begins_with_sectors(&disk), "{name}");
    }
}

#[test]
fn an_upgraded_pool_is_read_served_and_collected() {
    for name in ["v1-clear", "v1-x86"] {
        let disk = SimDisk::unrecorded(Image::new());
        plant(&disk, &golden(name), &golden(name));
        let pool = testkit::specimen::open(&disk, 4, None, OpenMode::Write).expect("open");
        let lacks_filter = name == "v1-clear";
        let lacking = FEATURE_INCOMPAT_OWNERS | FEATURE_INCOMPAT_PACKED | u64::from(lacks_filter);
        assert_eq!(pool.features_lacking(), lacking, "{name}");
        pool.upgrade().expect("upgrade");
        drop(pool);
        use_and_collect(name, &disk);
        assert!(!begins_with_sectors(&disk), "{name}");
        let pool = testkit::specimen::open(&disk, 6, None, OpenMode::Read).expect("open");
        assert_eq!(pool.features_lacking(), 0, "{name}");
    }
}

/// Reads the pool, stores more, makes garbage of some of it and of the oldest disk, collects, and
/// looks at everything again.
fn use_and_collect(name: &str, disk: &Arc<SimDisk>) {
    let volumes = small_volumes::open(disk, 5);
    let before = contents(&volumes);
    assert!(before.len() > 1, "{name}: {}", before.len());
    // Half of each of these containers becomes garbage.
    let pool = volumes.pool();
    let bytes = noise(3, 400_000);
    let all = store_image(pool, "all", &bytes, Compression::Default);
    let even = bytes
        .chunks(8192)
        .flat_map(|two| &two[..4096.min(two.len())]);
    let even: Vec<u8> = even.copied().collect();
    let kept = store_image(pool, "even", &even, Compression::Default);
    pool.forget(&[all.snapshot]).expect("forget");
    pool.forget(&[before[0].0.clone()]).expect("forget");
    assert!(collect(pool) > 100_000, "{name}: nothing was copied");
    let after = contents(&volumes);
    for (snapshot, bytes) in &before[1..] {
        // The seeds of these pools gave one id twice.
        let is_it = |now: &Snapshot| (now.id, now.kind) == (snapshot.id, snapshot.kind);
        let found = after.iter().find(|(now, _)| is_it(now));
        let found = found.map(|(_, now)| now == bytes);
        assert_eq!(found, Some(true), "{name}: {}", snapshot.name);
    }
    assert!(kept.restore(pool).expect("read").is_empty());
    let report = check_all(pool).expect("check");
    assert!(report.is_sound(), "{report:#?}");
    let pool = Arc::clone(pool);
    drop(volumes);
    assert_eq!(Arc::strong_count(&pool), 1);
}

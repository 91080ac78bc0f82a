//! Size of the regions into which gc and repair pack chunks again.
//!
//! Invariant: chunks that are read at random stay in small regions, whatever the options of the
//! run. Chunks from large regions, which serve restores, are packed into large ones, except those
//! of images.

use chunking::Compression;
use format::config::Config;
use format::container::{
    ContainerClass, ContainerHeader, HEADER_BYTES, REGION_HEADER_BYTES, SECTOR_BYTES,
};
use format::snapshot::SnapshotKind;
use maintenance::{Collector, GcPolicy, ReplicaCounts, ReplicaRepair};
use sim::pool_histories::{check_all, data_regions, finish_gc, for_any_gain};
use sim::{Damage, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, IMAGE_REGION_BYTES, LaneOptions, OpenMode, Pool, RegionKind, WriteCounts};
use testkit::specimen::restore::Truth;
use testkit::specimen::{dense, new_pool, put_image, snapshot};

const CHUNK: usize = 4096;
/// Region sizes of volumes and of backups.
const SMALL: usize = 16 << 10;
const LARGE: usize = 1 << 20;

fn lane(region_bytes: usize) -> LaneOptions {
    LaneOptions {
        compression: Compression::Zstd(1),
        region_bytes,
        container_bytes: 4 << 20,
    }
}

fn store(pool: &Pool, bytes: &[u8], region_bytes: usize, kind: SnapshotKind) -> Truth {
    let mut session = pool.begin(lane(region_bytes)).expect("begin");
    let root = match kind {
        SnapshotKind::Stream => session.main().store_object(bytes, false).expect("store"),
        _ => put_image(&mut session, bytes),
    };
    let snapshot = snapshot(pool, kind, "stored", root);
    let added = std::slice::from_ref(&snapshot);
    pool.commit(session, added, &[]).expect("commit");
    Truth::of_bytes(snapshot, bytes.to_vec())
}

/// Stores bytes with such regions, keeps the half of their chunks, and forgets the others.
fn store_and_thin(pool: &Pool, seed: u64, region_bytes: usize, kind: SnapshotKind) -> Truth {
    let bytes = dense(seed, 6 << 20);
    let step = match kind {
        // Cuts depend on the contents: the parts keep most of their chunks.
        SnapshotKind::Stream => 512 << 10,
        _ => CHUNK,
    };
    let half: Vec<u8> = bytes
        .chunks(2 * step)
        .flat_map(|two| two[..step].to_vec())
        .collect();
    let all = store(pool, &bytes, region_bytes, kind);
    let kept = store(pool, &half, region_bytes, kind);
    pool.forget(&[all.snapshot]).expect("forget");
    kept
}

fn collect(pool: &Pool) -> u64 {
    let policy = GcPolicy {
        merge_ratio_min: 0,
        ..for_any_gain()
    };
    let mut run = Collector::new(pool, policy, lane(LARGE)).expect("alone");
    let counts = finish_gc(pool, None, &mut run, 300_000).expect("step");
    counts.copied_bytes
}

fn largest(disk: &SimDisk) -> usize {
    data_regions(disk).into_iter().flatten().max().unwrap_or(0)
}

#[test]
fn regions_are_packed_anew_as_large_as_they_were() {
    let (disk, pool) = new_pool();
    let truths = [
        store_and_thin(&pool, 1, SMALL, SnapshotKind::Image),
        store_and_thin(&pool, 2, LARGE, SnapshotKind::Stream),
    ];
    assert!(collect(&pool) >= 6 << 20);
    collect(&pool);
    let found = data_regions(&disk);
    let is_small = |regions: &&Vec<usize>| regions.iter().all(|bytes| *bytes <= SMALL);
    let (small, large): (Vec<_>, Vec<_>) = found.iter().partition(is_small);
    let sum = |found: &[&Vec<usize>]| found.iter().copied().flatten().sum::<usize>();
    assert_eq!(sum(&small), 3 << 20, "{found:?}");
    // With the chunks around the cuts.
    assert!((3 << 20..7 << 19).contains(&sum(&large)), "{found:?}");
    let count = large.iter().copied().flatten().count();
    assert!(count <= 5, "{found:?}");
    for truth in &truths {
        assert_eq!(truth.restore(&pool).expect("as stored"), [].into());
    }
}

/// A backup of a tree with a long file stores both kinds in one container.
#[test]
fn a_container_is_packed_anew_as_most_of_its_bytes() {
    let (disk, pool) = new_pool();
    let (text, long) = (dense(9, 2 << 20), dense(10, 7 << 18));
    let put = |text: &[u8], long: &[u8]| {
        let mut session = pool.begin(lane(LARGE)).expect("begin");
        let in_large = session.main().store_object(text, false).expect("store");
        let packed = session.main().pack_in(RegionKind::Middle);
        packed.expect("flushed");
        let in_small = session.main().store_object(long, false).expect("store");
        let roots = [("text", in_large), ("long", in_small)];
        let added = roots.map(|(name, root)| snapshot(&pool, SnapshotKind::Stream, name, root));
        pool.commit(session, &added, &[]).expect("commit");
        added
    };
    let all = put(&text, &long);
    let sizes: Vec<_> = data_regions(&disk).concat();
    let small = sizes.iter().filter(|bytes| **bytes < LARGE / 2).count();
    assert!(
        small > 12 && sizes.len() < 20,
        "most regions are small: {sizes:?}"
    );
    put(&text[..1 << 20], &long[..1 << 20]);
    pool.forget(&all).expect("forget");
    assert!(collect(&pool) > 0);
    collect(&pool);
    let found = data_regions(&disk);
    assert!(
        largest(&disk) >= LARGE,
        "most bytes are in large ones: {found:?}"
    );
}

/// An older program stored images in large regions, and so does `import --region-size`.
#[test]
fn chunks_of_images_come_into_regions_of_images() {
    let (disk, pool) = new_pool();
    let truth = store_and_thin(&pool, 3, LARGE, SnapshotKind::Image);
    assert!(largest(&disk) >= LARGE);
    assert!(collect(&pool) >= 3 << 20);
    collect(&pool);
    let found = data_regions(&disk);
    assert!(largest(&disk) <= IMAGE_REGION_BYTES, "{found:?}");
    let count = found.iter().flatten().count();
    assert!(count <= (3 << 20) / IMAGE_REGION_BYTES + 2, "{found:?}");
    assert_eq!(truth.restore(&pool).expect("as stored"), [].into());
}

/// Makes the pool one of an older program.
fn forget_features(disk: &SimDisk) {
    for name in ["config", "mirror/config"] {
        let bytes = disk.image().contents(name).expect("a config");
        let (config, _) = Config::decode(&bytes).expect("a config");
        let old = Config {
            features_incompat: 0,
            ..config
        };
        disk.plant(name, &old.encode());
    }
}

/// A region that is completely live is copied as it is, unless it is far too long. Where regions
/// cannot begin within sectors, small ones would cost more.
#[test]
fn live_regions_become_small_once_the_pool_is_upgraded() {
    for (is_upgraded, kind) in [
        (false, SnapshotKind::Image),
        (true, SnapshotKind::Image),
        (true, SnapshotKind::Stream),
    ] {
        let (disk, pool) = new_pool();
        drop(pool);
        forget_features(&disk);
        let open =
            |seed| testkit::specimen::open(&disk, seed, None, OpenMode::Write).expect("open");
        let pool = open(7);
        let bytes = dense(8, 8 << 20);
        // Every second region is live, the others are not.
        let half = bytes.chunks(2 * LARGE).flat_map(|two| &two[..LARGE]);
        let half: Vec<u8> = half.copied().collect();
        let all = store(&pool, &bytes, LARGE, kind);
        let kept = store(&pool, &half, LARGE, kind);
        pool.forget(&[all.snapshot]).expect("forget");
        if is_upgraded {
            pool.upgrade().expect("upgrade");
        }
        // From the next session on, without a restart.
        collect(&pool);
        collect(&pool);
        let found = data_regions(&disk);
        match is_upgraded && kind == SnapshotKind::Image {
            true => assert!(largest(&disk) <= IMAGE_REGION_BYTES, "{found:?}"),
            false => assert!(largest(&disk) > LARGE / 2, "{found:?}"),
        }
        assert_eq!(kept.restore(&pool).expect("as stored"), [].into());
        let report = check_all(&pool).expect("check");
        assert!(report.is_sound(), "{report:#?}");
    }
}

/// Finds the damage, and puts it into quarantine.
fn repair(pool: &Pool) -> WriteCounts {
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let repaired = pool.repair(CheckDepth::ALL, lane(LARGE), go_on);
    repaired.expect("repair").salvaged
}

/// The only data container.
fn container(disk: &SimDisk) -> (String, ContainerHeader, u64) {
    let files = disk.image().files_below("containers");
    let described = files.into_iter().map(|(name, len)| {
        let bytes = disk.image().contents(&name).expect("listed");
        let header = ContainerHeader::decode(&bytes[..HEADER_BYTES], false).expect("a header");
        (name, header, len)
    });
    let mut data = described.filter(|(_, header, _)| header.class == ContainerClass::Data);
    data.next().expect("one")
}

#[test]
fn what_a_replica_restores_of_images_comes_into_their_regions() {
    for (kind, largest_now) in [
        (SnapshotKind::Image, IMAGE_REGION_BYTES),
        (SnapshotKind::Stream, LARGE),
    ] {
        let (disk, pool) = new_pool();
        let truth = store(&pool, &dense(4, 3 << 20), LARGE, kind);
        drop(pool);
        let replica = SimDisk::unrecorded(disk.image());
        let (name, _, _) = container(&disk);
        disk.damage(&name, &Damage::Delete).expect("delete");
        let open =
            |disk, mode| Arc::new(testkit::specimen::open(disk, 5, None, mode).expect("open"));
        let (pool, replica) = (open(&disk, OpenMode::Write), open(&replica, OpenMode::Read));
        repair(&pool);
        let repairing = ReplicaRepair::new(Arc::clone(&pool), replica).expect("both are open");
        let go_on = &mut |_: &ReplicaCounts| ControlFlow::Continue(());
        let counts = repairing.run(lane(LARGE), go_on).expect("run");
        assert!(counts.bytes >= 3 << 20, "{counts:?}");
        let found = largest(&disk);
        assert!(
            found <= largest_now + 4 * CHUNK && found > largest_now / 2,
            "{found}"
        );
        assert_eq!(truth.restore(&pool).expect("as stored"), [].into());
    }
}

/// Repair and scrub store the readable chunks of a container without its directory again.
#[test]
fn what_is_salvaged_of_images_comes_into_their_regions() {
    let (disk, pool) = new_pool();
    let truth = store(&pool, &dense(5, 3 << 20), LARGE, SnapshotKind::Image);
    drop(pool);
    let (name, header, _) = container(&disk);
    let directory = u64::from(header.directory_sector) * u64::from(SECTOR_BYTES);
    let flip = Damage::FlipBit(8 * (directory + REGION_HEADER_BYTES as u64 + 4));
    disk.damage(&name, &flip).expect("there");
    let pool = testkit::specimen::open(&disk, 6, None, OpenMode::Write).expect("open");
    assert!(repair(&pool).new_bytes >= 3 << 20);
    disk.damage(&name, &Damage::Delete).expect("delete");
    let found = data_regions(&disk);
    assert!(largest(&disk) <= IMAGE_REGION_BYTES, "{found:?}");
    assert_eq!(truth.restore(&pool).expect("as stored"), [].into());
}

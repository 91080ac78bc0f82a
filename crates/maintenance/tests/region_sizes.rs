//! Size of the regions into which gc packs chunks.
//!
//! Invariant: chunks that are read at random stay in small regions, whatever the options of the
//! run. Chunks from large regions, which serve restores, are packed into large ones.

use chunking::Compression;
use format::container::{HEADER_BYTES, REGION_HEADER_BYTES, RegionHeader, next_region};
use format::snapshot::SnapshotKind;
use maintenance::{Collector, GcPolicy};
use sim::SimDisk;
use sim::pool_histories::{finish_gc, for_any_gain};
use specimen::restore::Truth;
use specimen::{dense, new_pool, put_image, snapshot};
use store::{LaneOptions, Pool};

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

fn store(pool: &Pool, bytes: &[u8], region_bytes: usize) -> Truth {
    let mut session = pool.begin(lane(region_bytes)).expect("begin");
    let root = put_image(&mut session, bytes);
    let snapshot = snapshot(pool, SnapshotKind::Image, "image", root);
    let added = std::slice::from_ref(&snapshot);
    pool.commit(session, added, &[]).expect("commit");
    Truth::of_bytes(snapshot, bytes.to_vec())
}

/// Stores an image with such regions, keeps every second chunk of it, and collects twice.
fn store_and_thin(pool: &Pool, seed: u64, region_bytes: usize) -> Truth {
    let bytes = dense(seed, 6 << 20);
    let half: Vec<u8> = bytes
        .chunks(2 * CHUNK)
        .flat_map(|two| two[..CHUNK].to_vec())
        .collect();
    let all = store(pool, &bytes, region_bytes);
    let kept = store(pool, &half, region_bytes);
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

/// Sizes of the regions that have only data, container by container.
fn regions(disk: &SimDisk) -> Vec<Vec<usize>> {
    let files = disk.image().files_below("containers");
    let names = files.iter().map(|(name, _)| name);
    let of_one = |name: &String| {
        let bytes = disk.image().contents(name).expect("bytes");
        let (mut at, mut found) = (HEADER_BYTES, Vec::new());
        while let Some(header) = bytes.get(at..at + REGION_HEADER_BYTES) {
            let Ok(header) = RegionHeader::decode(header) else {
                break;
            };
            let chunks = header.chunk_count as usize;
            // Each chunk has a length field.
            if header.raw_bytes as usize == chunks * (CHUNK + 4) {
                found.push(chunks * CHUNK);
            }
            at = next_region(&bytes, header.container, at, at + header.region_bytes());
        }
        found
    };
    names
        .map(of_one)
        .filter(|found| !found.is_empty())
        .collect()
}

#[test]
fn regions_are_packed_anew_as_large_as_they_were() {
    let (disk, pool) = new_pool();
    let truths = [
        store_and_thin(&pool, 1, SMALL),
        store_and_thin(&pool, 2, LARGE),
    ];
    assert!(collect(&pool) >= 6 << 20);
    collect(&pool);
    let found = regions(&disk);
    let is_small = |regions: &&Vec<usize>| regions.iter().all(|bytes| *bytes <= SMALL);
    let (small, large): (Vec<_>, Vec<_>) = found.iter().partition(is_small);
    let sum = |found: &[&Vec<usize>]| found.iter().copied().flatten().sum::<usize>();
    assert_eq!(sum(&small), 3 << 20, "{found:?}");
    assert_eq!(sum(&large), 3 << 20, "{found:?}");
    let count = large.iter().copied().flatten().count();
    assert!(count <= 4, "{found:?}");
    for truth in &truths {
        assert_eq!(truth.restore(&pool).expect("as stored"), [].into());
    }
}

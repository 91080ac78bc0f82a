//! Regions that gc copies as stored, and the checks before it packs a chunk anew.
//!
//! Invariant: every pool restores, and no damaged chunk becomes one that counts as sound.

use chunking::Compression;
use format::container::{HEADER_BYTES, REGION_HEADER_BYTES, RegionHeader};
use maintenance::{Collector, GcCounts, GcPolicy, GcStage};
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use sim::{Damage, SimDisk};
use std::sync::Arc;
use store::{GcStep, NothingCached, OpenMode, Pool};
use testkit::specimen::restore::Truth;
use testkit::specimen::{new_pool, noise, options, store_image};

const CHUNK: usize = 4096;
/// Two chunks fill a region of these tests.
const IN_REGION: usize = 2;
const WITH: Compression = Compression::Zstd(1);

fn collector(pool: &Pool, with: Compression) -> Collector {
    let policy = GcPolicy {
        merge_ratio_min: 0,
        ..for_any_gain()
    };
    Collector::new(pool, policy, options(with)).expect("alone")
}

fn finish(pool: &Pool, run: &mut Collector) -> GcCounts {
    finish_gc(pool, None, run, 10_000).expect("step")
}

fn collect(pool: &Pool, with: Compression) -> GcCounts {
    finish(pool, &mut collector(pool, with))
}

fn check(pool: &Pool) -> bool {
    check_all(pool).expect("check").is_sound()
}

fn is_sound(pool: &Pool, truths: &[Truth]) {
    assert!(check(pool));
    for truth in truths {
        assert_eq!(truth.restore(pool).expect("as stored"), [].into());
    }
}

/// Chunks that compress to a quarter, no two alike.
fn squeezable(count: usize) -> Vec<u8> {
    (0..count as u64)
        .flat_map(|n| noise(100 + n, CHUNK / 4).repeat(4))
        .collect()
}

/// The chunks with selected numbers.
fn chosen(bytes: &[u8], is_chosen: impl Fn(usize) -> bool) -> Vec<u8> {
    let chunks = bytes.chunks(CHUNK).enumerate();
    let chunks = chunks.filter(|(number, _)| is_chosen(*number));
    chunks.flat_map(|(_, chunk)| chunk.to_vec()).collect()
}

/// A pool that needs only the selected chunks of `bytes`.
fn thinned(bytes: &[u8], is_kept: impl Fn(usize) -> bool) -> (Arc<SimDisk>, Pool, Truth) {
    let (disk, pool) = new_pool();
    let all = store_image(&pool, "all", bytes, WITH);
    let kept = store_image(&pool, "kept", &chosen(bytes, is_kept), WITH);
    pool.forget(&[all.snapshot]).expect("forget");
    (disk, pool, kept)
}

fn is_in_even_region(number: usize) -> bool {
    (number / IN_REGION).is_multiple_of(2)
}

/// A completely live region is neither unpacked nor packed: it stays compressed although the lane
/// of the run does not compress.
#[test]
fn a_region_that_is_live_as_a_whole_is_copied_as_it_is_stored() {
    let bytes = squeezable(96);
    let (disk, pool, kept) = thinned(&bytes, is_in_even_region);
    let kept_bytes = bytes.len() as u64 / 2;
    let counts = collect(&pool, Compression::None);
    assert!(counts.copied_bytes >= kept_bytes, "{counts:?}");
    assert!(counts.as_stored_bytes >= kept_bytes, "{counts:?}");
    let deleted = collect(&pool, Compression::None);
    assert_eq!(deleted.deleted_containers, counts.discarded_containers);
    let stored = pool.record().stored_bytes;
    assert!(stored < kept_bytes * 2 / 3, "{stored} of {kept_bytes}");
    let truths = [kept];
    is_sound(&pool, &truths);
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
    drop(pool);
    let pool = testkit::specimen::open(&disk, 9, None, OpenMode::Read).expect("open");
    is_sound(&pool, &truths);
}

/// Of a partly live region only the live chunks are copied.
#[test]
fn what_is_live_in_part_is_packed_anew() {
    let bytes = noise(5, 96 * CHUNK);
    let (_disk, pool, kept) = thinned(&bytes, |number| number.is_multiple_of(IN_REGION));
    let counts = collect(&pool, WITH);
    assert!(counts.copied_bytes >= 48 * CHUNK as u64, "{counts:?}");
    assert!(counts.as_stored_bytes < CHUNK as u64, "{counts:?}");
    collect(&pool, WITH);
    is_sound(&pool, &[kept]);
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
}

/// Clients wait for at most a step: it ends between two regions, not two containers.
#[test]
fn a_step_copies_what_it_may_and_a_region_at_most() {
    let bytes = noise(9, 96 * CHUNK);
    let (_disk, pool, kept) = thinned(&bytes, |number| number.is_multiple_of(IN_REGION));
    let mut run = collector(&pool, WITH);
    let (mut copied, mut largest) = (0, 0);
    while run.step(&pool, None, &NothingCached, 1).expect("step") == GcStep::Working {
        let now = run.counts().copied_bytes;
        largest = largest.max(now - copied);
        copied = now;
    }
    assert!(copied >= 48 * CHUNK as u64, "{copied}");
    assert!(largest <= (IN_REGION * CHUNK) as u64, "{largest}");
    drop(run);
    collect(&pool, WITH);
    is_sound(&pool, &[kept]);
}

/// Chunks that a writer has stored again since the mark are not copied, although their region is
/// completely live.
#[test]
fn what_a_writer_has_stored_meanwhile_is_not_copied_with_its_region() {
    let bytes = noise(6, 96 * CHUNK);
    let (_disk, pool, kept) = thinned(&bytes, is_in_even_region);
    let mut run = collector(&pool, WITH);
    while run.stage() != GcStage::Copying {
        run.step(&pool, None, &NothingCached, 5000).expect("step");
    }
    let first_of_each = chosen(&bytes, |n| {
        is_in_even_region(n) && n.is_multiple_of(IN_REGION)
    });
    let again = store_image(&pool, "again", &first_of_each, WITH);
    let counts = finish(&pool, &mut run);
    drop(run);
    assert!(counts.as_stored_bytes < CHUNK as u64, "{counts:?}");
    let counts = collect(&pool, WITH);
    assert!(counts.deleted_containers > 0, "{counts:?}");
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
    is_sound(&pool, &[kept, again]);
}

/// The first data container and its bytes.
fn first_container(disk: &SimDisk) -> (String, Vec<u8>) {
    let containers = disk.image().files_below("containers");
    let (name, _) = containers.into_iter().next().expect("a container");
    let bytes = disk.image().contents(&name).expect("bytes");
    (name, bytes)
}

/// Inverts a bit of the first chunk and makes the checksum match.
fn forge(disk: &SimDisk) {
    let (name, bytes) = first_container(disk);
    let payload_at = HEADER_BYTES + REGION_HEADER_BYTES;
    let mut header = RegionHeader::decode(&bytes[HEADER_BYTES..payload_at]).expect("a region");
    let mut payload = bytes[payload_at..][..header.stored_bytes as usize].to_vec();
    payload[17] ^= 1;
    header.payload_checksum =
        RegionHeader::checksum_payload(header.container, header.index, &payload);
    let mut region = header.encode();
    region.extend_from_slice(&payload);
    let offset = HEADER_BYTES as u64;
    let damage = Damage::Overwrite {
        offset,
        bytes: region,
    };
    disk.damage(&name, &damage).expect("damage");
}

/// A chunk with a wrong fingerprint is not packed anew: its container stays.
#[test]
fn a_chunk_that_is_not_what_it_is_called_is_not_packed_anew() {
    let bytes = noise(7, 96 * CHUNK);
    let (disk, pool, _) = thinned(&bytes, |number| number.is_multiple_of(IN_REGION));
    forge(&disk);
    let counts = collect(&pool, WITH);
    assert_eq!(counts.kept_back_containers, 1, "{counts:?}");
    assert!(!check(&pool));
}

/// Completely live regions are compared with their fingerprints too, whether damage in them is
/// known or not. Wrong chunks stay where they are.
#[test]
fn what_is_not_what_it_is_called_is_not_copied_as_it_is_stored() {
    let bytes = noise(8, 96 * CHUNK);
    for is_known in [false, true] {
        let (disk, pool, _) = thinned(&bytes, is_in_even_region);
        forge(&disk);
        assert!(!is_known || !check(&pool));
        let counts = collect(&pool, WITH);
        assert_eq!(counts.kept_back_containers, 1, "{counts:?}");
        collect(&pool, WITH);
        assert!(!check(&pool), "it is not forgotten");
    }
}

//! Garbage collection on a disk that is full, or becomes full at any write.
//!
//! Invariant: the pool stays sound, uncommitted copies are removed, and gc alone makes a full disk
//! usable again with every acknowledged byte.

use crate::small_volumes;

use chunking::Compression;
use maintenance::{Collector, GcCounts, GcPolicy};
use media::{Disk, Need};
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use sim::{Damage, Fault, Image, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool, StoreError};
use testkit::specimen::restore::Truth;
use testkit::specimen::{noise, options, store_image};
use volume::{Durability, Volume, VolumeErrorKind};
use volumes::{CheckpointStep, Volumes};

const CHUNK: usize = 4096;
const CHUNKS: usize = 192;

fn policy() -> GcPolicy {
    GcPolicy {
        merge_ratio_min: 0,
        // Garbage of each run's own commits begins no other run.
        gain_bytes_min: 60_000,
        ..for_any_gain()
    }
}

fn collect(pool: &Pool, volumes: Option<&Volumes>) -> Result<GcCounts, StoreError> {
    let mut run = Collector::new(pool, policy(), options(Compression::None))?;
    finish_gc(pool, volumes, &mut run, 20_000)
}

/// Runs gc while it frees something. Returns the number of runs.
fn collect_all(pool: &Pool, volumes: Option<&Volumes>) -> usize {
    for run in 1..100 {
        let counts = collect(pool, volumes).expect("a collection of a full disk");
        if counts.discarded_containers == 0 {
            return run;
        }
    }
    panic!("no end");
}

fn is_sound(pool: &Pool, truth: &Truth) {
    assert!(check_all(pool).expect("check").is_sound());
    assert_eq!(truth.restore(pool).expect("as stored"), [].into());
}

/// A pool in which every container has some garbage, and some have nothing else.
fn half_garbage() -> (Image, Truth) {
    let (disk, pool) = testkit::specimen::new_pool();
    let bytes = noise(5, CHUNKS * CHUNK);
    let all = store_image(&pool, "all", &bytes, Compression::None);
    let chunks = bytes.chunks(CHUNK).enumerate();
    let is_kept = |n: usize| n >= CHUNKS / 4 && n.is_multiple_of(2);
    let kept: Vec<u8> = chunks
        .filter(|(n, _)| is_kept(*n))
        .flat_map(|(_, chunk)| chunk.to_vec())
        .collect();
    let kept = store_image(&pool, "kept", &kept, Compression::None);
    pool.forget(&[all.snapshot]).expect("forget");
    drop(pool);
    (disk.image(), kept)
}

fn open(disk: &Arc<SimDisk>, seed: u64) -> Pool {
    testkit::specimen::open(disk, seed, None, OpenMode::Write).expect("open")
}

/// The disk becomes full at every write of a run.
#[test]
fn a_collection_that_fills_the_disk_takes_its_copies_back() {
    let (image, kept) = half_garbage();
    let mut failures = 0;
    for step in 0..1000 {
        let disk = SimDisk::unrecorded(image.clone());
        let mut pool = open(&disk, 10 + step);
        disk.inject(Fault::NoSpaceAfter(step * 4000));
        let failed = collect(&pool, None).err();
        disk.clear_faults();
        if let Some(e) = &failed {
            assert!(e.is_full(), "{e}");
            failures += 1;
        }
        is_sound(&pool, &kept);
        // The next process continues once there is space, or this one does.
        if step % 2 == 0 {
            drop(pool);
            pool = open(&disk, 5000 + step);
            assert_eq!(pool.adopted(), [], "after {} bytes", step * 4000);
        }
        collect_all(&pool, None);
        is_sound(&pool, &kept);
        assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
        drop(pool);
        is_sound(&open(&disk, 9), &kept);
        if failed.is_none() {
            assert!(failures > 20, "{failures}");
            return;
        }
    }
    panic!("it never succeeds");
}

/// Stores something new in a session.
fn try_to_store(pool: &Pool, bytes: &[u8]) -> Result<(), StoreError> {
    let mut session = pool.begin(options(Compression::None))?;
    for chunk in bytes.chunks(CHUNK) {
        session.main().store_chunk(chunk)?;
    }
    pool.commit(session, &[], &[]).map(drop)
}

/// Takes all but `left` bytes of the disk.
fn fill(disk: &SimDisk, left: u64) {
    let room = disk.room().expect("known");
    let foreign = disk.create_new("foreign").expect("a file");
    let bytes = room.free_bytes.saturating_sub(left) as usize;
    foreign.write_at(0, &noise(77, bytes)).expect("room");
    assert!(disk.room().expect("known").free_bytes <= left);
}

/// Few or no bytes are free: gc alone frees the garbage, and forgetting works.
#[test]
fn a_full_disk_is_usable_again_after_collections_alone() {
    let (image, kept) = half_garbage();
    for left in [0, 1, 5000, 30_000, 100_000] {
        let disk = SimDisk::unrecorded(image.clone());
        disk.set_capacity(Some(disk.used_bytes() * 4 / 3));
        let pool = open(&disk, 3);
        let reserved = pool.reserved().expect("known");
        assert_eq!(reserved.held_bytes, reserved.wanted_bytes, "{reserved:?}");
        fill(&disk, left);
        let new = noise(90, 40_000);
        let refused = try_to_store(&pool, &new);
        assert_eq!(
            refused.is_err(),
            left < 50_000,
            "{left}: the reserve is kept"
        );
        let taken = pool.reserved().expect("known").held_bytes;
        assert!(taken > 0, "{left}: by who may not have it");
        let runs = collect_all(&pool, None);
        assert!(runs > 1, "{runs}");
        pool.keep_reserve();
        let freed = pool.reserved().expect("known");
        assert_eq!(freed.held_bytes, freed.wanted_bytes, "{freed:?}");
        assert!(freed.for_need(Need::New) > 200_000, "{left}: {freed:?}");
        is_sound(&pool, &kept);
        store_image(&pool, "new", &new, Compression::None);
        is_sound(&pool, &kept);
        // Once more: forgotten snapshots are deleted too.
        disk.remove("foreign").expect("remove");
        fill(&disk, 0);
        pool.forget(&pool.snapshots().expect("snapshots"))
            .expect("forget");
        collect_all(&pool, None);
        let stored = pool.record().stored_bytes;
        assert!(stored < 200_000, "{stored}");
    }
}

/// A pool that was filled without a reserve: containers without live chunks are deleted once a few
/// bytes are free.
#[test]
fn its_absence_is_harmless() {
    let (image, kept) = half_garbage();
    let disk = SimDisk::unrecorded(image);
    disk.set_capacity(Some(disk.used_bytes() * 4 / 3));
    fill(&disk, 60_000);
    let pool = open(&disk, 3);
    assert!(pool.reserved().expect("known").held_bytes <= 60_000);
    collect_all(&pool, None);
    is_sound(&pool, &kept);
    assert!(pool.reserved().expect("known").for_need(Need::Room) > 200_000);
    disk.damage(media::RESERVE_NAME, &Damage::SetLen(0))
        .expect("damage");
    drop(pool);
    is_sound(&open(&disk, 4), &kept);
}

/// A journal that fits into the reserve of such a disk.
fn open_volumes(disk: &Arc<SimDisk>, seed: u64) -> Volumes {
    let mut options = small_volumes::small();
    options.journal.bytes_max = 256 << 10;
    Volumes::open(Arc::new(open(disk, seed)), &options).expect("volumes")
}

/// A volume is written until no byte more is accepted. Acknowledged data is there, trims work, and
/// trimmed space can be written again.
#[test]
fn a_volume_that_fills_the_disk_can_be_trimmed_and_written_again() {
    let content = noise(31, 8 << 20);
    let context = small_volumes::CONTEXT;
    for (part, durability) in [
        (64 << 10, Durability::Durable),
        (5000, Durability::Durable),
        (256 << 10, Durability::Volatile),
    ] {
        let disk = small_volumes::made();
        disk.set_capacity(Some(6 << 20));
        let volumes = open_volumes(&disk, 2);
        let volume = volumes
            .create("v", content.len() as u64, 12)
            .expect("create");
        let mut at = 0;
        let full = loop {
            let end = (at + part).min(content.len());
            match volume.write(context, at as u64, &content[at..end], durability) {
                Ok(()) => at = end,
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind, VolumeErrorKind::NoSpace, "{full}");
        assert!(at > 1 << 20, "{at}");
        volume
            .flush(context)
            .expect("what was admitted can be stored");
        fill(&disk, 0);
        let again = volume.write(context, 0, &content[..part], Durability::Durable);
        assert!(again.is_err_and(|e| e.kind == VolumeErrorKind::NoSpace));
        drop(volume);
        drop(volumes);
        let disk = disk.kill();
        let volumes = open_volumes(&disk, 3);
        let volume = volumes.volume("v").expect("volume");
        let mut back = vec![0; at];
        volume.read(context, 0, &mut back).expect("read");
        assert!(back == content[..at], "acknowledged");
        let trimmed = (at / 2) & !0xffff;
        volume.discard(context, 0, trimmed as u64).expect("trim");
        volume.flush(context).expect("flush");
        volumes.checkpoint().expect("checkpoint");
        collect_all(volumes.pool(), Some(&volumes));
        volumes.pool().keep_reserve();
        let data = &content[part..part + trimmed / 4];
        volume
            .write(context, 0, data, Durability::Durable)
            .expect("room again");
        volume.read(context, 0, &mut back).expect("read");
        assert!(back[..data.len()] == *data);
        assert!(back[data.len()..trimmed].iter().all(|byte| *byte == 0));
        assert!(back[trimmed..] == content[trimmed..at]);
        small_volumes::is_sound(&volumes);
    }
}

/// The journal has more than the free space. It is checkpointed in parts, and each gc run frees the
/// space for the next part.
#[test]
fn a_journal_that_there_is_no_room_for_is_applied_in_parts() {
    const BYTES: usize = 3 << 20;
    let context = small_volumes::CONTEXT;
    let disk = small_volumes::made();
    disk.set_capacity(Some(16 << 20));
    let mut options = small_volumes::small();
    options.journal.bytes_max = 4 << 20;
    let open = |disk: &Arc<SimDisk>, seed| {
        Volumes::open(Arc::new(open(disk, seed)), &options).expect("volumes")
    };
    let volumes = open(&disk, 2);
    let volume = volumes.create("v", BYTES as u64, 12).expect("create");
    let written = |seed| noise(seed, BYTES);
    volume
        .write(context, 0, &written(1), Durability::Durable)
        .expect("write");
    volumes.checkpoint().expect("checkpoint");
    let now = written(2);
    for (n, part) in now.chunks(20_000).enumerate() {
        let at = n as u64 * 20_000;
        let write = volume.write(context, at, part, Durability::Durable);
        write.expect("the journal is large enough");
    }
    volume.flush(context).expect("flush");
    fill(&disk, 0);
    let reserved = volumes.pool().reserved().expect("known");
    assert!(reserved.held_bytes < BYTES as u64, "{reserved:?}");
    // A killed process loses nothing.
    drop((volume, volumes));
    let disk = disk.kill();
    let volumes = open(&disk, 3);
    let mut rounds = 0;
    loop {
        match volumes.step(1 << 20) {
            Ok(CheckpointStep::Idle) => break,
            Ok(CheckpointStep::Working) => continue,
            Ok(CheckpointStep::Committed) => {}
            Err(e) => assert!(e.is_full(), "{e}"),
        }
        rounds += 1;
        assert!(rounds < 100, "no end");
        let left = volumes.pool().reserved().expect("known");
        assert!(
            left.for_need(Need::Deletion) > 0,
            "{left:?}: not for who gives room"
        );
        collect_all(volumes.pool(), Some(&volumes));
        let mut back = vec![0; BYTES];
        let volume = volumes.volume("v").expect("volume");
        volume.read(context, 0, &mut back).expect("read");
        assert!(back == now, "acknowledged");
    }
    assert!(rounds > 2, "{rounds}");
    volumes.pool().keep_reserve();
    let reserved = volumes.pool().reserved().expect("known");
    assert!(
        reserved.held_bytes > reserved.wanted_bytes / 4 * 3,
        "{reserved:?}"
    );
    small_volumes::is_sound(&volumes);
}

/// The disk becomes full during large writes, at any byte: no later commit names a container that
/// was not stored.
#[test]
fn large_writes_that_find_no_room_leave_no_name_behind() {
    let context = small_volumes::CONTEXT;
    let content = noise(41, 4 << 20);
    let mut refused = 0;
    for step in 0..60 {
        let disk = small_volumes::made();
        let volumes = open_volumes(&disk, 2);
        let volume = volumes.create("v", content.len() as u64, 12);
        let volume = volume.expect("create");
        disk.inject(Fault::NoSpaceAfter(step * 70_000));
        for (n, part) in (0u64..).zip(content.chunks(256 << 10)) {
            let _ = volume.write(context, n * (256 << 10), part, Durability::Volatile);
        }
        refused += usize::from(volume.flush(context).is_err());
        disk.clear_faults();
        // Commits whatever can be committed.
        let _ = volumes.checkpoint();
        let _ = volumes.create("w", 1 << 20, 12);
        drop((volume, volumes));
        let volumes = open_volumes(&disk, 3);
        small_volumes::is_sound(&volumes);
    }
    assert!(refused > 10, "{refused}");
}

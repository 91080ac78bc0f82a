//! Containers so long that another thread verifies one run of regions while the next one is read.
//!
//! Invariant: damage in any run is found, once, whatever the size of the steps.

use chunking::Compression;
use duet::Duet;
use maintenance::{Alone, RunEnd, ScrubFindings, Scrubber, StepSizes, run_task};
use media::Media;
use sim::{Damage, Image, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{InitOptions, LaneOptions, OpenMode, Pool, StoreError};
use testkit::specimen::{MEMORY_BYTES, media, noise, put_image, snapshot};

/// As plain data are stored.
const REGION_BYTES: usize = 16 << 10;
const REGIONS: usize = 160;
/// Sixteenths of the container with a damaged byte, each in another region.
const DAMAGED: [u64; 5] = [0, 3, 4, 9, 15];

/// Returns a pool with one long container, and the file of that container.
fn pool_of_one(parity_percent: u8) -> (Arc<SimDisk>, Arc<Pool>, String) {
    let disk = SimDisk::unrecorded(Image::new());
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent,
    };
    let media: Media = media(&disk, 1);
    Pool::init(&media, &init).unwrap();
    let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).unwrap();
    let lane = LaneOptions {
        compression: Compression::None,
        region_bytes: REGION_BYTES,
        container_bytes: 8 << 20,
    };
    let mut session = pool.begin(lane).unwrap();
    let root = put_image(&mut session, &noise(5, REGIONS * REGION_BYTES));
    let kind = format::snapshot::SnapshotKind::Image;
    let snapshot = snapshot(&pool, kind, "disk", root);
    pool.commit(session, &[snapshot], &[]).unwrap();
    let containers = disk.image().files_below("containers").into_iter();
    let (file, _) = containers.max_by_key(|(_, len)| *len).unwrap();
    (disk, Arc::new(pool), file)
}

fn damage(disk: &SimDisk, file: &str) {
    let contents = disk.image().contents(file).unwrap();
    for part in DAMAGED {
        let at = 20_000 + part * (REGIONS * REGION_BYTES) as u64 / 16;
        assert!(at < contents.len() as u64);
        disk.damage(file, &Damage::FlipBit(8 * at)).unwrap();
    }
}

fn scrub(pool: &Arc<Pool>, step_bytes: u64) -> (ScrubFindings, u64) {
    let mut scrubber = Scrubber::alone(Arc::clone(pool));
    scrubber.start(None).unwrap();
    finish(scrubber, step_bytes)
}

fn finish(mut scrubber: Scrubber, step_bytes: u64) -> (ScrubFindings, u64) {
    let mut found = ScrubFindings::default();
    let sizes = StepSizes::new(step_bytes);
    let end = run_task(&mut scrubber, &Alone, sizes, |_, news| {
        let more = news.unwrap_or_default().found;
        found.damaged.extend(more.damaged);
        found.taken_back.extend(more.taken_back);
        Ok::<_, StoreError>(ControlFlow::Continue(()))
    });
    assert_eq!(end.unwrap(), RunEnd::Finished);
    (found, scrubber.status().last.read_bytes)
}

#[test]
fn damage_in_any_run_is_found_once() {
    let (disk, pool, file) = pool_of_one(0);
    let (nothing, sound_bytes) = scrub(&pool, 256 << 10);
    assert!(nothing.is_empty());
    damage(&disk, &file);
    for (nth, step_bytes) in [1, 100_000, 256 << 10, 64 << 20].into_iter().enumerate() {
        let (found, read_bytes) = scrub(&pool, step_bytes);
        let sectors: Vec<_> = found.damaged.iter().map(|d| d.place.sector).collect();
        assert_eq!(sectors.len(), DAMAGED.len(), "{step_bytes}: {sectors:?}");
        assert!(sectors.is_sorted(), "{sectors:?}");
        assert!(found.damaged.iter().all(|d| !d.is_repaired()));
        // A damaged region is asked for once more, alone; the others are read once.
        let again_bytes = read_bytes - sound_bytes;
        let damaged_bytes = (DAMAGED.len() * REGION_BYTES) as u64;
        assert!(
            (damaged_bytes..damaged_bytes + damaged_bytes / 50).contains(&again_bytes),
            "time {nth}: {again_bytes}"
        );
    }
    damage(&disk, &file);
    let (found, _) = scrub(&pool, 256 << 10);
    assert_eq!(
        (found.damaged.len(), found.taken_back.len()),
        (0, DAMAGED.len())
    );
}

#[test]
fn sound_containers_are_read_once_in_order_whatever_the_steps() {
    let (disk, pool, _) = pool_of_one(2);
    let files = disk.image().files();
    let lengths = files.iter().filter(|(p, _)| p.starts_with("containers/"));
    // Afterwards the catalog is in memory.
    scrub(&pool, 1 << 20);
    for step_bytes in [4096u64, 64 << 10, 1 << 20] {
        let before = disk.counts().reads;
        let (found, read_bytes) = scrub(&pool, step_bytes);
        assert!(found.is_empty());
        let (mut reads, mut bytes) = (0, 0);
        for (_, len) in lengths.clone() {
            reads += len.div_ceil(step_bytes);
            bytes += len;
        }
        assert_eq!(read_bytes, bytes);
        assert_eq!(disk.counts().reads - before, reads, "steps of {step_bytes}");
    }
}

/// A seek to the directory and back costs more than reading a few regions again.
#[test]
fn few_regions_that_readers_have_verified_are_read_again_in_order() {
    let (_disk, pool, _) = pool_of_one(2);
    let (_, all_bytes) = scrub(&pool, 1 << 20);
    let duet = Duet::new(duet::DuetOptions {
        items_max: 1 << 16,
        seed: 1,
    });
    pool.tell_of_reads(&duet);
    let root = pool.snapshots().unwrap()[0].root;
    for (regions, saves) in [(2, false), (REGIONS * 3 / 4, true)] {
        let mut scrubber = Scrubber::new(Arc::clone(&pool), Arc::clone(&duet));
        scrubber.start(None).unwrap();
        let mut read = vec![0; regions * REGION_BYTES];
        pool.reader().read_object(&root, 0, &mut read).unwrap();
        let (_, read_bytes) = finish(scrubber, 1 << 20);
        // The few regions of recipes are not read again either way.
        let saved_bytes = all_bytes - read_bytes;
        assert_eq!(saved_bytes > 128 << 10, saves, "{regions} regions");
    }
}

#[test]
fn a_restored_container_is_read_anew() {
    for step_bytes in [1, 256 << 10, 64 << 20] {
        let (disk, pool, file) = pool_of_one(30);
        let before = disk.image().contents(&file);
        damage(&disk, &file);
        let (found, _) = scrub(&pool, step_bytes);
        assert_eq!(found.damaged.len(), 1, "the first restores the others");
        assert!(found.damaged[0].is_restored());
        assert_eq!(disk.image().contents(&file), before);
        assert!(scrub(&pool, step_bytes).0.is_empty());
        assert!(!pool.reader().knows_damage());
    }
}

//! The scrub over real pools on a simulated disk: what it reads, what it finds, how it resumes.

use chunking::Compression;
use duet::Duet;
use format::container::{ContainerHeader, HEADER_BYTES, REGION_HEADER_BYTES, SECTOR_BYTES};
use format::phase::TaskPhase;
use maintenance::{MaintenanceTask, ScrubFindings, ScrubNews, Scrubber, TaskStep};
use sim::pool_histories::check_all;
use sim::{Damage, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, OpenMode, Pool};
use testkit::specimen::{Specimen, noise, options, store_image};

const WITH: Compression = Compression::Zstd(1);

struct World {
    of: Specimen,
    disk: Arc<SimDisk>,
}

impl World {
    fn new(seed: u64) -> Self {
        let of = Specimen::new(seed, true);
        Self {
            disk: of.disk(),
            of,
        }
    }

    fn open(&self) -> Arc<Pool> {
        Arc::new(self.of.open(&self.disk, 7, OpenMode::Write).unwrap())
    }
}

fn duet() -> Arc<Duet> {
    Duet::new(duet::DuetOptions {
        items_max: 1 << 16,
        seed: 1,
    })
}

/// Runs to the end, in small steps.
fn run(scrubber: &mut Scrubber) -> ScrubFindings {
    let mut found = ScrubFindings::default();
    for _ in 0..1_000_000 {
        let step = scrubber.step(0, 10_000).unwrap();
        match step {
            TaskStep::News(ScrubNews {
                found: more,
                unread: None,
            }) => {
                found.damaged.extend(more.damaged);
                found.taken_back.extend(more.taken_back);
            }
            TaskStep::Worked { .. } => {}
            TaskStep::Finished => return found,
            other => panic!("{other:?}"),
        }
    }
    panic!("no end");
}

fn data_bytes(pool: &Pool) -> u64 {
    check_all(pool).unwrap().data_bytes
}

#[test]
fn every_region_of_every_container_is_read_once() {
    let world = World::new(1);
    let pool = world.open();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    assert_eq!(scrubber.status().verified(), None);
    scrubber.start(None).unwrap();
    assert!(run(&mut scrubber).is_empty());
    let status = scrubber.status();
    assert_eq!(status.phase, TaskPhase::AtRest);
    assert!(status.verified().is_some());
    let last = status.last;
    assert_eq!(last.containers, pool.record().containers);
    assert_eq!((last.cached_bytes, last.damaged), (0, 0));
    assert_eq!(last.read_bytes, pool.record().stored_bytes);
    assert!(last.read_bytes > data_bytes(&pool));
}

/// A seek for each region, or back from each directory, would cost more than all bytes.
#[test]
fn a_container_is_read_from_its_first_byte_to_its_last() {
    let world = World::new(1);
    let pool = world.open();
    let mut reads = [0, 0];
    for (reads, step_bytes) in reads.iter_mut().zip([1, 1 << 20]) {
        let mut scrubber = Scrubber::alone(Arc::clone(&pool));
        scrubber.start(None).unwrap();
        let before = world.disk.counts().reads;
        while !matches!(scrubber.step(0, step_bytes).unwrap(), TaskStep::Finished) {}
        *reads = world.disk.counts().reads - before;
    }
    let [single, together] = reads;
    let containers = pool.record().containers;
    assert!(single > 4 * containers, "bytes enough to tell");
    assert_eq!(together, containers, "one read each");
}

#[test]
fn what_a_reader_has_verified_is_not_read_again() {
    let world = World::new(2);
    let pool = world.open();
    let duet = duet();
    pool.tell_of_reads(&duet);
    let mut alone = Scrubber::alone(Arc::clone(&pool));
    alone.start(None).unwrap();
    run(&mut alone);
    let all_bytes = alone.status().last.read_bytes;

    let mut scrubber = Scrubber::new(Arc::clone(&pool), Arc::clone(&duet));
    // Reads before the pass began do not count.
    let reads_before = pool.read_counts().region_reads;
    assert!(reads_before > 0, "the catalog");
    scrubber.start(None).unwrap();
    for truth in &world.of.truths {
        assert!(truth.restore(&pool).unwrap().is_empty());
    }
    let regions_read = pool.read_counts().region_reads - reads_before;
    assert!(regions_read > 10, "{regions_read}");
    assert!(run(&mut scrubber).is_empty());
    let last = scrubber.status().last;
    // A container that readers have read in part is not read in order: its padding is not read.
    let seen_bytes = last.read_bytes + last.cached_bytes;
    assert!((data_bytes(&pool)..=all_bytes).contains(&seen_bytes));
    assert!(
        last.cached_bytes > all_bytes / 4,
        "{} of {all_bytes} bytes were verified by readers",
        last.cached_bytes
    );
    // A second pass relies on none of them.
    scrubber.start(None).unwrap();
    run(&mut scrubber);
    assert_eq!(scrubber.status().last.read_bytes, all_bytes);
}

/// While a pass waits for the device, clients read more regions than the table of events holds. The
/// events that found no space are lost, and no others.
#[test]
fn an_overflow_of_events_takes_no_more_than_it_must() {
    let world = World::new(2);
    let pool = world.open();
    let duet = Duet::new(duet::DuetOptions {
        items_max: 1,
        seed: 1,
    });
    pool.tell_of_reads(&duet);
    let mut scrubber = Scrubber::new(Arc::clone(&pool), duet);
    scrubber.start(None).unwrap();
    let before = pool.read_counts().region_reads;
    for truth in &world.of.truths {
        assert!(truth.restore(&pool).unwrap().is_empty());
    }
    // The table has space for one in each of 64 shards: some of so many share one.
    let read = pool.read_counts().region_reads - before;
    assert!(read > 20, "{read} regions");
    assert!(run(&mut scrubber).is_empty());
    assert!(scrubber.status().last.cached_bytes > 0);
}

#[test]
fn a_pause_and_a_restart_go_on_where_it_was() {
    let world = World::new(3);
    let pool = world.open();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    run(&mut scrubber);
    let whole = scrubber.status().last;
    scrubber.start(None).unwrap();
    while scrubber.status().pass.containers < whole.containers / 2 {
        scrubber.step(0, 10_000).unwrap();
    }
    scrubber.pause().unwrap();
    let done = scrubber.status().pass.containers;
    assert!(matches!(scrubber.step(0, 1).unwrap(), TaskStep::Idle));
    drop((scrubber, pool));

    let pool = world.open();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    let status = scrubber.status();
    assert_eq!(status.phase, TaskPhase::Paused);
    assert_eq!((status.pass.containers, status.last), (done, whole));
    scrubber.start(None).unwrap();
    let before = scrubber.status().pass.read_bytes;
    run(&mut scrubber);
    let last = scrubber.status().last;
    assert_eq!(last.containers, whole.containers);
    let left = last.read_bytes - before;
    assert!(left < whole.read_bytes, "{left} of {}", whole.read_bytes);
    // At most one container that was in progress is begun anew.
    assert!(last.read_bytes <= whole.read_bytes + (60 << 10));
}

#[test]
fn a_lost_or_torn_record_costs_work_only() {
    let world = World::new(4);
    let pool = world.open();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    run(&mut scrubber);
    scrubber.record().unwrap();
    let whole = scrubber.status().last;
    scrubber.start(None).unwrap();
    scrubber.step(0, 10_000).unwrap();
    scrubber.record().unwrap();
    let slots = ["cache/scrub.1", "cache/scrub.0"];
    // The newer one is torn: the older one has the result of the last pass.
    world
        .disk
        .damage(slots[1], &Damage::FlipBit(8 * 60))
        .unwrap();
    let older = Scrubber::alone(Arc::clone(&pool));
    assert_eq!(older.status().last, whole);
    assert_eq!(older.status().phase, TaskPhase::AtRest);
    world.disk.damage(slots[0], &Damage::SetLen(90)).unwrap();
    let mut none = Scrubber::alone(Arc::clone(&pool));
    assert_eq!(none.status().verified(), None);
    none.start(None).unwrap();
    run(&mut none);
    assert_eq!(none.status().last.read_bytes, whole.read_bytes);
}

/// Files of new containers.
fn new_containers(disk: &SimDisk, before: &[(String, u64)]) -> Vec<(String, u64)> {
    let mut files = disk.image().files_below("containers");
    files.retain(|file| !before.contains(file));
    files.sort_by_key(|(_, len)| *len);
    files
}

#[test]
fn damage_without_a_duplicate_is_quarantined_named_and_never_deduplicated_against() {
    let world = World::new(5);
    let pool = world.open();
    let before = world.disk.image().files();
    let bytes = noise(77, 60_000);
    let truth = store_image(&pool, "new", &bytes, WITH);
    let (file, len) = new_containers(&world.disk, &before).pop().unwrap();
    world
        .disk
        .damage(&file, &Damage::FlipBit(8 * (len / 2)))
        .unwrap();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    assert_eq!(found.damaged.len(), 1, "{found:?}");
    let damaged = &found.damaged[0];
    assert!(!damaged.is_known && !damaged.is_repaired() && damaged.chunks > 0);
    assert_eq!(damaged.chunks_elsewhere, 0);
    assert_eq!(scrubber.status().last.damaged, 1);
    // Not in the catalog yet, but this process already ignores the region.
    assert_eq!(pool.health().quarantined(), [damaged.place]);
    pool.note_damage(&[], options(WITH)).unwrap();
    drop((scrubber, pool));

    let pool = world.open();
    assert_eq!(
        pool.health().quarantined().len(),
        1,
        "the next process knows"
    );
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let report = pool.check(CheckDepth::Structure, go_on).unwrap();
    let affected: Vec<_> = report.affected.iter().map(|a| a.snapshot).collect();
    assert_eq!(affected, [truth.snapshot.id]);
    store_image(&pool, "again", &bytes, WITH);
    assert!(truth.restore(&pool).unwrap().is_empty(), "whole again");

    // Now there is a duplicate: the damage loses nothing, and it is known.
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    assert_eq!(found.damaged.len(), 1);
    assert!(found.damaged[0].is_known && found.damaged[0].is_repaired());

    // The device returns the right bytes again.
    world
        .disk
        .damage(&file, &Damage::FlipBit(8 * (len / 2)))
        .unwrap();
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    assert_eq!((found.damaged.len(), found.taken_back.len()), (0, 1));
    pool.note_damage(&[], options(WITH)).unwrap();
    assert_eq!(pool.health().quarantined(), []);
}

#[test]
fn a_damaged_duplicate_hurts_no_reader() {
    let world = World::new(6);
    let bytes = noise(78, 60_000);
    let pool = world.open();
    let before = world.disk.image().files();
    let truth = store_image(&pool, "new", &bytes, WITH);
    let (file, len) = new_containers(&world.disk, &before).pop().unwrap();
    let flip = Damage::FlipBit(8 * (len / 2));
    // Twice in the pool: once quarantined, stored anew, and intact again.
    world.disk.damage(&file, &flip).unwrap();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    assert_eq!(run(&mut scrubber).damaged.len(), 1);
    store_image(&pool, "again", &bytes, WITH);
    world.disk.damage(&file, &flip).unwrap();
    scrubber.start(None).unwrap();
    assert_eq!(run(&mut scrubber).taken_back.len(), 1);
    pool.note_damage(&[], options(WITH)).unwrap();
    drop((scrubber, pool));

    world.disk.damage(&file, &flip).unwrap();
    let pool = world.open();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    assert_eq!(found.damaged.len(), 1);
    assert!(!found.damaged[0].is_known && found.damaged[0].is_repaired());
    pool.note_damage(&[], options(WITH)).unwrap();
    assert!(truth.restore(&pool).unwrap().is_empty());
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let report = pool.check(CheckDepth::Structure, go_on).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn a_container_without_its_directory_is_stored_anew_and_a_missing_one_is_reported() {
    let world = World::new(7);
    let pool = world.open();
    let before = world.disk.image().files();
    let truth = store_image(&pool, "new", &noise(79, 60_000), WITH);
    let (file, len) = new_containers(&world.disk, &before).pop().unwrap();
    let mut bytes = vec![0; len as usize];
    let opened = media::Disk::open_read(&*world.disk, &file).unwrap();
    opened.read_at(0, &mut bytes).unwrap();
    let header = ContainerHeader::decode(&bytes[..HEADER_BYTES], false).unwrap();
    let directory = u64::from(header.directory_sector) * u64::from(SECTOR_BYTES);
    let at = directory + REGION_HEADER_BYTES as u64 + 4;
    world.disk.damage(&file, &Damage::FlipBit(8 * at)).unwrap();
    drop(pool);
    let pool = world.open();
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    let whole: Vec<_> = found.damaged.iter().map(|d| d.place).collect();
    assert!(whole.iter().any(|place| place.is_whole()), "{found:?}");
    let salvaged = pool.note_damage(&whole, options(WITH)).unwrap();
    assert!(salvaged.chunks_new > 0);
    world.disk.damage(&file, &Damage::Delete).unwrap();
    drop((scrubber, pool));
    let pool = world.open();
    assert!(truth.restore(&pool).unwrap().is_empty());
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    scrubber.start(None).unwrap();
    let found = run(&mut scrubber);
    assert!(found.damaged[0].why.contains("missing"), "{found:?}");
}

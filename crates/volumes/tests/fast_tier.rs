//! Costs of the fast tier below volumes, in reads and in chunks offered: what random readers,
//! sequential readers and checkpoints bring into it, what a policy and each switch change.

use crate::noise_volume;
use crate::small_volumes;

use classes::{ClassSettings, Priority, Share};
use noise_volume::*;
use sim::{Image, SimDisk};
use small_volumes::CONTEXT;
use ssd_tier::{Kind, KindShares, Tier, TierOptions, TierSettings, TierState};
use std::ops::Range;
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::noise;
use units::{IoClass, UnixNanos};
use volume::{Durability, RequestContext, Volume};
use volumes::{Switches, Volumes, VolumesOptions};

const BLOCK_BYTES: u32 = 512 << 10;
const AROUND_BYTES: u64 = 128 << 10;

/// Volumes with a fast tier.
struct World {
    tier: Arc<Tier>,
    volumes: Volumes,
    now: i64,
}

fn ample() -> TierOptions {
    TierOptions {
        capacity_bytes: 256 << 20,
        memory_bytes: 32 << 20,
        block_bytes: BLOCK_BYTES,
        daily_writes_hundredths: u32::MAX,
        is_reading: false,
    }
}

impl World {
    fn new(disk: &Arc<SimDisk>, fast: &Arc<SimDisk>, switches: Switches) -> Self {
        Self::with(disk, fast, switches, ample(), KindShares::ALONE)
    }

    fn with(
        disk: &Arc<SimDisk>,
        fast: &Arc<SimDisk>,
        switches: Switches,
        tier: TierOptions,
        shares: KindShares,
    ) -> Self {
        Self::with_memory(disk, fast, &options(switches, 256 << 20), tier, shares)
    }

    fn with_memory(
        disk: &Arc<SimDisk>,
        fast: &Arc<SimDisk>,
        options: &VolumesOptions,
        tier: TierOptions,
        shares: KindShares,
    ) -> Self {
        let pool = Pool::open(
            testkit::specimen::media(disk, 2),
            None,
            OpenMode::Write,
            64 << 20,
        );
        let pool = Arc::new(pool.expect("pool"));
        let settings = TierSettings::new(shares);
        let tier = pool.use_fast_tier(Arc::<SimDisk>::clone(fast), tier, settings);
        let volumes = Volumes::open(pool, options).expect("volumes");
        let mut world = Self {
            tier,
            volumes,
            now: 0,
        };
        world.settle();
        world
    }

    fn settle(&mut self) {
        loop {
            self.now += 1_000_000_000;
            if !self.tier.step(UnixNanos(self.now), 8 << 20).has_more {
                break;
            }
        }
    }

    fn finish(mut self) {
        self.settle();
        self.tier.finish(UnixNanos(self.now));
    }

    /// Reads pages, fetching what was queued after each.
    fn read_pages(&mut self, pages: &[u64]) {
        let volume = self.volumes.volume("v").expect("volume");
        for page in pages {
            expect_page(&volume, *page);
            while self.volumes.fetch_step() {}
            self.settle();
        }
    }

    /// Returns how many data chunks were read from blocks.
    fn data_hits(&self) -> u64 {
        let classes = self.tier.status().classes;
        let of_data = classes.iter().filter(|c| c.class.kind == Kind::Data);
        of_data.map(|c| c.hits).sum()
    }

    fn kept(&self, kind: Kind) -> u64 {
        let classes = self.tier.status().classes;
        let of_kind = classes.iter().filter(|c| c.class.kind == kind);
        of_kind.map(|c| c.bytes_written).sum()
    }
}

fn empty() -> Arc<SimDisk> {
    SimDisk::unrecorded(Image::new())
}

/// Pages 512 KiB apart, in random order: no request is near another.
fn scattered() -> Vec<u64> {
    let pages = shuffled(5);
    pages.into_iter().filter(|page| page % 128 == 77).collect()
}

#[test]
fn the_surroundings_of_random_requests_are_there_after_a_restart() {
    let (disk, fast) = (disk_with_a_volume(), empty());
    let mut world = World::new(&disk, &fast, Switches::default());
    let pages = scattered();
    world.read_pages(&pages);
    let counters = world.volumes.decision_counters();
    let judged = counters.judged_random + counters.judged_monotonic;
    assert!(judged >= pages.len() as u64 - 17, "{counters:?}");
    assert_eq!(
        counters.around_planned_bytes,
        counters.judged_random * AROUND_BYTES
    );
    assert_eq!(counters.around_dropped_bytes, 0);
    // A window of 128 KiB has eight regions of 16 KiB, or parts of nine.
    let windows = counters.judged_random;
    assert!(counters.around_regions <= windows * 9, "{counters:?}");
    assert!(counters.around_chunks <= windows * 32, "{counters:?}");
    assert!(counters.around_chunks >= windows * 28, "{counters:?}");
    world.finish();
    // Not the first requests: their history was too short.
    let world = World::new(&disk, &fast, Switches::default());
    let mut near = Vec::new();
    for page in &pages[pages.len() - 40..] {
        near.extend([page - 13, page + 9]);
    }
    let volume = world.volumes.volume("v").expect("volume");
    let found = near.iter().filter(|page| {
        let before = world.volumes.decision_counters().region_reads;
        expect_page(&volume, **page);
        world.volumes.decision_counters().region_reads == before
    });
    let found = found.count();
    assert!(found * 10 >= near.len() * 9, "{found} of {}", near.len());
}

#[test]
fn a_client_pays_nothing_for_the_surroundings() {
    let disk = disk_with_a_volume();
    let reads = |switches: Switches| {
        let world = World::new(&disk, &empty(), switches);
        let volume = world.volumes.volume("v").expect("volume");
        let before = disk.counts().reads;
        scattered().iter().for_each(|p| expect_page(&volume, *p));
        (
            disk.counts().reads - before,
            world.volumes.decision_counters().around_planned_bytes,
        )
    };
    let (with, planned) = reads(Switches::default());
    let (without, none) = reads(without(|s| s.fast_tier_prefetch = false));
    assert_eq!(with, without);
    assert!(planned > 0 && none == 0, "{planned} {none}");
}

/// The queue is bounded: the first windows are fetched, later ones are dropped.
#[test]
fn surroundings_that_are_not_fetched_are_dropped() {
    let disk = disk_with_a_volume();
    let world = World::new(&disk, &empty(), Switches::default());
    let volume = world.volumes.volume("v").expect("volume");
    scattered().iter().for_each(|p| expect_page(&volume, *p));
    let counters = world.volumes.decision_counters();
    let queued = counters.around_planned_bytes - counters.around_dropped_bytes;
    assert!(counters.around_dropped_bytes > 0, "{counters:?}");
    assert!(queued <= 2 << 20, "{counters:?}");
}

#[test]
fn nothing_is_fetched_that_the_tier_does_not_want() {
    let disk = disk_with_a_volume();
    let pages = scattered();
    let planned = |switches, options, shares| {
        let mut world = World::with(&disk, &empty(), switches, options, shares);
        world.read_pages(&pages);
        let counters = world.volumes.decision_counters();
        (counters.around_planned_bytes, counters.around_regions)
    };
    let (usual, alone) = (Switches::default(), KindShares::ALONE);
    assert!(planned(usual, ample(), alone).0 > 0);
    let dirty = TierOptions {
        daily_writes_hundredths: 0,
        ..ample()
    };
    // An empty tier may write one block.
    let (bytes, _) = planned(usual, dirty, alone);
    assert!(bytes <= 8 * AROUND_BYTES, "{bytes}");
    let no_data = KindShares {
        data: classes::Share::NONE,
        ..alone
    };
    assert_eq!(planned(usual, ample(), no_data), (0, 0));
    let off = without(|s| s.fast_tier_prefetch = false);
    assert_eq!(planned(off, ample(), alone), (0, 0));
}

#[test]
fn a_warm_tier_has_nothing_fetched_and_a_read_from_it_reads_no_container() {
    let (disk, fast) = (disk_with_a_volume(), empty());
    let mut world = World::new(&disk, &fast, Switches::default());
    world.read_pages(&scattered());
    world.finish();
    let mut world = World::new(&disk, &fast, Switches::default());
    // Opening the pool read its catalog before the tier was open.
    let opened = world.volumes.decision_counters();
    world.read_pages(&scattered());
    let counters = world.volumes.decision_counters();
    assert_eq!(counters.region_reads, opened.region_reads, "{counters:?}");
    assert_eq!(counters.around_planned_bytes, 0, "{counters:?}");
}

#[test]
fn sequential_readers_bring_nothing() {
    let disk = disk_with_a_volume();
    let mut world = World::new(&disk, &empty(), Switches::default());
    let volume = world.volumes.volume("v").expect("volume");
    for n in 0..SIZE >> 16 {
        read(&volume, n << 16, 64 << 10);
        while world.volumes.fetch_step() {}
    }
    drop(volume);
    world.settle();
    world.tier.finish(UnixNanos(world.now));
    assert_eq!(world.volumes.decision_counters().around_planned_bytes, 0);
    // The first request is no stream yet.
    let data = world.kept(Kind::Data);
    assert!(data <= 5 * REGION_BYTES, "{data}");
    let nodes = world.kept(Kind::Recipe);
    assert!(
        nodes <= 5 * REGION_BYTES,
        "{nodes}: others were missed once"
    );
}

const METADATA: IoClass = IoClass(1);
const BULK: IoClass = IoClass(2);

/// Metadata is important, bulk is not.
fn policy() -> TierSettings {
    let mut settings = TierSettings::new(KindShares::ALONE);
    for (class, priority) in [(METADATA, 10), (BULK, 150)] {
        let (priority, share) = (Priority::Evictable(priority), Share::ALL);
        settings.set(class, ClassSettings { priority, share });
    }
    settings
}

fn of(class: IoClass) -> RequestContext {
    RequestContext { class, ..CONTEXT }
}

/// Reads `bytes` in order, in requests of `len` bytes, and what is fetched ahead for them.
fn stream(world: &mut World, class: IoClass, bytes: Range<u64>, len: u64) {
    let volume = world.volumes.volume("v").expect("volume");
    let mut into = vec![0; len as usize];
    for at in bytes.step_by(len as usize) {
        let read = volume.read(of(class), at, &mut into);
        read.expect("read");
        while world.volumes.fetch_step() {}
        world.settle();
    }
}

/// Returns how many of the pages come from the tier.
fn pages_of_tier(world: &World, bytes: Range<u64>) -> u64 {
    let volume = world.volumes.volume("v").expect("volume");
    let from_tier = bytes.step_by(4096).filter(|at| {
        let before = world.data_hits();
        expect_page(&volume, at >> 12);
        world.data_hits() > before
    });
    from_tier.count() as u64
}

#[test]
fn a_policy_brings_what_is_important_whatever_the_pattern() {
    let disk = disk_with_a_volume();
    let by_class = (Switches::default(), true);
    for (switches, is_by_class) in [by_class, (without(|s| s.fast_tier_by_class = false), false)] {
        let fast = empty();
        let mut world = World::new(&disk, &fast, switches);
        world.tier.set_settings(policy());
        // Short requests that follow each other, long ones, and a stream of something else.
        let (short, middle, long) = (0..2 << 20, 8 << 20..10 << 20, 16 << 20..18 << 20);
        stream(&mut world, METADATA, short.clone(), 4 << 10);
        stream(&mut world, METADATA, middle.clone(), 64 << 10);
        stream(&mut world, METADATA, long.clone(), 256 << 10);
        stream(&mut world, BULK, 32 << 20..40 << 20, 64 << 10);
        stream(&mut world, BULK, 48 << 20..56 << 20, 256 << 10);
        world.finish();
        let world = World::new(&disk, &fast, Switches::default());
        for bytes in [short, middle, long] {
            let found = pages_of_tier(&world, bytes.clone());
            // The first requests are no stream yet.
            let is_right = if is_by_class {
                found == 512
            } else {
                found <= 20
            };
            assert!(is_right, "{found} in {bytes:?}");
        }
        let found = pages_of_tier(&world, 32 << 20..56 << 20);
        assert_eq!(found, 0, "bulk");
    }
}

/// A guest's metadata is often written long before the journal is full, and bulk pushes it out of
/// memory until then.
#[test]
fn what_left_memory_before_its_checkpoint_keeps_its_class() {
    let (disk, fast) = (disk_with_a_volume(), empty());
    let memory = options(Switches::default(), 1 << 20);
    let mut world = World::with_memory(&disk, &fast, &memory, ample(), KindShares::ALONE);
    world.tier.set_settings(policy());
    let volume = world.volumes.volume("v").expect("volume");
    let write = |class, at: u64, bytes: &[u8]| {
        for (nth, part) in (0..).zip(bytes.chunks(64 << 10)) {
            let written = volume.write(of(class), at + (nth << 16), part, Durability::Volatile);
            written.expect("write");
        }
    };
    let important = noise(7, 512 << 10);
    write(METADATA, 0, &important);
    write(BULK, 16 << 20, &noise(8, 3 << 20));
    world.volumes.checkpoint().expect("checkpoint");
    world.settle();
    let reader = Arc::clone(world.volumes.pool().reader());
    let is_found = |page: &&[u8]| world.tier.contains(&reader.fingerprint(page));
    assert_eq!(important.chunks(4096).filter(is_found).count(), 128);
    assert_eq!(noise(8, 3 << 20).chunks(4096).filter(is_found).count(), 0);
}

/// Otherwise blocks of important classes would stay full of bytes that no volume has any more.
#[test]
fn the_tier_forgets_what_a_checkpoint_replaced() {
    let (disk, fast) = (disk_with_a_volume(), empty());
    let mut world = World::new(&disk, &fast, Switches::default());
    world.tier.set_settings(policy());
    let bytes = 0..1u64 << 20;
    stream(&mut world, METADATA, bytes.clone(), 64 << 10);
    let volume = world.volumes.volume("v").expect("volume");
    let reader = Arc::clone(world.volumes.pool().reader());
    let names: Vec<_> = bytes
        .step_by(4096)
        .map(|at| {
            let mut page = vec![0; 4096];
            volume.read(of(METADATA), at, &mut page).expect("read");
            reader.fingerprint(&page)
        })
        .collect();
    let found = |world: &World| names.iter().filter(|n| world.tier.contains(n)).count();
    assert_eq!(found(&world), 256);
    for (at, part) in (0..).zip(noise(99, 512 << 10).chunks(64 << 10)) {
        let written = volume.write(of(BULK), at << 16, part, Durability::Volatile);
        written.expect("write");
    }
    world.volumes.checkpoint().expect("checkpoint");
    assert_eq!(found(&world), 128, "the other half was not written");
    for (at, part) in (8..).zip(noise(98, 448 << 10).chunks(64 << 10)) {
        let written = volume.write(of(BULK), at << 16, part, Durability::Volatile);
        written.expect("write");
    }
    world.volumes.checkpoint().expect("checkpoint");
    assert!(found(&world) <= 16);
}

/// The bytes that a request names are important, and not what read-ahead fetched behind them.
#[test]
fn what_was_read_ahead_enters_when_it_is_asked_for() {
    let (disk, fast) = (disk_with_a_volume(), empty());
    let mut world = World::new(&disk, &fast, Switches::default());
    world.tier.set_settings(policy());
    stream(&mut world, METADATA, 0..1 << 20, 16 << 10);
    let counters = world.volumes.decision_counters();
    assert!(counters.fetch_planned_bytes > 1 << 20, "{counters:?}");
    stream(&mut world, BULK, 1 << 20..3 << 20, 16 << 10);
    world.finish();
    let world = World::new(&disk, &fast, Switches::default());
    assert_eq!(pages_of_tier(&world, 0..1 << 20), 256);
    assert_eq!(pages_of_tier(&world, 1 << 20..4 << 20), 0);
}

#[test]
fn checkpoints_bring_what_is_important() {
    for (switches, brought) in [
        (Switches::default(), 100),
        (without(|s| s.fast_tier_by_class = false), 0),
    ] {
        let (disk, fast) = (disk_with_a_volume(), empty());
        let world = World::new(&disk, &fast, switches);
        world.tier.set_settings(policy());
        let volume = world.volumes.volume("v").expect("volume");
        let write = |class, page: u64| {
            let bytes = noise(1000 + page, 4096);
            let written = volume.write(of(class), page << 12, &bytes, Durability::Volatile);
            written.expect("write");
        };
        (0..100).for_each(|n| write(METADATA, 3 * n));
        (0..100).for_each(|n| write(BULK, 3 * n + 1));
        world.volumes.checkpoint().expect("checkpoint");
        let counters = world.volumes.decision_counters();
        assert_eq!(counters.important_chunks, brought, "{counters:?}");
        drop(volume);
        // Nothing was read, and it is there.
        world.finish();
        let world = World::new(&disk, &fast, Switches::default());
        let volume = world.volumes.volume("v").expect("volume");
        let hits = |first: u64| {
            let before = world.data_hits();
            for page in (0..100).map(|n| 3 * n + first) {
                let found = read(&volume, page << 12, 4096);
                assert!(found == noise(1000 + page, 4096), "{page}");
            }
            world.data_hits() - before
        };
        assert_eq!((hits(0), hits(1)), (brought, 0));
    }
}

/// The recipe's nodes are not cached as data.
#[test]
fn kinds_without_a_share_are_not_kept() {
    let disk = disk_with_a_volume();
    for without in [Kind::Data, Kind::Recipe] {
        let (mut shares, none) = (KindShares::ALONE, classes::Share::NONE);
        let other = match without {
            Kind::Data => {
                shares.data = none;
                Kind::Recipe
            }
            _ => {
                shares.recipes = none;
                Kind::Data
            }
        };
        let mut world = World::with(&disk, &empty(), Switches::default(), ample(), shares);
        world.read_pages(&scattered());
        world.settle();
        world.tier.finish(UnixNanos(world.now));
        assert_eq!(world.kept(without), 0, "{without:?}");
        assert!(world.kept(other) > 0, "{without:?}");
    }
}

/// Writes do not fill the tier, except for chunks that were read to be changed in part.
#[test]
fn checkpoints_bring_the_chunks_that_they_change_in_part() {
    for (switches, modified) in [
        (Switches::default(), 100),
        (without(|s| s.fast_tier_modified = false), 0),
    ] {
        let (disk, fast) = (disk_with_a_pool(), empty());
        let world = World::new(&disk, &fast, switches);
        let volume = world.volumes.create("w", 32 << 20, 16).expect("create");
        let write = |at: u64, bytes: &[u8]| {
            let written = volume.write(CONTEXT, at, bytes, Durability::Volatile);
            written.expect("write");
        };
        (0..256).for_each(|n| write(n << 16, &noise(n, 64 << 10)));
        // Parts of chunks where nothing was.
        (300..310).for_each(|n| write(n << 16, &noise(n, 4 << 10)));
        world.volumes.checkpoint().expect("checkpoint");
        let data = |world: &World| world.tier.status().staged_bytes + world.kept(Kind::Data);
        assert_eq!(world.volumes.decision_counters().modified_chunks, 0);
        let before = data(&world);
        (0..100).for_each(|n| write((2 * n) << 16, &noise(1000 + n, 4 << 10)));
        // Whole ones.
        (200..210).for_each(|n| write(n << 16, &noise(2000 + n, 64 << 10)));
        world.volumes.checkpoint().expect("checkpoint");
        let counters = world.volumes.decision_counters();
        assert_eq!(counters.modified_chunks, modified, "{counters:?}");
        let brought = data(&world) - before;
        let expected = modified * (64 << 10);
        // Recipe nodes are there too.
        let nodes = 64 << 10;
        assert!(
            (expected..=expected + expected / 20 + nodes).contains(&brought),
            "{brought} of {expected}"
        );
        assert!(matches!(
            world.tier.status().state,
            TierState::Ready | TierState::NotWritten { .. }
        ));
        drop(volume);
        // It is the new contents that are there.
        world.finish();
        let world = World::new(&disk, &fast, switches);
        let volume = world.volumes.volume("w").expect("volume");
        let hits = world.tier.status().hits;
        for n in 0..100 {
            let found = read(&volume, (2 * n) << 16, 64 << 10);
            let old = noise(2 * n, 64 << 10);
            assert!(found[..4096] == noise(1000 + n, 4 << 10)[..], "{n}");
            assert!(found[4096..] == old[4096..], "{n}");
        }
        let hits = world.tier.status().hits - hits;
        assert!(modified == 0 || hits >= modified * 9 / 10, "{hits}");
    }
}

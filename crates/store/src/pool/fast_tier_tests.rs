//! Reads with a fast tier: hits, admission, and a tier that is lost or lies.

use super::Pool;
use super::approach_tests::Caller;
use crate::testing::small::{LANE, make, open};
use classes::{Admission, ClassSettings, Priority, Share};
use media::{IoOrigin, SeededRandom};
use read_path::{Admit, Approach, Route};
use sim::{Damage, Fault, Image, SimDisk};
use ssd_tier::{Kind, KindShares, TierOptions, TierSettings, TierState};
use std::sync::Arc;
use units::{Fingerprint, IoClass, Origin, UnixNanos};

const COUNT: u64 = 40;

fn random_read() -> Approach {
    Approach {
        route: Route::Region,
        admit: Some(Admit::data(IoClass(3))),
        is_random: true,
        ..Approach::default()
    }
}

/// A pool with chunks of one size in several regions, and a disk for its tier.
struct World {
    pool_disk: Arc<SimDisk>,
    tier_disk: Arc<SimDisk>,
    chunks: Vec<(Fingerprint, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        let pool_disk = SimDisk::new();
        let pool = make(&pool_disk);
        let mut session = pool.begin(LANE).expect("session");
        let chunk = |n: u64| {
            let mut bytes = vec![0; 4096];
            media::Random::fill(&SeededRandom::new(n), &mut bytes);
            let fingerprint = session.main().store_chunk(&bytes).expect("store");
            (fingerprint, bytes)
        };
        let chunks = (0..COUNT).map(chunk).collect();
        pool.commit(session, &[], &[]).expect("commit");
        Self {
            pool_disk,
            tier_disk: SimDisk::new(),
            chunks,
        }
    }

    /// Opens the pool with its tier. Nothing is in memory.
    fn open(&self) -> Pool {
        let pool = open(&self.pool_disk);
        let options = TierOptions {
            capacity_bytes: 4 << 20,
            memory_bytes: 1 << 20,
            block_bytes: 64 << 10,
            daily_writes_hundredths: u32::MAX,
            is_reading: false,
        };
        let disk: Arc<dyn media::Disk> = Arc::<SimDisk>::clone(&self.tier_disk);
        let settings = TierSettings::new(KindShares::ALONE);
        let tier = pool.use_fast_tier(disk, options, settings);
        while tier.step(UnixNanos(1), 1 << 20).has_more {}
        pool
    }

    /// Reads all chunks. Returns the number of regions read, and of chunks from the tier.
    fn read_all(&self, pool: &Pool, approach: Approach) -> (u64, u64) {
        let tier = pool.fast_tier().expect("a tier");
        let (before, hits) = (pool.reader().counts().region_reads, tier.status().hits);
        for (fingerprint, bytes) in &self.chunks {
            let chunk = pool.reader().node(fingerprint, approach).expect("read");
            assert!(*chunk == **bytes);
        }
        let read = pool.reader().counts().region_reads - before;
        (read, tier.status().hits - hits)
    }

    /// Fills the tier as random readers do. Returns the image of its disk.
    fn fill(&self) -> Image {
        let pool = self.open();
        self.read_all(&pool, random_read());
        // A chunk is offered when its region is read; its neighbours came along.
        for (fingerprint, bytes) in &self.chunks {
            let reader = pool.reader();
            reader.offer_to_tier(fingerprint, random_read().admit, bytes);
        }
        let tier = pool.fast_tier().expect("a tier");
        tier.finish(UnixNanos(2));
        self.tier_disk.image()
    }
}

#[test]
fn random_reads_fill_the_tier_and_spare_the_pool() {
    let world = World::new();
    world.fill();
    let pool = world.open();
    assert_eq!(world.read_all(&pool, random_read()), (0, COUNT));
    let status = pool.fast_tier().expect("a tier").status();
    assert_eq!(status.classes.len(), 1);
    assert_eq!(status.classes[0].class.io, IoClass(3));
    assert_eq!(status.hits, COUNT);
    // Now they are in memory.
    assert_eq!(world.read_all(&pool, random_read()), (0, 0));
}

#[test]
fn each_region_read_at_random_offers_the_chunk() {
    let world = World::new();
    let pool = world.open();
    let (regions, _) = world.read_all(&pool, random_read());
    let tier = pool.fast_tier().expect("a tier");
    let here = world.chunks.iter().filter(|(f, _)| tier.contains(f));
    assert_eq!(here.count() as u64, regions);
    assert!(regions >= COUNT / 2);
}

#[test]
fn sequential_readers_do_not_fill_it() {
    let world = World::new();
    let pool = world.open();
    world.read_all(&pool, Approach::default());
    let tier = pool.fast_tier().expect("a tier");
    assert!(!world.chunks.iter().any(|(f, _)| tier.contains(f)));
}

#[test]
fn nodes_of_streams_enter_at_their_second_miss_and_for_clients_only() {
    let world = World::new();
    let pool = world.open();
    let tier = pool.fast_tier().expect("a tier");
    let read = || {
        for (fingerprint, _) in &world.chunks {
            let approach = Approach::default().of_recipe();
            let loaded = pool
                .reader()
                .load(fingerprint, approach, &Caller::keeping());
            assert!(loaded.is_ok(), "{fingerprint}");
        }
        let here = world.chunks.iter().filter(|(f, _)| tier.contains(f));
        here.count() as u64
    };
    for origin in [
        Origin::Restore,
        Origin::Backup,
        Origin::Replication,
        Origin::Scrub,
    ] {
        let _origin = IoOrigin::of(origin).begin();
        assert_eq!((read(), read()), (0, 0), "{origin:?}");
    }
    assert_eq!((read(), read()), (0, COUNT));
}

#[test]
fn what_the_tier_takes_of_a_class_follows_its_settings() {
    let world = World::new();
    let pool = world.open();
    let (reader, tier) = (pool.reader(), pool.fast_tier().expect("a tier"));
    let of = |class| reader.admission(IoClass(class));
    assert_eq!(of(3), Admission::ByPattern, "no policy");
    let mut settings = TierSettings::new(KindShares::ALONE);
    let priority = Priority::Evictable(1);
    let share = Share::ALL;
    settings.set(IoClass(3), ClassSettings { priority, share });
    tier.set_settings(settings);
    assert_eq!((of(3), of(4)), (Admission::Always, Admission::ByPattern));
    let _scrub = IoOrigin::of(Origin::Scrub).begin();
    assert_eq!(of(3), Admission::Never);
}

#[test]
fn recipe_nodes_are_kept_as_their_kind() {
    let world = World::new();
    let pool = world.open();
    world.read_all(&pool, random_read().of_recipe());
    let tier = pool.fast_tier().expect("a tier");
    tier.finish(UnixNanos(2));
    let classes = tier.status().classes;
    let kinds: Vec<Kind> = classes.iter().map(|class| class.class.kind).collect();
    assert_eq!(kinds, [Kind::Recipe]);
}

#[test]
fn maintenance_reads_the_pools_device_and_fills_nothing() {
    let world = World::new();
    world.fill();
    let pool = world.open();
    let _task = IoOrigin::of(Origin::Scrub).begin();
    let (regions, hits) = world.read_all(&pool, random_read());
    assert!(regions >= COUNT / 2 && hits == 0);
    let empty = World {
        tier_disk: SimDisk::new(),
        pool_disk: SimDisk::on(world.pool_disk.image()),
        chunks: world.chunks.clone(),
    };
    let pool = empty.open();
    empty.read_all(&pool, random_read());
    let tier = pool.fast_tier().expect("a tier");
    assert!(!world.chunks.iter().any(|(f, _)| tier.contains(f)));
}

/// Name of the only large file of the tier's disk.
fn tier_file(image: &Image) -> String {
    let files = image.files();
    let largest = files.iter().max_by_key(|file| file.1);
    largest.map(|file| file.0.clone()).expect("a file")
}

#[test]
fn whatever_happens_to_the_tier_the_bytes_are_the_same() {
    let world = World::new();
    let image = world.fill();
    let name = tier_file(&image);
    for damage in [
        Damage::FlipBit(8 * 40_000),
        Damage::FlipBit(8 * 33),
        Damage::SetLen(70_000),
        Damage::Replace(vec![1; 200_000]),
        Damage::Delete,
    ] {
        for in_mid_run in [false, true] {
            let damaged = World {
                tier_disk: SimDisk::on(image.clone()),
                pool_disk: SimDisk::on(world.pool_disk.image()),
                chunks: world.chunks.clone(),
            };
            let hurt = || damaged.tier_disk.damage(&name, &damage).expect("a file");
            if !in_mid_run {
                hurt();
            }
            let pool = damaged.open();
            if in_mid_run {
                hurt();
            }
            damaged.read_all(&pool, random_read());
        }
    }
    for fault in [Fault::Missing, Fault::Read { after: 2 }, Fault::ReadOnly] {
        let faulty = World {
            tier_disk: SimDisk::on(image.clone()),
            pool_disk: SimDisk::on(world.pool_disk.image()),
            chunks: world.chunks.clone(),
        };
        let pool = faulty.open();
        faulty.tier_disk.inject(fault);
        faulty.read_all(&pool, random_read());
        let state = pool.fast_tier().expect("a tier").status().state;
        assert!(
            state == TierState::Ready || fault != Fault::ReadOnly,
            "{state:?}"
        );
    }
}

#[test]
fn a_tier_of_another_pool_beside_it_is_left_alone() {
    let (first, second) = (World::new(), World::new());
    let image = first.fill();
    let shared = World {
        tier_disk: SimDisk::on(image),
        ..second
    };
    let pool = shared.open();
    let status = pool.fast_tier().expect("a tier").status();
    assert_eq!(status.state, TierState::Ready);
}

/// A read that a client waits for is evidence of its class, of the pool and of the tier.
#[test]
fn reads_of_clients_are_measured_and_others_are_not() {
    let world = World::new();
    let waiting = Approach {
        waiting: Some(IoClass(3)),
        ..random_read()
    };
    let evidence = |pool: &Pool| pool.fast_tier().expect("a tier").evidence(false);
    let pool = world.open();
    let (regions, _) = world.read_all(&pool, waiting);
    let of = evidence(&pool).classes[3].clone();
    // The first access of a class only divides the memory.
    assert_eq!((of.sampled, of.hits), (regions - 1, 0.0));
    assert!(of.pool_ns.is_some_and(|ns| ns > 0.0));
    assert_eq!(evidence(&pool).sampled(), of.sampled);
    drop(pool);
    world.fill();
    let pool = world.open();
    world.read_all(&pool, waiting);
    let of = evidence(&pool).classes[3].clone();
    assert_eq!((of.sampled, of.hits), (COUNT - 1, COUNT as f64 - 1.0));
    assert!(evidence(&pool).tier_ns.is_some_and(|ns| ns > 0.0));
    pool.fast_tier().expect("a tier").forget_evidence();
    assert_eq!(evidence(&pool).sampled(), 0);
    drop(pool);
    for origin in [Origin::Foreground, Origin::Scrub] {
        let pool = world.open();
        let is_maintenance = origin == Origin::Scrub;
        let _scope = IoOrigin {
            origin,
            ..IoOrigin::UNKNOWN
        }
        .begin();
        let approach = if is_maintenance {
            waiting
        } else {
            random_read()
        };
        world.read_all(&pool, approach);
        assert_eq!(evidence(&pool).sampled(), 0, "{origin:?}: no client waits");
    }
}

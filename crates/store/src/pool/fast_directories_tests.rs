//! Directories of containers in the fast tier: what a second read costs, who brings them, and a
//! tier that lies, is damaged, or belongs to an older state of the pool.

use super::Pool;
use crate::testing::{small, whole_run};
use crate::{InitOptions, NewSecret, OpenMode, SecretKey};
use chunk_store::chunk_map::Near;
use chunk_store::index::Location;
use classes::Share;
use media::{IoOrigin, Media, Random, SeededRandom};
use sim::{Damage, Image, SimDisk};
use ssd_tier::{Kind, KindShares, Offer, TierOptions, TierSettings};
use std::collections::BTreeSet;
use std::sync::Arc;
use units::{ContainerId, Fingerprint, IoClass, Origin, UnixNanos};

const COUNT: u64 = 60;

fn bytes_of(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    SeededRandom::new(n).fill(&mut bytes);
    bytes
}

fn open(disk: &Arc<SimDisk>, seed: u64, secret: Option<&SecretKey>) -> Pool {
    let media = Media::seeded(Arc::clone(disk) as _, UnixNanos::default(), seed);
    Pool::open(media, secret, OpenMode::Write, 32 << 20).expect("open")
}

fn store(pool: &Pool, numbers: std::ops::Range<u64>) -> Vec<Fingerprint> {
    let mut session = pool.begin(small::LANE).expect("session");
    let store = |n| session.main().store_chunk(&bytes_of(n)).expect("store");
    let chunks = numbers.map(store).collect();
    pool.commit(session, &[], &[]).expect("commit");
    chunks
}

/// A pool with several containers, and a disk for its tier.
struct World {
    disk: Arc<SimDisk>,
    fast: Arc<SimDisk>,
    secret: Option<SecretKey>,
    chunks: Vec<Fingerprint>,
}

impl World {
    fn new(secret: Option<SecretKey>) -> Self {
        let disk = SimDisk::new();
        let secrets = secret.as_ref().map(|secret| NewSecret {
            secret,
            label: "laptop",
        });
        let init = InitOptions {
            secrets: secrets.as_slice(),
            chunk_bytes_average: 4096,
            parity_percent: 0,
        };
        let media = Media::seeded(Arc::clone(&disk) as _, UnixNanos::default(), 5);
        Pool::init(&media, &init).expect("init");
        let pool = open(&disk, 5, secret.as_ref());
        let chunks = store(&pool, 0..COUNT);
        drop(pool);
        Self {
            disk,
            fast: SimDisk::new(),
            secret,
            chunks,
        }
    }

    fn with_fast(&self, image: Image) -> Self {
        Self {
            disk: SimDisk::on(self.disk.image()),
            fast: SimDisk::on(image),
            chunks: self.chunks.clone(),
            secret: None,
        }
    }

    fn open(&self) -> Pool {
        self.open_with(KindShares::ALONE)
    }

    fn open_with(&self, shares: KindShares) -> Pool {
        let pool = open(&self.disk, 9, self.secret.as_ref());
        use_tier(&pool, &self.fast, shares, options());
        pool
    }

    /// Reads all directories in a pool with an empty tier. Returns the image of the tier's disk.
    fn fill(&self) -> Image {
        let pool = self.open();
        assert!(!places(&pool, &self.chunks).contains(&None));
        pool.fast_tier().expect("a tier").finish(UnixNanos(2));
        self.fast.image()
    }
}

fn options() -> TierOptions {
    TierOptions {
        capacity_bytes: 4 << 20,
        memory_bytes: 1 << 20,
        block_bytes: 64 << 10,
        daily_writes_hundredths: u32::MAX,
        is_reading: false,
    }
}

fn use_tier(pool: &Pool, fast: &Arc<SimDisk>, shares: KindShares, options: TierOptions) {
    let disk: Arc<dyn media::Disk> = Arc::<SimDisk>::clone(fast);
    pool.use_fast_tier(disk, options, TierSettings::new(shares));
    settle(pool);
}

fn settle(pool: &Pool) {
    let tier = pool.fast_tier().expect("a tier");
    while tier.step(UnixNanos(1), 1 << 20).has_more {}
}

/// Returns the container of each chunk, as a directory says. None is in memory before.
fn places(pool: &Pool, chunks: &[Fingerprint]) -> Vec<Option<ContainerId>> {
    pool.chunks().forget_directories();
    let place = |chunk| {
        let place = pool.chunks().place(chunk, &mut Near::default());
        place
            .expect("no failure")
            .map(|place| place.region.container)
    };
    chunks.iter().map(place).collect()
}

/// Returns the containers of places that exist.
fn containers(places: &[Option<ContainerId>]) -> BTreeSet<ContainerId> {
    places.iter().flatten().copied().collect()
}

/// Asks for all places. Returns the number of containers, and what [`counts`] counted meanwhile.
fn count(world: &World, pool: &Pool) -> (u64, (u64, u64, u64)) {
    let before = counts(pool);
    let all = containers(&places(pool, &world.chunks)).len() as u64;
    let after = counts(pool);
    let counted = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    (all, counted)
}

/// Returns the counts of directories from containers, from copies, and of bad copies.
fn counts(pool: &Pool) -> (u64, u64, u64) {
    let of = pool.lookup_counts();
    (
        of.directory_reads,
        of.directory_copies,
        of.bad_directory_copies,
    )
}

#[test]
fn a_second_read_of_a_directory_costs_the_pool_nothing() {
    let world = World::new(None);
    let pool = world.open();
    let (all, counted) = count(&world, &pool);
    assert!(all >= 3, "{all}");
    assert_eq!(counted, (all, 0, 0));
    // Staged, then written.
    for _ in 0..2 {
        let reads = world.disk.counts().reads;
        assert_eq!(count(&world, &pool), (all, (0, all, 0)));
        assert_eq!(world.disk.counts().reads, reads);
        pool.fast_tier().expect("a tier").finish(UnixNanos(2));
        settle(&pool);
    }
    let status = pool.fast_tier().expect("a tier").status();
    let of_directories = |c: &&ssd_tier::ClassStatus| c.class.kind == Kind::Directory;
    let hits = status.classes.iter().find(of_directories).map(|c| c.hits);
    assert_eq!(hits, Some(all));
}

#[test]
fn after_a_restart_a_directory_costs_a_read_of_its_containers_header() {
    let world = World::new(None);
    world.fill();
    let reads = |pool: &Pool| {
        // So that the index is in memory.
        for chunk in &world.chunks {
            let found = pool.chunks().index.lookup(chunk, &mut Vec::new());
            found.expect("a look-up");
        }
        let before = world.disk.counts().read_bytes;
        let (all, counted) = count(&world, pool);
        let bytes = world.disk.counts().read_bytes - before;
        (bytes / all, (all, counted))
    };
    let bare = open(&world.disk, 9, None);
    let (bytes, (all, _)) = reads(&bare);
    assert!(bytes > 1024, "header and directory: {bytes} bytes");
    drop(bare);
    let (bytes, counted) = reads(&world.open());
    assert_eq!(counted, (all, (0, all, 0)));
    assert!(bytes <= 512, "{bytes} bytes");
}

#[test]
fn only_reads_for_clients_bring_directories_and_maintenance_asks_for_none() {
    let world = World::new(None);
    for origin in [
        Origin::Backup,
        Origin::Restore,
        Origin::Scrub,
        Origin::Collect,
    ] {
        let pool = world.open();
        let _origin = IoOrigin::of(origin).begin();
        for _ in 0..2 {
            let (all, counted) = count(&world, &pool);
            assert_eq!(counted, (all, 0, 0), "{origin:?}");
        }
    }
    let world = world.with_fast(world.fill());
    for (origin, from_copies) in [(Origin::Backup, true), (Origin::Scrub, false)] {
        let pool = world.open();
        let _origin = IoOrigin::of(origin).begin();
        let (all, counted) = count(&world, &pool);
        let expected = if from_copies {
            (0, all, 0)
        } else {
            (all, 0, 0)
        };
        assert_eq!(counted, expected, "{origin:?}");
    }
}

#[test]
fn without_a_share_nothing_is_kept_and_nothing_is_asked() {
    let world = World::new(None);
    let shares = KindShares {
        directories: Share::NONE,
        ..KindShares::ALONE
    };
    let pool = world.open_with(shares);
    let asked = |pool: &Pool| pool.fast_tier().expect("a tier").status().misses;
    let before = asked(&pool);
    for _ in 0..2 {
        let (all, counted) = count(&world, &pool);
        assert_eq!(counted, (all, 0, 0));
    }
    assert_eq!(asked(&pool), before);
}

#[test]
fn a_damaged_device_changes_no_answer() {
    let world = World::new(None);
    let right = places(&open(&world.disk, 9, None), &world.chunks);
    let image = world.fill();
    let files = image.files();
    let (name, len) = files.iter().max_by_key(|file| file.1).expect("a file");
    let flips = (0..len / 61).map(|n| Damage::FlipBit(n * 61 * 8 + n % 8));
    let others = [
        Damage::SetLen(70_000),
        Damage::SetLen(300),
        Damage::Replace(vec![1; 200_000]),
        Damage::Delete,
    ];
    let mut from_pool = 0;
    for damage in flips.chain(others) {
        for in_mid_run in [false, true] {
            let world = world.with_fast(image.clone());
            let hurt = || world.fast.damage(name, &damage).expect("a file");
            if !in_mid_run {
                hurt();
            }
            let pool = world.open();
            if in_mid_run {
                hurt();
            }
            assert_eq!(places(&pool, &world.chunks), right, "{damage:?}");
            from_pool += counts(&pool).0;
        }
    }
    assert!(from_pool > 100, "{from_pool}");
}

/// The tier vouches for the bytes, and they are wrong all the same.
#[test]
fn a_copy_that_is_not_the_directory_of_this_container_is_refused() {
    for secret in [None, Some(SecretKey::Password(b"secret".to_vec()))] {
        let world = World::new(secret);
        let pool = world.open();
        let right = places(&pool, &world.chunks);
        let tier = pool.fast_tier().expect("a tier");
        let ids: Vec<ContainerId> = containers(&right).into_iter().collect();
        let name = |nth: usize| pool.storage.containers.name_of_copy(ids[nth]);
        let copy = |nth| {
            tier.lookup(&name(nth), Kind::Directory)
                .expect("a copy")
                .to_vec()
        };
        let (sound, other) = (copy(0), copy(1));
        let flipped = (0..sound.len()).step_by(7).map(|at| {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        });
        let header_of_this = [&sound[..512], &other[512..]].concat();
        let header_of_other = [&other[..512], &sound[512..]].concat();
        let longer = [&sound[..], &[0; 512]].concat();
        let wrong = [
            other,
            header_of_this,
            header_of_other,
            longer,
            vec![7; 900],
            vec![7],
        ];
        let shorter = [1, 511, 512, 540, 560, sound.len() - 1].map(|len| sound[..len].to_vec());
        let mut refused = counts(&pool).2;
        for bytes in wrong.into_iter().chain(shorter).chain(flipped) {
            settle(&pool);
            tier.forget(&name(0));
            let offered = tier.offer(&name(0), Kind::Directory, IoClass(0), &bytes);
            assert_eq!(offered, Offer::Taken);
            let damaged = tier.status().damaged;
            assert_eq!(places(&pool, &world.chunks), right);
            refused += 1;
            assert_eq!(counts(&pool).2, refused, "{} bytes", bytes.len());
            assert_eq!(tier.status().damaged, damaged + 1);
            // The right one has taken its place.
            assert_eq!(copy(0), sound);
        }
    }
}

/// A pool that was put back to an older state gives numbers of containers again.
#[test]
fn a_copy_from_a_later_state_of_the_pool_is_refused() {
    let disk = World::new(None).disk;
    let before = disk.image();
    let fast = SimDisk::new();
    let pool = open(&disk, 11, None);
    use_tier(&pool, &fast, KindShares::ALONE, options());
    let lost = store(&pool, 1000..1012);
    let their_places = places(&pool, &lost);
    assert!(!their_places.contains(&None));
    pool.fast_tier().expect("a tier").finish(UnixNanos(2));
    drop(pool);
    let disk = SimDisk::on(before);
    let pool = open(&disk, 12, None);
    use_tier(&pool, &fast, KindShares::ALONE, options());
    let stored = store(&pool, 2000..2012);
    assert_eq!(places(&pool, &stored), their_places, "the same numbers");
    assert!(counts(&pool).2 >= 1, "{:?}", counts(&pool));
    // Whatever the index says.
    for (chunk, container) in lost.iter().zip(&their_places) {
        let location = Location {
            container: container.expect("a place"),
            sector: 1,
            sectors: 16,
        };
        pool.chunks().index.insert(chunk, location).expect("insert");
    }
    assert!(containers(&places(&pool, &lost)).is_empty());
}

#[test]
fn directories_of_deleted_containers_are_forgotten_and_prove_nothing() {
    let world = World::new(None);
    let image = world.fill();
    let pool = world.open();
    let right = places(&pool, &world.chunks);
    let names: Vec<Fingerprint> = containers(&right)
        .into_iter()
        .map(|id| pool.storage.containers.name_of_copy(id))
        .collect();
    let has = |pool: &Pool| {
        let tier = pool.fast_tier().expect("a tier");
        names.iter().filter(|name| tier.contains(name)).count()
    };
    assert_eq!(has(&pool), names.len());
    // No snapshot needs the chunks.
    for _ in 0..3 {
        whole_run::collect(&pool, None, small::LANE, || {});
    }
    assert_eq!(has(&pool), 0);
    drop(pool);
    // The device still has them, and an index may know the places.
    let world = world.with_fast(image);
    let pool = world.open();
    assert_eq!(has(&pool), names.len());
    for (chunk, container) in world.chunks.iter().zip(&right) {
        let location = Location {
            container: container.expect("a place"),
            sector: 1,
            sectors: 16,
        };
        pool.chunks().index.insert(chunk, location).expect("insert");
    }
    assert!(containers(&places(&pool, &world.chunks)).is_empty());
    assert_eq!(counts(&pool).1, 0);
}

#[test]
fn a_tier_that_was_cut_off_while_it_wrote_changes_no_answer() {
    let world = World::new(None);
    let right = places(&open(&world.disk, 9, None), &world.chunks);
    for operations in 1..12 {
        let world = world.with_fast(Image::new());
        world.fast.kill_after(operations);
        let pool = world.open();
        assert_eq!(places(&pool, &world.chunks), right);
        pool.fast_tier().expect("a tier").finish(UnixNanos(2));
        drop(pool);
        let world = World {
            fast: world.fast.kill(),
            disk: world.disk.kill(),
            ..world
        };
        let pool = world.open();
        assert_eq!(places(&pool, &world.chunks), right, "{operations}");
    }
}

#[test]
fn a_sealed_pools_directories_are_sealed_in_the_tier() {
    for secret in [None, Some(SecretKey::Password(b"secret".to_vec()))] {
        let is_sealed = secret.is_some();
        let world = World::new(secret);
        let image = world.fill();
        let finds = |bytes: &[u8]| {
            let has = |chunk: &Fingerprint| bytes.windows(32).any(|part| *part == chunk.0);
            world.chunks.iter().take(3).any(has)
        };
        let files = image.files();
        let found = files
            .iter()
            .any(|(name, _)| finds(&image.contents(name).expect("listed")));
        assert_eq!(found, !is_sealed, "by the device");
        // Before the tier seals it again.
        let pool = world.open();
        let ids = containers(&places(&pool, &world.chunks));
        let found = ids.iter().any(|id| {
            let name = pool.storage.containers.name_of_copy(*id);
            let tier = pool.fast_tier().expect("a tier");
            finds(&tier.lookup(&name, Kind::Directory).expect("a copy"))
        });
        assert_eq!(found, !is_sealed, "by the copy");
    }
}

/// As commands do without a server, also beside one.
#[test]
fn a_process_that_only_reads_uses_the_directories_and_writes_none() {
    let world = World::new(None);
    for image in [Image::new(), world.fill()] {
        let is_warm = !image.files().is_empty();
        let world = world.with_fast(image.clone());
        let media = Media::seeded(Arc::clone(&world.disk) as _, UnixNanos::default(), 9);
        let pool = Pool::open(media, None, OpenMode::Read, 32 << 20).expect("open");
        use_tier(&pool, &world.fast, KindShares::ALONE, options().reading());
        for _ in 0..2 {
            let (all, counted) = count(&world, &pool);
            let expected = if is_warm { (0, all, 0) } else { (all, 0, 0) };
            assert_eq!(counted, expected);
        }
        pool.fast_tier().expect("a tier").finish(UnixNanos(2));
        assert_eq!(world.fast.image().hash(), image.hash());
    }
}

//! The order of a scrub beside clients: containers that clients have in memory are read at the end
//! of the pass, once, and each region is verified on the medium whatever happens meanwhile.

use crate::small_volumes;

use format::phase::TaskPhase;
use maintenance::{MaintenanceTask, Scrubber, TaskStep};
use media::{Barrier, Blobs, MediaError, Put, ReadFrom};
use parking_lot::Mutex;
use sim::{Seed, SimDisk};
use small_volumes::{CONTEXT, made, small, write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::{MEMORY_BYTES, noise};
use volume::Volume;
use volumes::{AccessOptions, Volumes, VolumesOptions};

const CHUNK: usize = 4096;
/// Regions begin at multiples of this in a container, bytes.
const SECTOR: u64 = 512;
const CHUNKS: u64 = 256;

/// A range of a blob.
type Range = (String, u64, u64);

#[derive(Default)]
struct Reads {
    by_scrub: Vec<Range>,
    by_readers: Vec<Range>,
}

/// Blobs that remember who read what from the medium: the scrub reads past the system's page
/// cache, readers ask whether the device gave the bytes.
struct Logged {
    inner: Arc<dyn Blobs>,
    reads: Arc<Mutex<Reads>>,
}

impl Blobs for Logged {
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        self.inner.put(name, bytes, how)
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.inner.read_range(name, offset, into)
    }

    fn read_range_past_cache(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MediaError> {
        let end = offset + into.len() as u64;
        let read = (name.to_owned(), offset, end);
        self.reads.lock().by_scrub.push(read);
        self.inner.read_range(name, offset, into)
    }

    fn read_range_reported(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
        _: bool,
    ) -> Result<ReadFrom, MediaError> {
        let end = offset + into.len() as u64;
        let read = (name.to_owned(), offset, end);
        self.reads.lock().by_readers.push(read);
        self.inner.read_range(name, offset, into)?;
        Ok(ReadFrom::Device)
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        self.inner.len(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        self.inner.delete(name)
    }

    fn sweep(&self) -> Result<(), MediaError> {
        self.inner.sweep()
    }

    fn adopt(&self, name: &str) {
        self.inner.adopt(name);
    }

    fn barrier(&self, point: Barrier) -> Result<(), MediaError> {
        self.inner.barrier(point)
    }
}

/// A pool with a volume of many containers, in a new process: nothing is in memory.
struct World {
    disk: Arc<SimDisk>,
    reads: Arc<Mutex<Reads>>,
    volumes: Volumes,
    opened: u64,
}

impl World {
    fn new() -> Self {
        let disk = made();
        let volumes = small_volumes::open(&disk, 2);
        let size = CHUNKS * CHUNK as u64;
        let volume = volumes.create("v", size, 12).expect("create");
        write(&volume, 0, &noise(1, size as usize));
        volumes.checkpoint().expect("checkpoint");
        drop((volume, volumes));
        let reads = Arc::default();
        Self {
            volumes: open(&disk, 3, &reads),
            disk,
            reads,
            opened: 3,
        }
    }

    /// Ends the process and begins another one.
    fn restarted(self) -> Self {
        let Self { disk, reads, .. } = self;
        let opened = self.opened + 1;
        drop(self.volumes);
        Self {
            volumes: open(&disk, opened, &reads),
            disk,
            reads,
            opened,
        }
    }

    fn read(&self, chunk: u64) {
        let mut bytes = vec![0; CHUNK];
        let volume = self.volumes.volume("v").expect("there");
        let read = volume.read(CONTEXT, chunk * CHUNK as u64, &mut bytes);
        read.expect("read");
    }

    fn scrubber(&self) -> Scrubber {
        let mut scrubber = Scrubber::new(
            Arc::clone(self.volumes.pool()),
            Arc::clone(self.volumes.duet()),
        );
        scrubber.start(None).expect("start");
        scrubber
    }

    fn forget_reads(&self) {
        *self.reads.lock() = Reads::default();
    }

    /// Returns the containers that the scrub has read, in its order.
    fn scrubbed(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, ..) in &self.reads.lock().by_scrub {
            if names.last() != Some(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

fn open(disk: &Arc<SimDisk>, seed: u64, reads: &Arc<Mutex<Reads>>) -> Volumes {
    let mut media = testkit::specimen::media(disk, seed);
    media.blobs = Arc::new(Logged {
        inner: Arc::clone(&media.blobs),
        reads: Arc::clone(reads),
    });
    let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).expect("open");
    let options = VolumesOptions {
        access: AccessOptions {
            fetch_threads: 0,
            ..AccessOptions::default()
        },
        ..small()
    };
    Volumes::open(Arc::new(pool), &options).expect("volumes")
}

fn step(scrubber: &mut Scrubber, budget_bytes: u64) -> bool {
    match scrubber.step(0, budget_bytes).expect("step") {
        TaskStep::Worked { .. } => true,
        TaskStep::Finished => false,
        other => panic!("{other:?}"),
    }
}

fn names<'a>(ranges: impl IntoIterator<Item = &'a Range>) -> BTreeSet<String> {
    ranges.into_iter().map(|(name, ..)| name.clone()).collect()
}

/// Bytes of blobs, as ranges between which a sector or more is missing: the padding behind a region
/// is shorter, and nothing reads it.
fn merged(mut ranges: Vec<Range>) -> BTreeMap<String, Vec<(u64, u64)>> {
    ranges.sort();
    let mut merged: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for (name, start, end) in ranges {
        let of = merged.entry(name).or_default();
        match of.last_mut() {
            Some(last) if start < last.1 + SECTOR => last.1 = last.1.max(end),
            _ => of.push((start, end)),
        }
    }
    merged
}

#[test]
fn containers_in_memory_are_read_last_and_each_part_in_order() {
    let world = World::new();
    // Some of the first containers, and one in the middle.
    (10..40).chain(120..122).for_each(|chunk| world.read(chunk));
    let cached = names(&world.reads.lock().by_readers);
    assert!(cached.len() > 3, "{cached:?}");
    world.forget_reads();
    let mut scrubber = world.scrubber();
    while step(&mut scrubber, 10_000) {}
    let order = world.scrubbed();
    let containers = world.volumes.pool().record().containers;
    assert_eq!(order.len() as u64, containers, "each is read in one go");
    let is_cached = |name: &&String| cached.contains(*name);
    let first_cached = order.iter().position(|name| cached.contains(name));
    let (now, last) = order.split_at(first_cached.expect("read in any case"));
    assert!(now.len() > 10 && now.is_sorted(), "{now:?}");
    assert!(last.is_sorted(), "{last:?}");
    assert_eq!(last.iter().filter(is_cached).count(), cached.len());
    let pass = scrubber.status().last;
    assert_eq!(pass.containers, containers);
}

/// A client reads the first half of the volume while the scrub works, more slowly than the scrub.
/// Returns the stored bytes that the scrub read and those that the client had verified.
fn beside_a_client(has_begun: bool) -> (u64, u64) {
    let world = World::new();
    if has_begun {
        // One chunk of each container.
        (0..CHUNKS / 2)
            .step_by(5)
            .for_each(|chunk| world.read(chunk));
    }
    let mut scrubber = world.scrubber();
    let mut chunk = 0;
    while step(&mut scrubber, 6 * CHUNK as u64) {
        (chunk..CHUNKS / 2).take(4).for_each(|n| world.read(n));
        chunk += 4;
    }
    let pass = scrubber.status().last;
    assert_eq!(pass.containers, world.volumes.pool().record().containers);
    (pass.read_bytes, pass.cached_bytes)
}

#[test]
fn regions_that_clients_read_meanwhile_cost_no_read() {
    let (read, verified) = beside_a_client(false);
    let (read_last, verified_last) = beside_a_client(true);
    // A container in which regions are skipped is not read in order, so its padding is not read.
    let seen = (read + verified).abs_diff(read_last + verified_last);
    assert!(seen < read / 20, "{seen}");
    let half = CHUNKS / 2 * CHUNK as u64;
    assert!(
        read_last + half / 2 < read,
        "{read_last} bytes read with the cached ones last, {read} in order"
    );
}

#[test]
fn a_restart_forgets_no_container_that_was_left_for_the_end() {
    let world = World::new();
    (0..40).for_each(|chunk| world.read(chunk));
    let cached = names(&world.reads.lock().by_readers);
    world.forget_reads();
    let mut scrubber = world.scrubber();
    while scrubber.status().pass.containers < 8 {
        step(&mut scrubber, 10_000);
    }
    assert!(names(&world.reads.lock().by_scrub).is_disjoint(&cached));
    scrubber.record().expect("record");
    drop(scrubber);
    let world = world.restarted();
    let mut scrubber = world.scrubber();
    assert_eq!(scrubber.status().phase, TaskPhase::UnderWay);
    while step(&mut scrubber, 10_000) {}
    let containers = world.volumes.pool().record().containers;
    assert_eq!(names(&world.reads.lock().by_scrub).len() as u64, containers);
    assert_eq!(scrubber.status().last.containers, containers);
}

/// Whatever clients read and however often the process ends: each byte that a scrub of an unused
/// pool reads is read from the medium during the pass, by the scrub or by a client.
#[test]
fn every_region_is_verified_in_every_pass() {
    let plain = World::new();
    let mut scrubber = plain.scrubber();
    while step(&mut scrubber, 10_000) {}
    let all = merged(std::mem::take(&mut plain.reads.lock().by_scrub));
    assert!(all.len() > 20);
    for number in 0..60 {
        let mut seed = Seed::new(number);
        let mut world = World::new();
        for _ in 0..seed.below(40) {
            world.read(seed.below(CHUNKS));
        }
        world.forget_reads();
        let mut scrubber = world.scrubber();
        let (mut restarts, mut is_running) = (0, true);
        while is_running {
            match seed.below(16) {
                0..8 => is_running = step(&mut scrubber, 1 + seed.below(30_000)),
                8..14 => {
                    let from = seed.below(CHUNKS);
                    let until = CHUNKS.min(from + seed.below(12));
                    (from..until).for_each(|chunk| world.read(chunk));
                }
                14 => {
                    scrubber.pause().expect("pause");
                    scrubber.start(None).expect("start");
                }
                _ if restarts < 4 => {
                    restarts += 1;
                    if seed.chance(200) {
                        scrubber.record().expect("record");
                    }
                    drop(scrubber);
                    world = world.restarted();
                    scrubber = world.scrubber();
                }
                _ => {}
            }
        }
        let reads = std::mem::take(&mut *world.reads.lock());
        let read = merged([reads.by_scrub, reads.by_readers].concat());
        for (name, ranges) in &all {
            for (start, end) in ranges {
                let covers = |(from, to): &&(u64, u64)| from <= start && end <= to;
                let found = read.get(name).and_then(|of| of.iter().find(covers));
                assert!(found.is_some(), "seed {number}: {name} {start}..{end}");
            }
        }
    }
}

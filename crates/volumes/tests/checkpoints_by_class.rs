//! Checkpoints leave what matters in the journal for a while: what that spares, and that nothing
//! is lost or stays too long.

use crate::noise_volume;
use crate::small_volumes;

use classes::{CLASSES, ClassSettings, Priority, Share};
use noise_volume::{disk_with_a_pool, open, without};
use sim::SimDisk;
use small_volumes::CONTEXT;
use std::sync::Arc;
use testkit::specimen::noise;
use units::IoClass;
use volume::{Durability, RequestContext, Volume};
use volumes::{CheckpointStep, Switches, VolumeHandle, Volumes};

const METADATA: IoClass = IoClass(1);
const BULK: IoClass = IoClass(2);
/// Pages that are written again and again: a 32nd of the journal.
const HOT_PAGES: u64 = 64;
const HOT_BYTES: u64 = HOT_PAGES << 12;
const SIZE: u64 = 64 << 20;

struct World {
    volumes: Volumes,
    volume: VolumeHandle,
}

impl World {
    fn open(disk: &Arc<SimDisk>, switches: Switches) -> Self {
        let volumes = open(disk, switches);
        let mut settings = [ClassSettings::INDIFFERENT; CLASSES];
        settings[1] = ClassSettings {
            priority: Priority::Evictable(10),
            share: Share::ALL,
        };
        volumes.set_classes(&settings);
        let volume = match volumes.volume("v") {
            Some(volume) => volume,
            None => volumes.create("v", SIZE, 12).expect("create"),
        };
        Self { volumes, volume }
    }

    fn write(&self, class: IoClass, at: u64, bytes: &[u8]) {
        let context = RequestContext { class, ..CONTEXT };
        let done = self.volume.write(context, at, bytes, Durability::Volatile);
        done.expect("write");
        self.destage();
    }

    /// Does what the server's thread does: checkpoints from 75 % on, down to 25 %.
    fn destage(&self) {
        let mut is_due = self.volumes.wants_checkpoint(false);
        while is_due {
            let stepped = self.volumes.step(64 << 10).expect("step");
            assert_ne!(stepped, CheckpointStep::Idle, "due, and nothing to do");
            is_due = stepped == CheckpointStep::Working || self.volumes.wants_checkpoint(true);
        }
    }

    /// Writes the hot pages, scattered, in version `n`.
    fn write_hot(&self, n: u64) {
        for page in 0..HOT_PAGES {
            self.write(METADATA, page << 16, &hot(n, page));
        }
    }

    /// Writes a mebibyte after the hot pages.
    fn write_bulk(&self, n: u64) {
        for (part, bytes) in (0..).zip(noise(n, 1 << 20).chunks(64 << 10)) {
            self.write(BULK, (16 << 20) + (n << 20) + (part << 16), bytes);
        }
    }

    fn expect(&self, hot_version: u64, bulk: u64) {
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            self.volume.read(CONTEXT, at, &mut bytes).expect("read");
            bytes
        };
        for page in 0..HOT_PAGES {
            let found = read(page << 16, 4096);
            assert!(found == hot(hot_version, page), "page {page}");
        }
        for n in 0..bulk {
            let found = read((16 << 20) + (n << 20), 1 << 20);
            assert!(found == noise(n, 1 << 20), "mebibyte {n}");
        }
    }

    fn held(&self) -> u64 {
        self.volumes.decision_counters().held_bytes
    }

    fn stored(&self) -> u64 {
        self.volumes.checkpoint_counts().destaged_bytes
    }
}

fn hot(n: u64, page: u64) -> Vec<u8> {
    noise((1 << 32) + n * HOT_PAGES + page, 4096)
}

#[test]
fn blocks_that_are_written_again_and_again_are_hardly_stored() {
    const ROUNDS: u64 = 40;
    let stored = |switches| {
        let disk = disk_with_a_pool();
        let world = World::open(&disk, switches);
        for n in 0..ROUNDS {
            world.write_hot(n);
            world.write_bulk(n);
        }
        let (stored, held) = (world.stored(), world.held());
        let checkpoints = world.volumes.checkpoint_counts().rounds;
        assert!(checkpoints >= 6, "{checkpoints} checkpoints");
        world.expect(ROUNDS - 1, ROUNDS);
        let misses = world.volumes.cache_counters().misses_dirty;
        assert_eq!(misses, 0, "what is held back stays in memory");
        // Nothing stays when everything is to be stored.
        world.volumes.checkpoint().expect("checkpoint");
        let left = world.volumes.list()[0].pieces_unapplied;
        assert_eq!(left, 0);
        drop(world);
        let world = World::open(&disk, switches);
        world.expect(ROUNDS - 1, ROUNDS);
        (stored, held, checkpoints)
    };
    let (all, held, checkpoints) = stored(without(|s| s.checkpoint_by_class = false));
    assert_eq!(held, 0);
    let (fewer, held, _) = stored(Switches::default());
    assert!(held >= (checkpoints - 1) * HOT_BYTES, "{held} held");
    let spared = all - fewer;
    assert!(
        spared >= (checkpoints - 2) * HOT_BYTES,
        "{all} and {fewer} stored in {checkpoints} checkpoints"
    );
}

#[test]
fn what_is_written_once_is_left_once() {
    let disk = disk_with_a_pool();
    let world = World::open(&disk, Switches::default());
    world.write_hot(1);
    for n in 0..30 {
        world.write_bulk(n);
    }
    assert_eq!(world.held(), HOT_BYTES);
    world.expect(1, 30);
}

#[test]
fn only_a_part_of_the_journal_is_left() {
    let disk = disk_with_a_pool();
    let world = World::open(&disk, Switches::default());
    // All of it matters, and is written again and again: two thirds of the journal.
    for n in 0..4 {
        for at in (0..5 << 20).step_by(64 << 10) {
            world.write(METADATA, at, &noise(n + at, 64 << 10));
        }
    }
    let checkpoints = world.volumes.checkpoint_counts().rounds;
    let held = world.held();
    assert!(held > 0 && held <= checkpoints << 20, "{held} held");
    assert!(!world.volumes.wants_checkpoint(false));
    for at in (0..5 << 20).step_by(64 << 10) {
        let mut bytes = vec![0; 64 << 10];
        world.volume.read(CONTEXT, at, &mut bytes).expect("read");
        assert!(bytes == noise(3 + at, 64 << 10), "at {at}");
    }
}

/// A process that is killed: what was left in the journal is there, flushed or not by its client,
/// since the checkpoint flushed it.
#[test]
fn what_is_left_survives_a_kill() {
    let disk = disk_with_a_pool();
    let world = World::open(&disk, Switches::default());
    for n in 0..12 {
        world.write_hot(n);
        world.write_bulk(n);
    }
    assert!(world.held() > 0);
    world.volumes.flush().expect("flush");
    drop(world);
    let world = World::open(&disk, Switches::default());
    world.expect(11, 12);
}

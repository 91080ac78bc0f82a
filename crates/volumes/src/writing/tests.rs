#[path = "../../../store/tests/small/mod.rs"]
mod small;
#[path = "../../../store/tests/whole_run/mod.rs"]
mod whole_run;

use super::*;
use crate::checkpointer::CheckpointStep;
use crate::direct::DirectLimits;
use crate::{AccessOptions, Volumes, VolumesOptions};
use journal::JournalOptions;
use sim::SimDisk;
use small::{LANE, make};
use std::sync::mpsc;
use std::time::Duration;

/// Opens volumes, one of which is called `disk`.
fn opened() -> (Volumes, Arc<LiveVolume>) {
    opened_with(DirectLimits::default())
}

fn opened_with(direct: DirectLimits) -> (Volumes, Arc<LiveVolume>) {
    let pool = make(&SimDisk::new());
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: 1 << 20,
            slot_bytes: 128 << 10,
            buffer_bytes: 256 << 10,
        },
        memory_bytes: 8 << 20,
        thresholds: Default::default(),
        lane: LANE,
        direct,
        access: AccessOptions::default(),
    };
    let volumes = Volumes::open(Arc::new(pool), &options).expect("volumes");
    volumes.create("disk", 1 << 20, 12).expect("create");
    let registered = |engine: &Engine| {
        let registry = engine.registry.lock();
        let first = registry.values().next().expect("disk");
        Arc::clone(&first.volume)
    };
    let disk = registered(&volumes.engine);
    (volumes, disk)
}

/// The journal keeps a write that has a position and is not in its overlay yet: a flush may have
/// made it durable.
#[test]
fn the_journal_is_kept_for_writes_that_are_about_to_be_entered() {
    let (volumes, disk) = opened();
    let engine = &volumes.engine;
    let (appended, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Appends like `append`, and enters late.
            let _gate = disk.enter();
            let record = Record::Zero {
                volume: disk.id,
                offset_bytes: 0,
                len_bytes: 4096,
            };
            let position = engine.backing.journal.append(&record).expect("append");
            appended.send(position).expect("send");
            std::thread::sleep(Duration::from_millis(200));
            disk.state_mut().active.insert(Piece {
                offset: 0,
                len: 4096,
                position,
                source: Source::Zero,
            });
        });
        let position = waits.recv().expect("appended");
        let head = engine.backing.journal.head();
        assert!(head > position);
        assert_eq!(engine.registry.needed_from(head), position);
    });
}

/// A writer that found the journal full while a checkpoint ended tries again: there is space.
#[test]
fn room_that_was_made_meanwhile_is_room() {
    let (volumes, disk) = opened();
    let engine = &volumes.engine;
    let before = engine.checkpointer.rounds();
    disk.write(engine, IoClass(0), 0, &[7; 4096])
        .expect("write");
    while engine.checkpointer.step(u64::MAX).expect("step") != CheckpointStep::Idle {}
    engine
        .back_pressure
        .make_room(before, true)
        .expect("there is room");
    // Nothing can be applied or dropped, so no space can be made.
    let nothing = engine
        .back_pressure
        .make_room(engine.checkpointer.rounds(), true);
    assert!(nothing.is_err());
}

/// Small writes fill the memory for pieces before the journal: writers then help to checkpoint, and
/// no write is refused.
#[test]
fn pieces_take_no_more_memory_than_they_were_given() {
    let (volumes, disk) = opened();
    let engine = &volumes.engine;
    let max = engine.levels.pieces.max;
    for n in 0..5 * max {
        disk.zero(engine, n * 2 % (1 << 20), 1).expect("zero");
        assert!(engine.levels.pieces.count() <= max, "{n}");
        assert!(engine.backing.journal.filled_percent() < 90);
    }
    assert!(engine.checkpointer.counts().rounds >= 2);
    // Frozen pieces count as well.
    assert!(engine.levels.pieces.active.count() < max);
    while engine.checkpointer.step(u64::MAX).expect("step") != CheckpointStep::Idle {}
    assert_eq!(engine.levels.pieces.count(), 0);
}

fn collect(volumes: &Volumes) {
    whole_run::collect(
        volumes.pool(),
        Some(volumes),
        volumes.engine.backing.lane,
        || (),
    );
}

/// A writer has found a chunk that nothing else needs, and no overlay names it yet. Runs of garbage
/// collection that begin now must wait for the writer before they mark. Otherwise the first run
/// trashes the chunk's container and the second deletes it.
#[test]
fn what_a_writer_has_found_and_not_reported_is_not_collected() {
    let (volumes, disk) = opened_with(DirectLimits {
        bytes_min: 4096,
        unflushed_bytes_min: 0,
    });
    let (pool, engine) = (volumes.pool(), &volumes.engine);
    let data: Vec<u8> = (0..4 * 4096).map(|n| (n / 4096 + 1) as u8).collect();
    let mut session = pool.begin(engine.backing.lane).expect("begin");
    let chunks: Vec<_> = data
        .chunks(4096)
        .map(|chunk| session.main().store_chunk(chunk).expect("store"))
        .collect();
    pool.commit(session, &[], &[]).expect("commit");
    let (collected, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        // The writer stops at the gate: it has its chunk, but neither the journal nor the overlay
        // has it.
        let gate = disk.shut();
        scope.spawn(|| disk.write(engine, IoClass(0), 0, &data).expect("write"));
        while !chunks
            .iter()
            .all(|c| engine.backing.cache.is_content_resident(c))
        {
            std::thread::yield_now();
        }
        scope.spawn(|| {
            collect(&volumes);
            collect(&volumes);
            collected.send(()).expect("send");
        });
        // Runs that do not wait would have finished by now.
        let waits = ends.recv_timeout(Duration::from_millis(500));
        drop(gate);
        waits.or_else(|_| ends.recv()).expect("collected");
    });
    for chunk in &chunks {
        assert!(pool.holds_chunk(chunk).expect("looked"), "{chunk} is gone");
    }
}

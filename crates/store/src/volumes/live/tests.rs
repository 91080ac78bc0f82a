use super::*;
use crate::journal::JournalOptions;
use crate::pool::small::{LANE, make};
use crate::volumes::direct::DirectLimits;
use crate::volumes::engine::Step;
use crate::volumes::{AccessOptions, Volumes, VolumesOptions};
use sim::SimDisk;
use std::sync::mpsc;
use std::time::Duration;

/// Open volumes of which one is called `disk`.
fn opened() -> (Volumes, Arc<LiveVolume>) {
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
        direct: DirectLimits::default(),
        access: AccessOptions::default(),
    };
    let volumes = Volumes::open(Arc::new(pool), &options).expect("volumes");
    volumes.create("disk", 1 << 20, 12).expect("create");
    let registered = |engine: &Engine| {
        let registry = engine.registry.lock().expect("registry");
        let first = registry.values().next().expect("disk");
        Arc::clone(&first.volume)
    };
    let disk = registered(&volumes.engine);
    (volumes, disk)
}

/// The journal is not trimmed above a write that has its position and is not in its overlay yet: a
/// flush may have made it durable.
#[test]
fn the_journal_is_kept_for_writes_that_are_about_to_be_entered() {
    let (volumes, disk) = opened();
    let engine = &volumes.engine;
    let (appended, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As `append` does, slowly.
            let _gate = disk.gate.read().expect("gate");
            let record = Record::Zero {
                volume: disk.id,
                offset_bytes: 0,
                len_bytes: 4096,
            };
            let position = engine.journal.append(&record).expect("append");
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
        let head = engine.journal.head();
        assert!(head > position);
        assert_eq!(engine.needed_from(head), position);
    });
}

/// A writer that found the journal full while a round ended tries again: there is room.
#[test]
fn room_that_was_made_meanwhile_is_room() {
    let (volumes, disk) = opened();
    let engine = &volumes.engine;
    let before = engine.rounds();
    disk.write(engine, 0, &[7; 4096]).expect("write");
    while engine.step(u64::MAX).expect("step") != Step::Idle {}
    engine.make_room(before, true).expect("there is room");
    // With nothing to fold and nothing to drop there is none to be made.
    let nothing = engine.make_room(engine.rounds(), true);
    assert!(nothing.is_err());
}

/// Small writes fill memory before they fill the journal: then writers fold, and none is refused.
#[test]
fn pieces_take_no_more_memory_than_they_were_given() {
    let (volumes, disk) = opened();
    let engine = &volumes.engine;
    let max = engine.pieces.max;
    for n in 0..5 * max {
        disk.zero(engine, n * 2 % (1 << 20), 1).expect("zero");
        assert!(engine.pieces.count() <= max, "{n}");
        assert!(engine.journal.filled_percent() < 90);
    }
    assert!(engine.counts().rounds >= 2);
    // What is frozen counts as well.
    assert!(engine.pieces.active.count() < max);
    while engine.step(u64::MAX).expect("step") != Step::Idle {}
    assert_eq!(engine.pieces.count(), 0);
}

use super::*;
use crate::hostile::{Dice, KINDS, Sparse, small_systems};

const MIB: u64 = 1 << 20;

/// Steps until nothing is left. Returns the number of steps.
fn settle(layout: &mut Layout, disk: &Sparse) -> u32 {
    for steps in 1..100_000 {
        if layout.step(disk, 8) == Progress::Idle {
            return steps;
        }
    }
    panic!("attaching ends");
}

fn layout_of(disk: &Sparse, memory_bytes_max: u64) -> Layout {
    Layout::new(disk.size_bytes, Options { memory_bytes_max })
}

/// The eighth part used up each step, and the steps never ended.
#[test]
fn many_partitions_are_all_read_and_then_the_steps_end() {
    for count in [2, 8, 9, 12, 64, 128] {
        let disk = small_systems(count);
        let mut layout = layout_of(&disk, 8 * MIB);
        settle(&mut layout, &disk);
        let counters = layout.counters();
        assert_eq!(counters.recognised, count + 1, "{count} and the table");
        assert!(counters.is_whole(), "{counters:?}");
        let last = disk.size_bytes - 64 * MIB;
        for start in [MIB, last] {
            let piece = layout.at(start + 2048);
            assert_eq!(piece.contents, Contents::Metadata, "{count}: {start}");
            let file = layout.at(start + 100 * 1024);
            assert!(matches!(file.contents, Contents::File { .. }), "{count}");
        }
        // Nothing more happens, until something is written.
        assert_eq!(settle(&mut layout, &disk), 1);
        assert_eq!(layout.counters().reads, counters.reads);
    }
}

/// A write that finds the idle parts has its step, whichever part it is in.
#[test]
fn writes_to_the_last_of_many_partitions_are_read() {
    let disk = small_systems(40);
    let mut layout = layout_of(&disk, 8 * MIB);
    settle(&mut layout, &disk);
    let before = layout.counters().reads;
    let table = disk.size_bytes - 64 * MIB + 5 * 1024;
    assert_eq!(layout.interest(table, 1024, None), Interest::Changed);
    layout.changed(table, 1024);
    settle(&mut layout, &disk);
    assert!(layout.counters().reads > before);
}

/// A log that turns the superblock into another one was applied again and again.
#[test]
fn a_file_system_that_contradicts_itself_is_given_up_until_it_changes() {
    let (_, build) = KINDS
        .iter()
        .find(|(name, _)| *name == "ext-journal")
        .unwrap();
    let disk = build(&mut Dice::new(3));
    let mut layout = layout_of(&disk, 64 * MIB);
    settle(&mut layout, &disk);
    let counters = layout.counters();
    assert!(counters.reads < 10_000, "{counters:?}");
    assert_eq!(counters.parts_too_large, 1);
    layout.changed(1024, 1024);
    settle(&mut layout, &disk);
    assert!(layout.counters().reads > counters.reads);
}

/// They were read again and again, for ever.
#[test]
fn descriptors_that_cannot_be_read_are_given_up_until_they_change() {
    let mut disk = small_systems(2);
    disk.damage = Some(MIB + 2048..MIB + 3072);
    let mut layout = layout_of(&disk, 8 * MIB);
    settle(&mut layout, &disk);
    let counters = layout.counters();
    assert!(counters.reads < 100, "{counters:?}");
    assert_eq!(counters.parts_unreadable, 1);
    assert!(!counters.is_whole());
    assert_eq!(layout.at(MIB + 100 * 1024).contents, Contents::Unknown);
    // The other file system is known, and data that are written change nothing.
    let other = layout.at(65 * MIB + 2048).contents;
    assert_eq!(other, Contents::Metadata);
    assert_eq!(layout.interest(MIB + 9 * MIB, 4096, None), Interest::None);
    disk.damage = None;
    assert_eq!(layout.interest(MIB + 2048, 1024, None), Interest::Changed);
    layout.changed(MIB + 2048, 1024);
    settle(&mut layout, &disk);
    assert!(layout.counters().is_whole(), "{:?}", layout.counters());
}

#[test]
fn what_does_not_fit_is_said_and_more_memory_is_used() {
    let disk = small_systems(64);
    let mut layout = layout_of(&disk, 64 << 10);
    settle(&mut layout, &disk);
    let little = layout.counters();
    assert!(!little.is_whole(), "{little:?}");
    assert!(little.memory_bytes <= 80 << 10);
    let mut layout = layout_of(&disk, 2 * MIB);
    settle(&mut layout, &disk);
    assert!(layout.counters().is_whole());
    // Less than the maps have: they begin anew, and stay below.
    layout.set_memory(64 << 10);
    settle(&mut layout, &disk);
    assert!(layout.counters().memory_bytes <= 80 << 10);
    assert!(!layout.counters().is_whole());
    layout.set_memory(2 * MIB);
    settle(&mut layout, &disk);
    assert!(layout.counters().is_whole(), "{:?}", layout.counters());
}

/// The bounded look of a client's request never says "no" where a write would be noted: then
/// reading again finds nothing new.
#[test]
fn what_no_request_minds_changes_nothing() {
    for (kind, (name, build)) in KINDS.iter().enumerate() {
        let mut dice = Dice::new(77 + kind as u64);
        let disk = build(&mut dice);
        let mut layout = layout_of(&disk, MIB);
        while layout.step(&disk, 64) == Progress::More {}
        let before = layout.counters();
        for _ in 0..2000 {
            let at = dice.below(disk.size_bytes / 512) * 512;
            if layout.interest(at, 4096, None) == Interest::None {
                layout.changed(at, 4096);
            }
        }
        assert_eq!(layout.step(&disk, 64), Progress::Idle, "{name}");
        assert_eq!(layout.counters().reads, before.reads, "{name}");
    }
}

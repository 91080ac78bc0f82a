//! Damage below a volume affects only that volume. Others continue, checkpoints end, and everything
//! that does not need the damaged data works.

use crate::small_volumes;

use format::container::ContainerClass::{self, Data, Recipe};
use format::container::{ContainerHeader, HEADER_BYTES, SECTOR_BYTES};
use sim::{CrashPoint, Plan, SimDisk, Walker};
use small_volumes::{CONTEXT, made, open, read, small, write};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::StoreErrorKind;
use testkit::specimen::noise;
use volume::{Durability, Volume};
use volumes::{CheckpointStep, Volumes};

const CHUNK: usize = 4096;
/// Size of a volume with two levels of recipe nodes.
const SIZE: u64 = 8 << 20;

fn containers(disk: &SimDisk) -> BTreeSet<String> {
    let files = disk.image().files_below("containers").into_iter();
    files.map(|(name, _)| name).collect()
}

/// Returns the containers that `work` adds.
fn added(disk: &SimDisk, volumes: &Volumes, work: impl FnOnce(&Volumes)) -> Vec<String> {
    let before = containers(disk);
    work(volumes);
    volumes.checkpoint().expect("checkpoint");
    containers(disk).difference(&before).cloned().collect()
}

/// Damages all regions of the containers of a class; their headers and directories stay intact.
fn damage(disk: &SimDisk, names: &[String], class: ContainerClass) {
    let mut damaged = 0;
    for name in names {
        let mut bytes = disk.image().contents(name).expect("container");
        let header = ContainerHeader::decode(&bytes, false).expect("header");
        if header.class == class {
            let regions = HEADER_BYTES..(header.directory_sector * SECTOR_BYTES) as usize;
            bytes[regions].iter_mut().for_each(|b| *b ^= 0x55);
            disk.plant(name, &bytes);
            damaged += 1;
        }
    }
    assert!(damaged > 0, "nothing of {class:?} in {names:?}");
}

/// Creates volumes "one" and "two" full of noise, and damages the data of "one" in containers of
/// `class`.
fn with_damage(class: ContainerClass) -> (Arc<SimDisk>, Volumes) {
    let disk = made();
    let volumes = open(&disk, 2);
    let one = volumes.create("one", SIZE, 12).expect("create");
    let names = added(&disk, &volumes, |_| {
        write(&one, 0, &noise(1, 1 << 20));
    });
    volumes.snapshot("one", "before").expect("snapshot");
    let two = volumes.create("two", SIZE, 12).expect("create");
    write(&two, 0, &noise(2, 1 << 20));
    volumes.checkpoint().expect("checkpoint");
    drop((one, two, volumes));
    damage(&disk, &names, class);
    let disk = SimDisk::on(disk.image());
    let volumes = open(&disk, 3);
    (disk, volumes)
}

/// Shuts down like a server. Returns the number of steps.
fn settle(volumes: &Volumes) -> usize {
    volumes.flush().expect("flush");
    for step in 0..1000 {
        if volumes.step(64 << 20).expect("step") == CheckpointStep::Idle {
            return step;
        }
    }
    panic!("it does not end");
}

fn generation(volumes: &Volumes) -> u64 {
    volumes.pool().generation().0
}

#[test]
fn a_shutdown_over_a_damaged_chunk_ends() {
    let (disk, volumes) = with_damage(Data);
    let one = volumes.volume("one").expect("one");
    write(&one, 5000, b"small");
    let before = generation(&volumes);
    assert!(settle(&volumes) <= 2);
    assert_eq!(
        generation(&volumes),
        before,
        "nothing was taken, so nothing is committed"
    );
    let kept = volumes.kept_writes();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(
        (kept[0].name.as_str(), &kept[0].ranges),
        ("one", &std::iter::once(4096..8192).collect())
    );
    assert!(!kept[0].refuses, "{kept:?}");
    // A write beside the kept one is taken, in one commit.
    write(&one, 2 << 20, &noise(3, CHUNK));
    assert!(settle(&volumes) <= 4);
    assert_eq!(generation(&volumes), before + 1);
    // Further calls change nothing.
    assert_eq!(settle(&volumes), 0);
    drop((one, volumes));
    let volumes = open(&disk, 4);
    let one = volumes.volume("one").expect("one");
    let mut found = [0; 5];
    one.read(CONTEXT, 5000, &mut found)
        .expect("what was written is whole");
    assert_eq!(&found, b"small");
    let mut whole = vec![0; CHUNK];
    one.read(CONTEXT, 2 << 20, &mut whole).expect("read");
    assert!(whole == noise(3, CHUNK));
    one.read(CONTEXT, 4096, &mut whole)
        .expect_err("the rest of the chunk is damaged");
    assert!(settle(&volumes) <= 2);
    // A chunk that is written completely can be taken.
    write(&one, 4096, &noise(4, CHUNK));
    settle(&volumes);
    assert_eq!(volumes.kept_writes(), []);
    one.read(CONTEXT, 4096, &mut whole).expect("read");
    assert!(whole == noise(4, CHUNK));
}

#[test]
fn what_is_carried_survives_power_loss_at_the_commit() {
    for round in 0..2 {
        let (disk, volumes) = with_damage(Data);
        let one = volumes.volume("one").expect("one");
        write(&one, 5000, b"flushed");
        volumes.flush().expect("flush");
        if round == 1 {
            // Newer and not flushed: the commit makes replay skip both.
            write(&one, 5000, b"newerer");
        }
        write(&one, 2 << 20, &noise(3, CHUNK));
        volumes.checkpoint().expect("checkpoint");
        // Only synced data is there.
        let recording = disk.recording();
        let mut walker = Walker::new(&recording);
        walker.advance(disk.position());
        let crashed = CrashPoint::new(&walker).state(Plan::Nothing);
        let crashed = SimDisk::unrecorded(crashed);
        drop((one, volumes));
        let volumes = open(&crashed, 5);
        let one = volumes.volume("one").expect("one");
        let mut found = [0; 7];
        one.read(CONTEXT, 5000, &mut found).expect("read");
        let expected: &[u8] = [b"flushed", b"newerer"][round];
        assert!(found == *b"flushed" || found == expected, "{found:?}");
    }
}

/// Writes several ring lengths to "two" while "one" is damaged and has new writes.
fn the_other_goes_on(class: ContainerClass, per_round: usize) {
    let (disk, volumes) = with_damage(class);
    let (one, two) = (
        volumes.volume("one").expect("one"),
        volumes.volume("two").expect("two"),
    );
    write(&one, 5000, b"small");
    let before = generation(&volumes);
    let mut refused = None;
    // The ring has 1 MiB.
    for n in 0..1500u64 {
        let at = n % 700 * CHUNK as u64;
        write(&two, at + 100, &noise(n, 3000));
        if n % 7 == 0 {
            for m in 0..per_round as u64 {
                // Writes over damaged chunks.
                let at = ((n * 31 + m * 7) % 250) * CHUNK as u64 + 50;
                let wrote = one.write(CONTEXT, at, &[9; 1000], Durability::Volatile);
                refused = refused.or(wrote.err().map(|e| e.to_string()));
            }
        }
        if n % 100 == 0 {
            two.flush(CONTEXT).expect("flush");
        }
    }
    assert!(
        generation(&volumes) - before < 100,
        "{before} {}",
        generation(&volumes)
    );
    settle(&volumes);
    let kept = volumes.kept_writes();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0].name, "one");
    if per_round > 1 {
        let refused = refused.expect("one takes no more");
        assert!(
            refused.contains("one") && refused.contains("no more writes"),
            "{refused}"
        );
        assert!(kept[0].refuses, "{kept:?}");
    } else {
        assert_eq!(refused, None);
    }
    let bytes = read(&two);
    drop((one, two, volumes));
    let slots = disk.image().files_below("journal").len();
    assert!(slots <= 32, "at most four times the ring");
    let volumes = open(&disk, 5);
    assert_eq!(volumes.damage(), []);
    let one = volumes.volume("one").expect("one");
    if per_round <= 1 {
        let mut found = [0; 5];
        one.read(CONTEXT, 5000, &mut found)
            .expect("what was written is whole");
        assert!(found == *b"small" || found == [9; 5], "{found:?}");
    }
    let two = volumes.volume("two").expect("two");
    assert!(read(&two) == bytes);
    settle(&volumes);
    // After a rollback it has its old contents and accepts writes.
    let clean = volumes.create("clean", SIZE, 12).expect("create");
    write(&clean, 0, &noise(9, CHUNK));
    let first = volumes
        .snapshot("clean", "first")
        .expect("others are snapshotted");
    volumes
        .rollback("one", &first)
        .expect("rollback past the damage");
    assert_eq!(volumes.kept_writes(), []);
    write(&one, 4097, b"again");
    settle(&volumes);
    assert_eq!(volumes.kept_writes(), []);
    assert!(read(&one)[..CHUNK] == noise(9, CHUNK));
}

/// Kept writes count neither as used nor as space: checkpoints begin when three quarters of what
/// they can free are used, and go on down to a quarter.
#[test]
fn checkpoints_begin_and_end_by_what_they_can_free() {
    for kept in [0, 60] {
        let (_disk, volumes) = with_damage(Data);
        let one = volumes.volume("one").expect("one");
        let two = volumes.volume("two").expect("two");
        for n in 0..kept {
            write(&one, n * CHUNK as u64 + 100, &noise(n, 3900));
        }
        settle(&volumes);
        assert_eq!(volumes.kept_writes().len(), usize::from(kept > 0));
        assert!(!volumes.wants_checkpoint(true), "{kept}: nothing can go");
        let (mut written, ring) = (0, small().journal.bytes_max);
        while !volumes.wants_checkpoint(false) {
            write(&two, written % (2 << 20), &noise(written, CHUNK));
            written += CHUNK as u64;
            assert!(written < ring, "{kept}: it never begins");
        }
        // Whole slots count, of an eighth of the ring each.
        let percent = written * 100 / ring;
        assert!(
            (48..=77).contains(&percent),
            "{kept}: begins at {percent} %"
        );
        assert!(volumes.wants_checkpoint(true));
        while volumes.wants_checkpoint(true) {
            let step = volumes.step(64 << 10).expect("step");
            assert_ne!(step, CheckpointStep::Idle, "{kept}: it does not end");
        }
    }
}

#[test]
fn others_go_on_beside_a_damaged_chunk() {
    the_other_goes_on(Data, 0);
}

#[test]
fn others_go_on_beside_a_damaged_recipe() {
    the_other_goes_on(Recipe, 0);
}

#[test]
fn a_damaged_volume_takes_no_more_than_its_share() {
    the_other_goes_on(Data, 8);
    the_other_goes_on(Recipe, 8);
}

#[test]
fn what_needs_nothing_damaged_works_and_what_does_is_refused() {
    let (_disk, volumes) = with_damage(Data);
    let one = volumes.volume("one").expect("one");
    // No write lies over the damage: all operations work.
    write(&one, 4 << 20, &noise(5, CHUNK));
    volumes.snapshot("one", "beside").expect("snapshot");
    volumes.clone_volume("copy", "one").expect("clone");
    write(&one, 5000, b"small");
    for e in [
        volumes
            .snapshot("one", "over")
            .map(drop)
            .expect_err("it would lack a write"),
        volumes
            .clone_volume("lacking", "one")
            .map(drop)
            .expect_err("it would lack a write"),
    ] {
        assert_eq!(e.kind, StoreErrorKind::Corruption);
        assert!(e.to_string().contains("one bytes 4096 to 8192"), "{e}");
    }
    volumes.resize("one", 2 * SIZE).expect("longer");
    volumes.resize("one", 6 << 20).expect("shorter");
    let mut found = [0; 5];
    one.read(CONTEXT, 5000, &mut found).expect("read");
    assert_eq!(&found, b"small");
    volumes.snapshot("two", "fine").expect("others");
    let snapshots = volumes.pool().snapshots().expect("list");
    let before = snapshots
        .iter()
        .find(|s| s.name == "one@beside")
        .expect("it");
    volumes.rollback("one", before).expect("rollback");
    assert_eq!(one.size_bytes(), SIZE);
    volumes.delete("one").expect("delete");
}

#[test]
fn a_snapshot_is_refused_whose_recipe_is_damaged() {
    let (_disk, volumes) = with_damage(Recipe);
    let one = volumes.volume("one").expect("one");
    write(&one, 5000, &noise(6, 2 * CHUNK));
    let e = volumes
        .snapshot("one", "over")
        .map(drop)
        .expect_err("it would lack a write");
    assert_eq!(e.kind, StoreErrorKind::Corruption);
    volumes.snapshot("two", "fine").expect("others");
    let mut found = vec![0; 2 * CHUNK];
    one.read(CONTEXT, 5000, &mut found).expect("read");
    assert!(found == noise(6, 2 * CHUNK));
}

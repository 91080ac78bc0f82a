//! Defragmentation runs whose processes die: the next one continues at the record.
//!
//! Invariant: whenever a process dies, the run finds and copies what one process would have, and
//! the data reads as it was written.

use crate::fragmented;

use format::defrag::{DefragCounts, DefragToll, MoveCounts};
use format::phase::TaskPhase;
use fragmented::*;
use maintenance::{
    DefragReport, DefragSource, DefragStage, Defragmenter, Heat, MaintenanceTask, RecordedDefrag,
    TaskStep,
};
use sim::SimDisk;
use std::collections::BTreeSet;
use std::sync::Arc;
use volumes::Volumes;

const BLOCKS: u64 = 8;

fn source(volumes: &Arc<Volumes>) -> DefragSource {
    DefragSource::Volumes(Arc::clone(volumes))
}

fn begin(volumes: &Arc<Volumes>, names: &[&str], heat: Option<Heat>) -> Defragmenter {
    let keys: Vec<u64> = names.iter().map(|name| key(volumes, name)).collect();
    Defragmenter::new(source(volumes), &keys, heat, options()).expect("begin")
}

/// Resumes the run of another process.
fn taken_up(volumes: &Arc<Volumes>) -> Defragmenter {
    let recorded = RecordedDefrag::read(volumes.pool()).expect("a record");
    Defragmenter::resume(source(volumes), recorded, lane()).expect("resume")
}

/// Results that do not depend on the processes.
fn found(report: &DefragReport) -> (DefragCounts, DefragToll, DefragToll) {
    let counts = DefragCounts {
        moved: MoveCounts::default(),
        ..report.counts
    };
    (counts, report.before, report.after)
}

/// Lifetimes of processes: number and bytes of the steps; one in `settle_every` is followed by a
/// commit.
#[derive(Clone, Copy, Debug)]
struct Lives {
    steps: usize,
    bytes: u64,
    settle_every: usize,
}

struct Ended {
    report: DefragReport,
    /// Bytes that all processes copied.
    copied: u64,
    processes: u64,
    /// Stages in which a process died.
    stages: BTreeSet<u8>,
}

/// Runs to the end, over as many processes as it takes.
fn killed_again_and_again(
    disk: &Arc<SimDisk>,
    first: impl Fn(&Arc<Volumes>) -> Defragmenter,
    lives: Lives,
) -> Ended {
    let (mut copied, mut stages) = (0, BTreeSet::new());
    for process in 0..10_000 {
        let volumes = open(disk, 200 + process);
        let mut run = match process {
            0 => first(&volumes),
            _ => taken_up(&volumes),
        };
        if process == 0 {
            run.record().expect("record");
        }
        let before = run.report().counts.moved.bytes;
        for step in 1..=lives.steps {
            if lives.settle_every == 1 {
                run.settle_soon();
            }
            let is_over = match run.step(0, lives.bytes).expect("step") {
                TaskStep::Finished => true,
                TaskStep::Worked { .. } => false,
                other => panic!("{other:?}"),
            };
            let is_time = step % lives.settle_every == lives.settle_every / 2;
            if is_time {
                run.settle_soon();
            }
            if is_over || is_time || run.wants_record() {
                run.record().expect("record");
            }
            if is_over {
                let report = run.report();
                copied += report.counts.moved.bytes - before;
                let recorded = RecordedDefrag::read(volumes.pool())
                    .expect("a record")
                    .report();
                assert_eq!(recorded.phase, TaskPhase::AtRest);
                assert_eq!(found(&recorded), found(&report));
                is_sound(&volumes);
                return Ended {
                    report,
                    copied,
                    processes: process + 1,
                    stages,
                };
            }
        }
        copied += run.report().counts.moved.bytes - before;
        stages.insert(run.report().stage as u8);
    }
    panic!("it does not end");
}

#[test]
fn a_run_that_is_killed_after_any_step_does_nothing_twice() {
    let (disk, bytes) = made(BLOCKS);
    let whole = SimDisk::unrecorded(disk.image());
    let one = defragment(&open(&whole, 5), None, options());
    assert!(one.counts.wanted == BLOCKS && one.counts.unfair == 0);
    let best = read_cost(&whole, &bytes, &sequential(BLOCKS));
    for steps in [1, 3] {
        let disk = SimDisk::unrecorded(disk.image());
        let lives = Lives {
            steps,
            // A move, whatever it reads from the device.
            bytes: 16 << 20,
            settle_every: 1,
        };
        let ended = killed_again_and_again(&disk, |volumes| begin(volumes, &["disk"], None), lives);
        println!("{lives:?}: {} processes", ended.processes);
        assert_eq!(found(&ended.report), found(&one));
        assert_eq!(ended.copied, one.counts.moved.bytes, "copied twice");
        assert_eq!(ended.report.counts.moved.bytes, one.counts.moved.bytes);
        let cost = read_cost(&disk, &bytes, &sequential(BLOCKS));
        // A container for each process may end a run of regions.
        assert!(cost <= best + ended.processes, "{cost} and {best} regions");
        if steps == 1 {
            let all = (0..=5).collect();
            assert_eq!(
                ended.stages, all,
                "a process died in each stage, and one at the end"
            );
        }
    }
}

/// Records are rarer than steps, and steps are smaller than moves.
#[test]
fn what_was_done_since_the_last_record_is_all_that_is_done_again() {
    const STEP: u64 = 64 * KIB;
    let (disk, _) = made(BLOCKS);
    let whole = SimDisk::unrecorded(disk.image());
    let one = defragment(&open(&whole, 5), None, options());
    let lives = Lives {
        steps: 25,
        bytes: STEP,
        settle_every: 5,
    };
    let ended = killed_again_and_again(&disk, |volumes| begin(volumes, &["disk"], None), lives);
    assert_eq!(found(&ended.report), found(&one));
    let interval = lives.settle_every as u64 * STEP;
    // The incomplete move is begun anew.
    let again = ended.processes * (interval + 128 * KIB);
    println!(
        "{} of {} bytes, {} processes",
        ended.copied, one.counts.moved.bytes, ended.processes
    );
    assert!(ended.processes > 3 && ended.copied > one.counts.moved.bytes);
    assert!(ended.copied <= one.counts.moved.bytes + again);
}

/// A clone of a volume shares leaves of its recipe. An owner that two processes judge counts once.
#[test]
fn owners_are_asked_once_by_all_callers() {
    let (disk, _) = made(1);
    let volumes = open(&disk, 5);
    let old = volumes.create("old", 16 * BLOCK, 12).expect("create");
    write(&old, 0, &noise(8, 16 * BLOCK));
    volumes.checkpoint().expect("checkpoint");
    for clone in ["a", "b", "z"] {
        volumes.clone_volume(clone, "old").expect("clone");
    }
    // In turn one page of each window in one region or two: the windows lie in two runs, or in
    // three.
    for pages in 0..2 {
        for window in (0..32).filter(|window| pages == 0 || window % 2 == 1) {
            let offset = window * 128 * KIB + (1 + 2 * pages) * 4 * KIB;
            write(&old, offset, &noise(100 + offset, 4 * KIB));
            volumes.checkpoint().expect("checkpoint");
        }
    }
    drop((old, volumes));
    let whole = SimDisk::unrecorded(disk.image());
    let volumes = open(&whole, 5);
    let one = finish(begin(&volumes, &["old"], None));
    assert!(
        one.counts.unfair > 0 && one.counts.fragmented > one.counts.unfair,
        "{one:?}"
    );
    // Moves are larger than such steps: only the judging is compared.
    let mut unfair = None;
    for process in 0..10_000 {
        let volumes = open(&disk, 300 + process);
        let mut run = match process {
            0 => begin(&volumes, &["old"], None),
            _ => taken_up(&volumes),
        };
        // Enough steps to add the moves again, and a little more.
        for _ in 0..1 + process {
            if run.report().stage != DefragStage::Moving {
                run.step(0, 1).expect("step");
            }
        }
        run.record().expect("record");
        if run.report().stage == DefragStage::Moving {
            unfair = Some((run.report().counts.unfair, run.report().counts.wanted));
            println!("{process} processes");
            assert!(process > 3);
            break;
        }
    }
    assert_eq!(unfair, Some((one.counts.unfair, one.counts.wanted)));
}

#[test]
fn a_pause_is_a_pause_and_an_end_is_an_end_for_every_next_caller() {
    let (disk, _) = made(BLOCKS);
    let volumes = open(&disk, 5);
    let mut run = begin(&volumes, &["disk"], None);
    while run.report().counts.moved.bytes == 0 {
        // In the middle of a move.
        run.step(0, 16 * KIB).expect("step");
    }
    run.pause().expect("pause");
    let moved = run.report().counts.moved;
    drop((run, volumes));
    let volumes = open(&disk, 6);
    let recorded = RecordedDefrag::read(volumes.pool()).expect("a record");
    assert_eq!(recorded.report().phase, TaskPhase::Paused);
    assert_eq!(recorded.report().counts.moved.bytes, moved.bytes);
    let keys = [key(&volumes, "disk")];
    let wish = recorded.report().wish;
    assert!(recorded.is_unfinished_of(&wish, &keys));
    let other = format::defrag::DefragWish {
        moves_shared: true,
        ..wish
    };
    assert!(!recorded.is_unfinished_of(&other, &keys));
    assert_eq!(moved.bytes, 128 * KIB, "a pause is after a move");
    let mut run = taken_up(&volumes);
    while run.report().counts.moved.bytes == moved.bytes {
        run.step(0, 16 * KIB).expect("step");
    }
    // A run that continues after that copies nothing twice either.
    run.settle().expect("commit");
    while run.report().counts.moved.bytes < 3 * 128 * KIB {
        run.step(0, 16 << 20).expect("step");
    }
    assert_eq!(run.report().counts.moved.bytes, 3 * 128 * KIB);
    let moved = run.report().counts.moved;
    run.cancel().expect("cancel");
    let ended = RecordedDefrag::read(volumes.pool())
        .expect("a record")
        .report();
    assert_eq!(ended.phase, TaskPhase::AtRest);
    assert!(ended.ended.0 >= ended.began.0 && ended.stage != DefragStage::Done);
    // The next run finds the rest.
    let next = defragment(&volumes, None, options());
    assert_eq!(next.counts.wanted + moved.bytes / (128 * KIB), BLOCKS);
    is_sound(&volumes);
}

/// Objects that were deleted, truncated or overwritten; owners that were deleted while they were
/// judged.
#[test]
fn a_record_of_objects_that_have_changed_costs_work_only() {
    let (disk, _) = made(BLOCKS);
    for stage in [
        DefragStage::Sizing,
        DefragStage::Examining,
        DefragStage::Estimating,
        DefragStage::Moving,
        DefragStage::Measuring,
    ] {
        let disk = SimDisk::unrecorded(disk.image());
        let volumes = open(&disk, 5);
        volumes.clone_volume("gone", "disk").expect("clone");
        let bytes = noise(77, BLOCKS / 2 * BLOCK);
        let mut run = begin(&volumes, &["gone", "disk"], None);
        while run.report().stage != stage {
            run.step(0, 64 * KIB).expect("step");
        }
        run.step(0, 1).expect("step");
        run.record().expect("record");
        drop(run);
        volumes.delete("gone").expect("delete");
        let volume = volumes.volume("disk").expect("there");
        write(&volume, 0, &bytes);
        drop(volume);
        volumes.checkpoint().expect("checkpoint");
        drop(volumes);
        let volumes = open(&disk, 6);
        let report = finish(taken_up(&volumes));
        assert_eq!(report.counts.failed, 0, "{stage:?}: {report:?}");
        is_sound(&volumes);
        let volume = volumes.volume("disk").expect("there");
        let mut into = vec![0; bytes.len()];
        volume::Volume::read(&volume, CONTEXT, 0, &mut into).expect("read");
        assert!(into == bytes, "{stage:?}");
        drop(volume);
        // The next run finds everything that was not examined because it was smaller then, or had
        // moved.
        let next = defragment(&volumes, None, options());
        assert_eq!(
            next.after.runs,
            defragment(&volumes, None, options()).before.runs
        );
    }
}

#[test]
fn a_lost_or_torn_record_costs_work_only() {
    let (disk, _) = made(BLOCKS);
    let volumes = open(&disk, 5);
    let mut run = begin(&volumes, &["disk"], None);
    for _ in 0..3 {
        run.step(0, 1 << 20).expect("step");
        run.record().expect("record");
    }
    let newest = run.report().ranges_done();
    drop((run, volumes));
    let tear = |path: &str| {
        let file = media::Disk::open(&*disk, path, false).expect("there");
        file.write_at(70, &[0xa5; 9]).expect("torn");
    };
    let recorded = |seed| {
        let volumes = open(&disk, seed);
        RecordedDefrag::read(volumes.pool()).map(|r| r.report().ranges_done())
    };
    assert_eq!(recorded(6), Some(newest));
    tear("cache/defrag.1");
    assert!(
        recorded(7).is_some_and(|done| done <= newest),
        "its predecessor"
    );
    tear("cache/defrag.0");
    assert_eq!(recorded(8), None);
    let volumes = open(&disk, 9);
    let report = defragment(&volumes, None, options());
    assert_eq!((report.counts.wanted, report.counts.failed), (BLOCKS, 0));
}

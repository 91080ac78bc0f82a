//! Hot chunks that a server copies into small regions by itself: when it begins, when not, and how
//! much it writes over the days. The clock is virtual: each number of a life is 1,000 seconds.
//!
//! Invariant: a run writes once for the same hot chunks, and no more in a week than allowed.

use crate::fragmented::{CONTEXT, is_sound, shuffled};
use crate::hot_chunks::{CHUNK, CHUNKS, HOT, Served, lane, open, resumed};
use format::phase::TaskPhase;
use maintenance::{
    DefragReport, DefragSource, Defragmenter, FetchCost, HotChunks, HotDecision, HotState, HotWait,
    MaintenanceTask, RecordedDefrag, TaskStep,
};
use media::Room;
use sim::{Damage, SimDisk};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::IMAGE_REGION_BYTES;
use units::UnixNanos;
use volumes::Volumes;

const IMAGE: u64 = CHUNKS * CHUNK;
const LIFE_S: u64 = 1000;
const DAY_S: u64 = 86_400;

/// Returns the hot chunks, as the thread of a server finds them.
pub fn find(volumes: &Arc<Volumes>, weekly_percent: u8) -> HotChunks {
    let source = DefragSource::Volumes(Arc::clone(volumes));
    let known = RecordedDefrag::read(volumes.pool());
    let known = known.map_or_else(Default::default, |last| last.small_ranges());
    let amplified = source.amplified();
    HotChunks::find(source, &amplified, &known, weekly_percent, lane(16 << 10)).expect("found")
}

fn state(volumes: &Volumes, last: Option<&DefragReport>, weekly_percent: u8) -> Facts {
    Facts {
        now: volumes.pool().now(),
        last: last.copied(),
        weekly_percent,
        room: None,
        is_other_under_way: false,
    }
}

/// [`HotState`] that owns the last run.
struct Facts {
    now: UnixNanos,
    last: Option<DefragReport>,
    weekly_percent: u8,
    room: Option<Room>,
    is_other_under_way: bool,
}

impl Facts {
    fn decide(&self, hot: &HotChunks) -> HotDecision {
        let state = HotState {
            now: self.now,
            weekly_percent: self.weekly_percent,
            last: self.last.as_ref(),
            room: self.room,
            low_bytes: 1 << 30,
            is_other_under_way: self.is_other_under_way,
        };
        state.decide(hot)
    }
}

/// A server looks once, and makes the run if it begins one.
fn look(disk: &Arc<SimDisk>, life: u64, weekly_percent: u8) -> Result<DefragReport, HotWait> {
    let volumes = open(disk, life);
    let last = RecordedDefrag::read(volumes.pool()).map(|last| last.report());
    let mut hot = find(&volumes, weekly_percent);
    match state(&volumes, last.as_ref(), weekly_percent).decide(&hot) {
        HotDecision::Wait(wait) => Err(wait),
        HotDecision::Begin => {
            let report = finish_recorded(&mut hot.run);
            is_sound(&volumes);
            Ok(report)
        }
    }
}

/// Makes the run, and records it as the thread of a server does.
fn finish_recorded(run: &mut Defragmenter) -> DefragReport {
    run.record().expect("recorded");
    loop {
        let step = run.step(0, 1 << 20).expect("step");
        let is_over = matches!(step, TaskStep::Finished);
        if is_over || run.wants_record() {
            run.record().expect("recorded");
        }
        if is_over {
            return run.report();
        }
    }
}

fn served() -> Served {
    let served = Served::new(IMAGE_REGION_BYTES);
    served.cloned();
    served
}

#[test]
fn a_run_begins_for_new_hot_chunks_and_not_twice_for_the_same() {
    let served = served();
    let disk = &served.disk;
    assert_eq!(look(disk, 4, 3).unwrap_err(), HotWait::NothingNew);
    for life in 5..8 {
        served.read_hot(life);
    }
    assert_eq!(look(disk, 8, 0).unwrap_err(), HotWait::Off);
    let report = look(disk, 8, 3).expect("a run");
    assert!(report.wish.is_by_server());
    // Only the hot chunks: nothing else is examined.
    assert_eq!(report.counts.ranges, report.counts.small.ranges);
    assert_eq!(report.counts.moved.bytes, HOT * CHUNK);
    assert_eq!(report.counts.small.bytes, HOT * CHUNK);
    assert!(report.counts.small.after.bytes_each() < (16 << 10) as f64);
    // Later, and after the same chunks were read cold again and again.
    for life in 10..14 {
        served.read_hot(life);
        assert_eq!(look(disk, life, 3).unwrap_err(), HotWait::NothingNew);
    }
    let later = 14 + 30 * DAY_S / LIFE_S;
    assert_eq!(look(disk, later, 3).unwrap_err(), HotWait::NothingNew);
    // A run of a user finds nothing either, and the server learns nothing new of it.
    assert_eq!(served.defragment(later + 1).counts.small.amplified, 0);
    assert_eq!(look(disk, later + 3, 3).unwrap_err(), HotWait::NothingNew);
}

/// A lost record costs a look at every hot chunk, and writes nothing.
#[test]
fn without_its_record_a_run_copies_nothing_and_the_next_waits_a_day() {
    let served = served();
    let disk = &served.disk;
    for life in 5..8 {
        served.read_hot(life);
    }
    look(disk, 8, 3).expect("a run");
    for slot in ["cache/defrag.0", "cache/defrag.1"] {
        if let Ok(file) = media::Disk::open(&**disk, slot, false) {
            file.write_at(70, &[0xa5; 9]).expect("torn");
        }
    }
    let report = look(disk, 9, 3).expect("another");
    assert_eq!(report.counts.moved.bytes, 0);
    assert!(matches!(look(disk, 9 + 80, 3), Err(HotWait::Until(_))));
    assert_eq!(look(disk, 9 + 90, 3).unwrap_err(), HotWait::NothingNew);
}

#[test]
fn nothing_begins_beside_others_or_with_little_space_or_while_a_run_is_paused() {
    let served = served();
    for life in 5..8 {
        served.read_hot(life);
    }
    let volumes = open(&served.disk, 8);
    let hot = find(&volumes, 3);
    assert_eq!((hot.new_bytes, hot.all_bytes), (HOT * CHUNK, HOT * CHUNK));
    let decide = |change: &dyn Fn(&mut Facts)| {
        let mut state = state(&volumes, None, 3);
        change(&mut state);
        state.decide(&hot)
    };
    let room = |free_bytes| {
        Some(Room {
            free_bytes,
            total_bytes: 8 << 30,
            ..Room::default()
        })
    };
    let wait = HotDecision::Wait;
    assert_eq!(decide(&|_| {}), HotDecision::Begin);
    let other = decide(&|state| state.is_other_under_way = true);
    assert_eq!(other, wait(HotWait::OtherTask));
    let low = decide(&|state| state.room = room((1 << 30) + HOT * CHUNK - 1));
    assert_eq!(low, wait(HotWait::LittleSpace));
    let enough = decide(&|state| state.room = room((1 << 30) + HOT * CHUNK));
    assert_eq!(enough, HotDecision::Begin);
    let unfinished = |phase| DefragReport {
        phase,
        ..DefragReport::default()
    };
    for phase in [TaskPhase::Paused, TaskPhase::UnderWay] {
        let decided = decide(&|state| state.last = Some(unfinished(phase)));
        assert_eq!(decided, wait(HotWait::Unfinished));
    }
    // One that ended in the future, by a wrong clock, delays nothing.
    let ahead = DefragReport {
        ended: UnixNanos(i64::MAX / 2),
        ..DefragReport::default()
    };
    assert_eq!(
        decide(&|state| state.last = Some(ahead)),
        HotDecision::Begin
    );
}

/// Each day other chunks are hot, as many as one run may copy. Servers come and go.
#[test]
fn a_hot_set_that_changes_each_day_writes_what_a_week_allows() {
    let mut served = served();
    let days = 21;
    let all = shuffled(CHUNKS, 5);
    let mut written: Vec<u64> = Vec::new();
    let mut life = 5;
    for day in 0..days {
        let hot = all.iter().copied().cycle().skip(day * 50).take(50);
        served.hot = hot.collect();
        // Often enough that they are hotter than those of yesterday.
        for _ in 0..3 {
            life += 1;
            served.read_hot(life);
        }
        let mut today = 0;
        for _ in 0..4 {
            life += 5;
            today += look(&served.disk, life, 3).map_or(0, |report| report.counts.small.bytes);
        }
        written.push(today);
        life += DAY_S / LIFE_S - 23;
    }
    println!("{written:?}");
    let week = IMAGE * 3 / 100;
    assert!(
        written[0] >= 40 * CHUNK,
        "the first day has the week's allowance"
    );
    let distinct: BTreeSet<u64> = written.iter().copied().collect();
    assert!(distinct.len() > 1);
    for (first, _) in written.iter().enumerate() {
        let days = written.len() - first;
        let sum: u64 = written[first..].iter().sum();
        let allowed = week + week * days as u64 / 7;
        assert!(sum <= allowed, "{sum} of {allowed} in {days} days");
    }
    // It goes on as time passes.
    assert!(written[7..].iter().sum::<u64>() >= week, "{written:?}");
}

/// A run that is cancelled, or that the switch ends, is not begun again at once; one that a server
/// left is resumed with its allowance.
#[test]
fn runs_end_early_and_go_on() {
    let served = served();
    for life in 5..8 {
        served.read_hot(life);
    }
    let volumes = open(&served.disk, 8);
    let mut hot = find(&volumes, 2);
    hot.run.record().expect("recorded");
    drop((hot, volumes));
    let volumes = open(&served.disk, 9);
    let left = RecordedDefrag::unfinished(volumes.pool()).expect("there");
    assert!(left.report().wish.is_by_server());
    let mut run: Defragmenter = resumed(&volumes, left);
    while run.report().counts.small.bytes < 8 * CHUNK {
        run.settle_soon();
        run.step(0, 32 << 10).expect("step");
    }
    run.cancel().expect("cancelled");
    drop((run, volumes));
    assert!(matches!(look(&served.disk, 20, 2), Err(HotWait::Until(_))));
    let report = look(&served.disk, 8 + 100, 2).expect("the next day");
    // The copies of the first one are small by now, and count for the week.
    let small = report.counts.small;
    assert!(small.bytes < HOT * CHUNK && small.bytes > 0, "{small:?}");
    let (week, passed) = (IMAGE / 100 * 2, (100 - 1) * LIFE_S);
    assert!(report.spent_bytes >= 8 * CHUNK);
    let left = (report.spent_bytes).saturating_sub(week * passed / (7 * DAY_S));
    assert!(small.bytes <= week - left, "{small:?}, {left}");
}

/// Bits flip where hot chunks lie: these are reported and stay where they are, others are copied.
#[test]
fn a_hot_chunk_that_is_damaged_is_reported_and_others_are_copied() {
    let served = served();
    for life in 5..8 {
        served.read_hot(life);
    }
    let mut containers = served.disk.image().files_below("containers");
    containers.sort_by_key(|(_, bytes)| *bytes);
    let (file, bytes) = containers.pop().expect("one");
    for nth in 1..60 {
        let flip = Damage::FlipBit(8 * (bytes * nth / 64));
        served.disk.damage(&file, &flip).expect("flipped");
    }
    let volumes = open(&served.disk, 8);
    let hot = find(&volumes, 3);
    let mut run = hot.run;
    let mut reported = 0;
    let report = loop {
        match run.step(0, 1 << 20).expect("step") {
            TaskStep::Finished => break run.report(),
            TaskStep::News(error) => {
                assert!(error.is_corruption(), "{error}");
                reported += 1;
            }
            TaskStep::Worked { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let counts = &report.counts;
    assert!(reported > 0 && counts.failed == reported, "{counts:?}");
    assert!(counts.small.bytes >= HOT * CHUNK / 4 && counts.small.bytes < HOT * CHUNK);
    run.record().expect("recorded");
    drop((run, volumes));
    // Copied chunks read as they were stored; the others fail, and are no reason for another run.
    let volumes = open(&served.disk, 20);
    let volume = volumes.volume("db").expect("there");
    let mut failed = 0;
    for chunk in &served.hot {
        let mut into = vec![0; CHUNK as usize];
        match volume::Volume::read(&volume, CONTEXT, chunk * CHUNK, &mut into) {
            Ok(()) => assert!(into == served.bytes[(chunk * CHUNK) as usize..][..CHUNK as usize]),
            Err(_) => failed += 1,
        }
    }
    assert!(failed >= reported && failed < HOT, "{failed} of {HOT}");
    drop((volume, volumes));
    assert_eq!(
        look_only(&served.disk, 30),
        HotDecision::Wait(HotWait::NothingNew)
    );
}

/// Returns the next action of a server, and does nothing.
fn look_only(disk: &Arc<SimDisk>, life: u64) -> HotDecision {
    let volumes = open(disk, life);
    let last = RecordedDefrag::read(volumes.pool()).map(|last| last.report());
    state(&volumes, last.as_ref(), 3).decide(&find(&volumes, 3))
}

//! The fault model, example by example: the states that a crash may leave. `cargo test -p sim` runs
//! it.
//!
//! Invariant: each test lists all outcomes of a small history, so that both a missing and an
//! impossible one fail.

use media::{Barrier, Disk, DiskFile};
use sim::{CrashPoint, Fault, Image, Plan, Recording, Seed, SimDisk, Walker};
use std::collections::BTreeSet;
use std::sync::Arc;

const POINT: Barrier = Barrier::IndexBeforeClean;

/// A state as text: names with what `show` makes of their bytes.
fn text(image: &Image, show: &dyn Fn(&[u8]) -> String) -> String {
    let file = |(path, _): (String, u64)| {
        let bytes = image.contents(&path).unwrap();
        format!("{path}={}", show(&bytes))
    };
    image
        .files()
        .into_iter()
        .map(file)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Every state that plans reach at the end of the log.
fn states(recording: &Recording, show: &dyn Fn(&[u8]) -> String) -> BTreeSet<String> {
    let mut walker = Walker::new(recording);
    walker.advance(recording.log.len());
    let point = CrashPoint::new(&walker);
    let mut seed = Seed::new(1);
    let mut plans = point.plans(1000, &mut seed);
    plans.extend((0..500).map(|_| Plan::Random(seed.draw())));
    plans
        .into_iter()
        .map(|plan| text(&point.state(plan), show))
        .collect()
}

/// First letters of each run of equal bytes.
fn runs(bytes: &[u8]) -> String {
    let mut letters: Vec<char> = bytes
        .iter()
        .map(|b| if *b == 0 { '0' } else { char::from(*b) })
        .collect();
    letters.dedup();
    format!(
        "{}:{}",
        letters.into_iter().collect::<String>(),
        bytes.len()
    )
}

fn set(states: &[&str]) -> BTreeSet<String> {
    states.iter().map(|state| (*state).to_owned()).collect()
}

/// A disk on which `file` has `bytes`, durably.
fn disk_with(file: &str, bytes: &[u8]) -> (Arc<SimDisk>, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    disk.plant(file, bytes);
    let file = disk.open(file, false).unwrap();
    (disk, file)
}

#[test]
fn what_was_synced_is_there() {
    let disk = SimDisk::new();
    disk.make_dir("d").unwrap();
    let file = disk.open("d/f", true).unwrap();
    file.write_at(0, b"A").unwrap();
    file.sync(POINT).unwrap();
    disk.sync_dir("d", POINT).unwrap();
    // The directory's own name is still pending.
    assert_eq!(states(&disk.recording(), &runs), set(&["", "d/f=A:1"]));
    disk.sync_dir("", POINT).unwrap();
    assert_eq!(states(&disk.recording(), &runs), set(&["d/f=A:1"]));
}

#[test]
fn a_name_and_its_bytes_are_separate() {
    let disk = SimDisk::new();
    let file = disk.open("f", true).unwrap();
    file.write_at(0, b"AB").unwrap();
    let all = set(&["", "f=:0", "f=0:2", "f=AB:2"]);
    assert_eq!(states(&disk.recording(), &runs), all);
    file.sync(POINT).unwrap();
    assert_eq!(states(&disk.recording(), &runs), set(&["", "f=AB:2"]));
    file.write_at(1, b"C").unwrap();
    disk.sync_dir("", POINT).unwrap();
    assert_eq!(states(&disk.recording(), &runs), set(&["f=AB:2", "f=AC:2"]));
}

#[test]
fn writes_tear_at_sectors() {
    let (disk, file) = disk_with("f", &[b'a'; 1024]);
    file.write_at(500, &[b'B'; 600]).unwrap();
    let found = states(&disk.recording(), &runs);
    let exact = |image: &[(u8, usize)]| {
        let bytes: Vec<u8> = image.iter().flat_map(|(b, n)| vec![*b; *n]).collect();
        format!("f={}", runs(&bytes))
    };
    // Sectors 0 and 1 are partly and completely covered, sector 2 is new.
    let (old, new) = (b'a', b'B');
    let expected: BTreeSet<String> = [
        exact(&[(old, 1024)]),
        exact(&[(old, 500), (new, 12), (old, 512)]),
        exact(&[(old, 512), (new, 512)]),
        exact(&[(old, 500), (new, 524)]),
        exact(&[(old, 500), (new, 600)]),
        exact(&[(old, 512), (new, 588)]),
        exact(&[(old, 500), (new, 12), (old, 512), (new, 76)]),
        exact(&[(old, 1024), (new, 76)]),
        exact(&[(old, 1024), (0, 76)]),
        exact(&[(old, 500), (new, 12), (old, 512), (0, 76)]),
        exact(&[(old, 512), (new, 512), (0, 76)]),
        exact(&[(old, 500), (new, 524), (0, 76)]),
    ]
    .into();
    assert_eq!(found, expected);
}

#[test]
fn any_subset_of_writes_and_lengths() {
    let (disk, file) = disk_with("f", b"aaaa");
    file.write_at(0, b"B").unwrap();
    file.set_len(2).unwrap();
    file.write_at(3, b"C").unwrap();
    let mut expected = BTreeSet::new();
    for subset in 0..8_u32 {
        let mut bytes = b"aaaa".to_vec();
        if subset & 1 != 0 {
            bytes[0] = b'B';
        }
        if subset & 2 != 0 {
            bytes.truncate(2);
        }
        if subset & 4 != 0 {
            bytes.resize(4, 0);
            bytes[3] = b'C';
        }
        expected.insert(format!("f={}", runs(&bytes)));
        bytes.resize(4, 0);
        // The length without the last write's byte.
        expected.insert(format!("f={}", runs(&bytes)));
    }
    assert_eq!(states(&disk.recording(), &runs), expected);
}

#[test]
fn a_move_between_directories_is_two_changes() {
    let disk = SimDisk::new();
    disk.plant("s/f", b"A");
    disk.plant("t/old", b"B");
    disk.rename("s/f", "t/f").unwrap();
    let all = set(&[
        "s/f=A:1 t/old=B:1",
        "s/f=A:1 t/f=A:1 t/old=B:1",
        "t/old=B:1",
        "t/f=A:1 t/old=B:1",
    ]);
    assert_eq!(states(&disk.recording(), &runs), all);
    disk.sync_dir("t", POINT).unwrap();
    let both = set(&["s/f=A:1 t/f=A:1 t/old=B:1", "t/f=A:1 t/old=B:1"]);
    assert_eq!(states(&disk.recording(), &runs), both);
}

#[test]
fn two_names_are_one_file() {
    let disk = SimDisk::new();
    disk.plant("s/f", b"A");
    disk.plant("t/x", b"");
    disk.rename("s/f", "t/f").unwrap();
    disk.sync_dir("t", POINT).unwrap();
    let mut walker = Walker::new(&disk.recording());
    walker.advance(usize::MAX);
    let after = SimDisk::on(CrashPoint::new(&walker).state(Plan::Nothing));
    after.open("s/f", false).unwrap().write_at(0, b"Z").unwrap();
    assert_eq!(after.image().contents("t/f"), Some(b"Z".to_vec()));
}

#[test]
fn a_move_within_a_directory_happens_or_not() {
    let disk = SimDisk::new();
    disk.plant("f", b"A");
    disk.plant("g", b"B");
    disk.rename("f", "g").unwrap();
    assert_eq!(
        states(&disk.recording(), &runs),
        set(&["f=A:1 g=B:1", "g=A:1"])
    );
    disk.remove("g").unwrap();
    assert_eq!(
        states(&disk.recording(), &runs),
        set(&["f=A:1 g=B:1", "g=A:1", "f=A:1", ""])
    );
}

#[test]
fn a_directory_without_a_name_takes_all_with_it() {
    let disk = SimDisk::new();
    disk.make_dir("a").unwrap();
    disk.make_dir("a/b").unwrap();
    disk.sync_dir("a", POINT).unwrap();
    let file = disk.open("a/b/f", true).unwrap();
    file.sync(POINT).unwrap();
    disk.sync_dir("a/b", POINT).unwrap();
    assert_eq!(states(&disk.recording(), &runs), set(&["", "a/b/f=:0"]));
}

#[test]
fn a_sync_left_out_or_failed_makes_nothing_durable() {
    let (disk, file) = disk_with("f", b"a");
    let disk = disk.without(POINT);
    file.write_at(0, b"B").unwrap();
    file.sync(POINT).unwrap();
    assert_eq!(states(&disk.recording(), &runs), set(&["f=a:1", "f=B:1"]));
    file.sync(Barrier::RootBeforeAck).unwrap();
    assert_eq!(states(&disk.recording(), &runs), set(&["f=B:1"]));

    let (disk, file) = disk_with("f", b"a");
    file.write_at(0, b"B").unwrap();
    disk.inject(Fault::Sync {
        after: 0,
        sticky: false,
    });
    assert!(file.sync(POINT).is_err());
    file.sync(POINT).unwrap();
    let mut byte = [0];
    file.read_at(0, &mut byte).unwrap();
    assert_eq!(
        (byte, states(&disk.recording(), &runs)),
        (*b"B", set(&["f=a:1"]))
    );
}

#[test]
fn a_killed_process_is_silent_and_loses_nothing() {
    let (disk, file) = disk_with("f", b"a");
    let lock = disk.lock("f").unwrap();
    file.write_at(0, b"B").unwrap();
    let next = disk.kill();
    assert!(file.write_at(0, b"C").is_err());
    assert!(disk.remove("f").is_err());
    let again = next.lock("f").unwrap();
    drop(lock);
    assert!(
        next.lock("f").is_err(),
        "the dead one's lock is not the living one's"
    );
    drop(again);
    assert_eq!(next.image().contents("f"), Some(b"B".to_vec()));
    // Still pending: the power may fail after the process died.
    assert_eq!(states(&next.recording(), &runs), set(&["f=a:1", "f=B:1"]));

    next.kill_after(2);
    next.open("g", true).unwrap();
    next.open("h", true).unwrap();
    assert!(next.open("i", true).is_err());
    assert_eq!(next.kill().image().files().len(), 3);
}

#[test]
fn old_changes_settle() {
    let (disk, file) = disk_with("f", b"");
    for _ in 0..2000 {
        file.write_at(0, b"B").unwrap();
    }
    let mut walker = Walker::new(&disk.recording());
    walker.advance(usize::MAX);
    assert!(walker.pending() <= 256);
}

#[test]
fn faults_strike_where_they_were_put() {
    let disk = SimDisk::new();
    let file = disk.open("f", true).unwrap();
    disk.inject(Fault::NoSpaceAfter(6));
    file.write_at(0, b"AAAA").unwrap();
    let full = file.write_at(4, b"BBBB").unwrap_err();
    assert_eq!(full.kind, media::MediaErrorKind::NoSpace);
    assert_eq!(disk.image().contents("f"), Some(b"AAAABB".to_vec()));
    disk.clear_faults();
    disk.inject(Fault::Write { after: 1 });
    file.write_at(0, b"CC").unwrap();
    assert!(file.write_at(0, b"DD").is_err());
    file.write_at(2, b"EE").unwrap();
    assert_eq!(disk.image().contents("f"), Some(b"DCEEBB".to_vec()));
    disk.inject(Fault::Read { after: 0 });
    assert!(file.read_at(0, &mut [0]).is_err());
    disk.clear_faults();
    disk.inject(Fault::ReadOnly);
    let refused = disk.make_dir("d").unwrap_err();
    assert_eq!(refused.kind, media::MediaErrorKind::ReadOnly);
    disk.inject(Fault::Missing);
    assert!(disk.list("").is_err());
}

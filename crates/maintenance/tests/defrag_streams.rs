//! Defragmentation of streams, which are read from begin to end: short runs are joined once, long
//! ones stay, and no run makes work for the next one.

use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::{
    DefragOptions, DefragReport, DefragSource, Defragmenter, MaintenanceTask, TaskStep,
};
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{InitOptions, LaneOptions, OpenMode, Pool};

const LANE: LaneOptions = LaneOptions {
    compression: chunking::Compression::None,
    region_bytes: 128 << 10,
    container_bytes: 4 << 20,
};
/// Two segments.
const BYTES: usize = 16 << 20;
const MEMORY_BYTES: usize = 16 << 20;

fn open(disk: &Arc<SimDisk>, seed: u64) -> Arc<Pool> {
    let media = testkit::specimen::media(disk, seed);
    Arc::new(Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).expect("open"))
}

fn store(pool: &Pool, bytes: &[u8]) -> Snapshot {
    let mut session = pool.begin(LANE).expect("session");
    let root = session.main().store_object(bytes, false).expect("store");
    let snapshot = testkit::specimen::snapshot(pool, SnapshotKind::Stream, "stream", root);
    let all = std::slice::from_ref(&snapshot);
    pool.commit(session, all, &[]).expect("commit");
    snapshot
}

/// A pool, and the last of several generations of a stream; a few other pieces are new in each.
fn aged(generations: u64) -> (Arc<SimDisk>, Snapshot, Vec<u8>) {
    let disk = SimDisk::unrecorded(Image::new());
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 16 << 10,
        parity_percent: 0,
    };
    Pool::init(&testkit::specimen::media(&disk, 1), &init).expect("init");
    let mut bytes = testkit::specimen::noise(2, BYTES);
    let mut snapshot = store(&open(&disk, 3), &bytes);
    for nth in 0..generations {
        for piece in 0..4 {
            let at = ((nth * 5 + piece * 61) % 255) as usize * (64 << 10);
            let new = testkit::specimen::noise(100 + nth * 10 + piece, 64 << 10);
            bytes[at..at + new.len()].copy_from_slice(&new);
        }
        snapshot = store(&open(&disk, 10 + nth), &bytes);
    }
    (disk, snapshot, bytes)
}

fn defragment(pool: &Arc<Pool>, snapshot: &Snapshot, rewrites_all: bool) -> DefragReport {
    let source = DefragSource::Pool(Arc::clone(pool));
    let all = source.fragmentables().expect("objects");
    let is_it = |one: &&store::Fragmentable| one.root == snapshot.root;
    let key = all.iter().find(is_it).expect("there").key;
    let options = DefragOptions {
        hot_percent: 100,
        moves_shared: true,
        rewrites_all,
        dry_run: false,
        bytes_per_s: None,
        lane: LANE,
    };
    let mut run = Defragmenter::new(source, &[key], None, options).expect("begin");
    loop {
        match run.step(0, 64 << 20).expect("step") {
            TaskStep::Finished => return run.report(),
            TaskStep::Worked { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn is_the_same(pool: &Pool, snapshot: &Snapshot, bytes: &[u8]) {
    let read = pool.reader().read_whole(&snapshot.root, u64::MAX);
    assert!(read.expect("read") == bytes);
}

#[test]
fn short_runs_are_put_together_once_and_long_ones_stay() {
    let (disk, snapshot, bytes) = aged(6);
    let pool = open(&disk, 50);
    let report = defragment(&pool, &snapshot, false);
    println!("{report:?}");
    assert_eq!((report.counts.ranges, report.counts.wanted), (2, 2));
    let few = report.counts.moved.bytes * 100 / BYTES as u64;
    assert!((5..50).contains(&few), "{few} % were copied");
    assert!(report.after.runs < report.before.runs);
    is_the_same(&pool, &snapshot, &bytes);
    let again = defragment(&pool, &snapshot, false);
    assert_eq!(
        (again.counts.wanted, again.counts.moved.bytes),
        (0, 0),
        "{again:?}"
    );
    drop(pool);
    is_the_same(&open(&disk, 51), &snapshot, &bytes);
}

#[test]
fn what_lies_in_order_is_left_alone() {
    let (disk, snapshot, _) = aged(0);
    let report = defragment(&open(&disk, 50), &snapshot, false);
    assert_eq!(
        (report.counts.fragmented, report.counts.moved.bytes),
        (0, 0)
    );
    let (disk, snapshot, bytes) = aged(3);
    let pool = open(&disk, 50);
    let whole = defragment(&pool, &snapshot, true);
    assert_eq!(whole.counts.moved.bytes, BYTES as u64);
    let after = defragment(&pool, &snapshot, false);
    assert_eq!((after.counts.wanted, after.counts.moved.bytes), (0, 0));
    is_the_same(&pool, &snapshot, &bytes);
}

/// A restore reads regions in the order of their places: fewer seeks, and no region twice.
#[test]
fn a_restore_reads_each_region_once() {
    let (disk, snapshot, bytes) = aged(6);
    let pool = open(&disk, 50);
    is_the_same(&pool, &snapshot, &bytes);
    let counts = pool.read_counts();
    // Data that do not compress are in regions of at least 16 KiB.
    let regions = bytes.len() as u64 / (16 << 10);
    assert!(counts.region_reads <= regions, "{counts:?}");
    // The index led to nearly all of them, without directories of data.
    assert!(
        counts.direct_reads * 10 > counts.region_reads * 9,
        "{counts:?}"
    );
}

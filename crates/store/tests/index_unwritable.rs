//! The fingerprint index is a cache: if its file cannot be written, from whatever moment on, a
//! backup continues. Only time is lost, and some bytes are stored twice.

mod no_cache;

use format::recipe::{Layout, ObjectRoot};
use format::snapshot::SnapshotKind;
use media::{DirBlobs, Disk, Media, Syncing};
use no_cache::NoCache;
use sim::pool_histories::check_all;
use sim::{Image, SimDisk};
use std::io::ErrorKind;
use std::sync::Arc;
use store::{InitOptions, ObjectBuilder, OpenMode, Pool, WriteSession};

/// So little that the index merges several times while the chunks are stored.
const MEMORY_BYTES: usize = 2 << 20;
const CHUNKS: u64 = 12_000;

fn open(disk: &NoCache, salt: u64, mode: OpenMode) -> Pool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let media = Media {
        blobs: Arc::new(DirBlobs::new(Arc::clone(&disk), Syncing::Inline)),
        disk,
        ..testkit::specimen::media(&SimDisk::unrecorded(Image::new()), salt)
    };
    Pool::open(media, None, mode, MEMORY_BYTES).expect("opens")
}

fn empty() -> Arc<SimDisk> {
    let disk = SimDisk::unrecorded(Image::new());
    let options = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&testkit::specimen::media(&disk, 1), &options).expect("init");
    disk
}

/// Returns chunk `n`: tiny, so that many of them take little time.
fn chunk(n: u64) -> Vec<u8> {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes()
        .repeat(3)
}

fn put(session: &mut WriteSession) -> ObjectRoot {
    let lane = session.main();
    let mut builder = ObjectBuilder::new(Layout::Variable);
    for n in 0..CHUNKS {
        let bytes = chunk(n);
        let fingerprint = lane.store_chunk(&bytes).expect("store");
        builder
            .push(fingerprint, bytes.len() as u64, &mut |n| lane.store_node(n))
            .expect("push");
    }
    builder.finish(&mut |n| lane.store_node(n)).expect("finish")
}

/// Makes one backup in a process of its own. Returns the number of new chunks and the warning for
/// the user.
fn back_up(disk: &NoCache, salt: u64) -> (u64, Option<String>) {
    let pool = open(disk, salt, OpenMode::Write);
    let options = testkit::specimen::options(chunking::Compression::Lz4);
    let mut session = pool.begin(options).expect("begins");
    let root = put(&mut session);
    let new = session.counts().chunks_new;
    let record = testkit::specimen::snapshot(&pool, SnapshotKind::Stream, "tiny", root);
    pool.commit(session, &[record], &[]).expect("commits");
    (new, pool.health().index_failure())
}

/// Asserts that everything is there, in a process with a working disk and no index.
fn is_whole(disk: &Arc<SimDisk>, snapshots: usize) {
    let disk = NoCache::new(Arc::clone(disk) as _, i64::MAX, ErrorKind::Other);
    let pool = open(&disk, 90, OpenMode::Read);
    let report = check_all(&pool).expect("checks");
    assert!(report.is_sound(), "{report:?}");
    let found = pool.snapshots().expect("lists");
    assert_eq!(found.len(), snapshots);
    for snapshot in found {
        let bytes = pool.reader().read_whole(&snapshot.root, 1 << 30);
        let wanted: Vec<u8> = (0..CHUNKS).flat_map(chunk).collect();
        assert!(bytes.expect("reads") == wanted);
    }
}

#[test]
fn a_backup_goes_on_from_whatever_change_on_the_index_fails() {
    let mut failed = 0;
    for left in [0, 1, 2, 3, 4, 6, 8, 12, 20, 40] {
        let why = match left % 4 {
            0 => ErrorKind::StorageFull,
            _ => ErrorKind::Other,
        };
        let sim = empty();
        let disk = NoCache::new(Arc::clone(&sim) as _, left, why);
        let (new, warning) = back_up(&disk, 2);
        // Chunks and recipe nodes. Without an index no chunk is skipped.
        assert!(new >= CHUNKS, "{left} {why:?}: {new}");
        failed += u64::from(warning.is_some());
        is_whole(&sim, 1);
        // The next process has the same failures, the one after it none.
        disk.allow(left);
        back_up(&disk, 3);
        is_whole(&sim, 2);
        disk.allow(i64::MAX);
        let (new, warning) = back_up(&disk, 4);
        assert_eq!(warning, None, "{left} {why:?}");
        assert_eq!(new, 0, "{left} {why:?}: everything is known");
        is_whole(&sim, 3);
    }
    assert!(failed >= 7, "{failed} of 10 were warned of");
}

#[test]
fn an_index_that_works_again_is_used_again_by_the_same_process() {
    let sim = empty();
    let disk = NoCache::new(Arc::clone(&sim) as _, i64::MAX, ErrorKind::StorageFull);
    let pool = open(&disk, 2, OpenMode::Write);
    let options = testkit::specimen::options(chunking::Compression::Lz4);
    disk.allow(0);
    let session = pool.begin(options).expect("begins");
    pool.commit(session, &[], &[]).expect("commits");
    assert!(pool.health().index_failure().is_some());
    disk.allow(i64::MAX);
    let mut session = pool.begin(options).expect("begins");
    let root = put(&mut session);
    let record = testkit::specimen::snapshot(&pool, SnapshotKind::Stream, "tiny", root);
    pool.commit(session, &[record], &[]).expect("commits");
    drop(pool);
    is_whole(&sim, 1);
    let (new, warning) = back_up(&disk, 3);
    assert_eq!((new, warning), (0, None));
}

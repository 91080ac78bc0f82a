//! Reads of the catalog while garbage collection replaces and deletes its nodes, at every read of
//! the disk.
//!
//! Invariant: no such read reports damage or misses anything.

use chunking::Compression;
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::Collector;
use media::{Barrier, Disk, DiskFile, DiskLayer, Media, MediaError};
use parking_lot::Mutex;
use sim::pool_histories::{at_once, check_all, finish_gc, init_options};
use sim::{Image, SimDisk};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};
use store::{OpenMode, Pool};
use testkit::specimen::{media, noise, options, put_image, snapshot};
use units::UnixNanos;

/// Memory of the pool, bytes: its cache holds one region.
const MEMORY_BYTES: usize = 64 << 10;
/// Number of snapshots that stay. Their records fill several leaves of the catalog.
const KEPT: usize = 48;
/// Snapshots that are forgotten and purged at the read.
const VICTIMS: usize = 16;
/// Length of a snapshot's path: eight records fill a leaf.
const PATH_BYTES: usize = 2000;
/// Time without an operation of the disk after which garbage collection counts as waiting for the
/// region that is being read, and the read goes on. On a slow machine the test sees less.
const STALL: Duration = Duration::from_millis(50);

/// Replaces the catalog at a read of the disk, once.
#[derive(Default)]
struct Hook {
    state: Mutex<HookState>,
    /// Number of operations of all threads.
    operations: AtomicU64,
}

#[derive(Default)]
struct HookState {
    /// The thread whose reads count.
    reader: Option<ThreadId>,
    /// Its reads until then.
    left: usize,
    pool: Weak<Pool>,
    victims: Vec<Snapshot>,
    thread: Option<JoinHandle<()>>,
}

impl Hook {
    fn note_operation(&self) {
        self.operations.fetch_add(1, Relaxed);
    }

    fn note_read(&self) {
        self.note_operation();
        let mut state = self.state.lock();
        if state.reader != Some(std::thread::current().id()) {
            return;
        }
        state.left = state.left.saturating_sub(1);
        if state.left > 0 {
            return;
        }
        if let (None, Some(pool)) = (&state.thread, state.pool.upgrade()) {
            let victims = std::mem::take(&mut state.victims);
            state.thread = Some(std::thread::spawn(move || replace_catalog(&pool, &victims)));
        }
        drop(state);
        // Later reads wait as well: it may want a lock that the first one has.
        let (mut seen, mut since) = (0, Instant::now());
        while !self.is_over() && since.elapsed() < STALL {
            let operations = self.operations.load(Relaxed);
            if operations != seen {
                (seen, since) = (operations, Instant::now());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the catalog is replaced. Returns false if the query has made fewer reads.
    fn end(&self) -> bool {
        let thread = {
            let mut state = self.state.lock();
            state.reader = None;
            state.thread.take()
        };
        let has_begun = thread.is_some();
        if let Some(thread) = thread {
            thread.join().expect("forgets and collects");
        }
        has_begun
    }
}

/// Forgets each in a commit of its own, so that all leaves are replaced, and collects.
fn replace_catalog(pool: &Pool, victims: &[Snapshot]) {
    for victim in victims {
        pool.forget(std::slice::from_ref(victim)).expect("forget");
    }
    for _ in 0..3 {
        let mut run = Collector::new(pool, at_once(), options(Compression::None)).expect("alone");
        finish_gc(pool, None, &mut run, 1 << 20).expect("gc");
    }
}

/// A disk that calls the hook before each read.
struct Hooked(Arc<SimDisk>, Arc<Hook>);

struct HookedFile(Arc<dyn DiskFile>, Arc<Hook>);

impl Hooked {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile(file, Arc::clone(&self.1)))
    }
}

impl DiskLayer for Hooked {
    fn below(&self) -> &dyn Disk {
        &*self.0
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.file(self.0.open_read(path)?))
    }
}

impl DiskFile for HookedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.1.note_read();
        self.0.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.1.note_operation();
        self.0.write_at(offset, data)
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.0.set_len(len)
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.0.sync(point)
    }
}

/// A pool whose catalog has many leaves, each of them in a container of its own.
struct Source {
    image: Image,
    victims: Vec<Snapshot>,
    kept: Vec<Snapshot>,
}

fn named(pool: &Pool, number: usize, root: format::recipe::ObjectRoot) -> Snapshot {
    // Noise, without zero bytes: records must not become small.
    let path = noise(number as u64 + 1000, PATH_BYTES);
    let path = path.into_iter().map(|byte| byte.max(1) | 1).collect();
    Snapshot {
        paths: vec![path],
        ..snapshot(pool, SnapshotKind::Image, &format!("s{number}"), root)
    }
}

fn source() -> Source {
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&media(&disk, 1), &init_options(&[])).expect("init");
    let pool = testkit::specimen::open(&disk, 2, None, OpenMode::Write).expect("open");
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    let of_kept = put_image(&mut session, &noise(2, 50_000));
    let (mut victims, mut kept) = (Vec::new(), Vec::new());
    for number in 0..KEPT + VICTIMS {
        match number % (KEPT / VICTIMS + 1) {
            0 => victims.push(named(&pool, number, of_kept)),
            _ => kept.push(named(&pool, number, of_kept)),
        }
    }
    let all: Vec<_> = kept.iter().chain(&victims).cloned().collect();
    pool.commit(session, &all, &[]).expect("commit");
    // Each commit replaces one leaf.
    for record in kept.iter().step_by(3) {
        pool.forget(std::slice::from_ref(record)).expect("forget");
        pool.undelete(&[record.id]).expect("back");
    }
    Source {
        image: disk.image(),
        victims,
        kept,
    }
}

/// Runs `query` over a newly opened pool, once for every read of the disk that it makes, or for one
/// in `stride`, with the catalog replaced before that read; then `judge` with its result. Returns
/// the number of reads.
fn at_every_read<T>(
    source: &Source,
    stride: usize,
    query: impl Fn(&Pool) -> T,
    judge: impl Fn(T),
) -> usize {
    for read in (1..).step_by(stride) {
        let disk = SimDisk::unrecorded(source.image.clone());
        let hook = Arc::new(Hook::default());
        let media = Media::seeded(
            Arc::new(Hooked(Arc::clone(&disk), Arc::clone(&hook))),
            UnixNanos(5_000_000_000_000),
            99,
        );
        let pool = Arc::new(Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).expect("open"));
        // Pushes the catalog's nodes out of memory.
        let other = pool.reader().read_whole(&source.kept[0].root, 1 << 20);
        other.expect("read");
        *hook.state.lock() = HookState {
            reader: Some(std::thread::current().id()),
            left: read,
            pool: Arc::downgrade(&pool),
            victims: source.victims.clone(),
            thread: None,
        };
        let result = query(&pool);
        let has_begun = hook.end();
        judge(result);
        if !has_begun {
            return read - 1;
        }
    }
    unreachable!("a query has an end")
}

#[test]
fn lists_are_whole() {
    let source = source();
    let reads = at_every_read(
        &source,
        3,
        |pool| pool.snapshots(),
        |listed| {
            let listed: BTreeSet<_> = listed.expect("no damage").iter().map(|s| s.id).collect();
            assert!(source.kept.iter().all(|kept| listed.contains(&kept.id)));
        },
    );
    assert!(reads >= 4, "{reads} reads: the catalog was in memory");
}

#[test]
fn check_and_space_find_no_damage() {
    let source = source();
    let reads = at_every_read(
        &source,
        7,
        |pool| (check_all(pool), pool.space()),
        |(report, space)| {
            let report = report.expect("check");
            assert_eq!(report.damage, Vec::<String>::new());
            assert_eq!((report.bad.len(), report.affected.len()), (0, 0));
            space.expect("no damage");
        },
    );
    assert!(reads >= 10, "{reads} reads");
}

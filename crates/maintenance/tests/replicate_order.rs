//! Copies of streams and trees take first what clients have read (Duet, SOSP'15), and arrive the
//! same whatever the order. Costs are counted in reads.

use crate::copies;
use crate::small_volumes;

use chunking::Compression;
use copies::{copy_all, copy_options, open_receiver, receiver};
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use maintenance::{
    Access, CopiedSnapshot, CopyNews, CopyOptions, MaintenanceTask, Replication, TaskStep,
};
use sim::SimDisk;
use std::sync::Arc;
use store::{LaneOptions, Pool, WriteSession};
use testkit::specimen::{entry, noise, options};
use volumes::Volumes;

const BYTES: usize = 1 << 20;
const HALF: u64 = (BYTES / 2) as u64;

fn put(session: &mut WriteSession, bytes: &[u8]) -> ObjectRoot {
    session.main().store_object(bytes, false).unwrap()
}

fn commit(pool: &Pool, session: WriteSession, kind: SnapshotKind, root: ObjectRoot) -> Snapshot {
    let snapshot = testkit::specimen::snapshot(pool, kind, "one", root);
    let added = std::slice::from_ref(&snapshot);
    pool.commit(session, added, &[]).unwrap();
    snapshot
}

/// More than the cache of decoded regions has room for.
const LARGE: usize = 10 << 20;

/// A stream that evicts everything else when it is read.
fn large(pool: &Pool) -> Snapshot {
    let lane = LaneOptions {
        region_bytes: 256 << 10,
        container_bytes: 4 << 20,
        ..options(Compression::None)
    };
    let mut session = pool.begin(lane).unwrap();
    let root = put(&mut session, &noise(9, LARGE));
    commit(pool, session, SnapshotKind::Stream, root)
}

fn file(name: &str, content: ObjectRoot) -> Entry {
    let sparse = false;
    entry(name, EntryKind::File { content, sparse })
}

/// A stream of `BYTES` and a tree of as many in files of all sizes, and a hard link, in a pool that
/// a new process has opened. `state` changes a part of both.
fn source(state: u64, from: Option<&Arc<SimDisk>>) -> (Arc<SimDisk>, [Snapshot; 2]) {
    let disk = from.map_or_else(small_volumes::made, Arc::clone);
    let volumes = small_volumes::open(&disk, 10 + state);
    let pool = volumes.pool();
    let mut session = pool.begin(options(Compression::None)).unwrap();
    let mut bytes = noise(1, BYTES);
    bytes[300_000..320_000].copy_from_slice(&noise(100 + state, 20_000));
    let stream = put(&mut session, &bytes);
    let stream = commit(pool, session, SnapshotKind::Stream, stream);

    let mut session = pool.begin(options(Compression::None)).unwrap();
    let (mut directories, mut at, mut first) = (Vec::new(), 0, None);
    for d in 0..8 {
        let mut entries: Vec<_> = (0..16)
            .map(|n| {
                let len = BYTES / 128 + n * 500 - 3750;
                at += len as u64;
                // One file of each fourth directory changes.
                let is_changed = d % 4 == 0 && n == 5;
                let seed = 1000 * d + n as u64 + u64::from(is_changed) * 10_000 * state;
                let content = put(&mut session, &noise(seed, len));
                first.get_or_insert(content);
                file(&format!("{n:02}"), content)
            })
            .collect();
        // The content of a file before it, or of one far before it.
        entries.push(file("hard", first.unwrap()));
        entries.push(entry(
            "link",
            EntryKind::Symlink {
                target: b"../x".to_vec(),
            },
        ));
        entries.push(file("none", ObjectRoot::EMPTY));
        let bytes = Entry::encode_directory(&entries);
        let content = session.main().store_object(&bytes, true).unwrap();
        directories.push(entry(&format!("d{d}"), EntryKind::Directory { content }));
    }
    assert_eq!(at, BYTES as u64);
    let bytes = Entry::encode_directory(&directories);
    let root = session.main().store_object(&bytes, true).unwrap();
    let tree = commit(pool, session, SnapshotKind::Tree, root);
    (disk, [stream, tree])
}

/// Returns the contents of a snapshot, in its own order.
fn contents(pool: &Pool, snapshot: &Snapshot) -> Vec<ObjectRoot> {
    match snapshot.kind {
        SnapshotKind::Tree => files_of(pool, &snapshot.root),
        _ => vec![snapshot.root],
    }
}

fn files_of(pool: &Pool, root: &ObjectRoot) -> Vec<ObjectRoot> {
    let entries = pool.reader().directory(root).unwrap();
    let below = entries.into_iter().flat_map(|entry| match entry.kind {
        EntryKind::File { content, .. } => vec![content],
        EntryKind::Directory { content } => files_of(pool, &content),
        _ => Vec::new(),
    });
    below.collect()
}

/// A client reads about `bytes` from byte `from` of a snapshot.
fn read(pool: &Pool, snapshot: &Snapshot, from: u64, bytes: u64) {
    let mut at = 0;
    for content in contents(pool, snapshot) {
        let (start, end) = (from.max(at), (from + bytes).min(at + content.len));
        if start < end {
            let mut into = vec![0; (end - start) as usize];
            let reader = pool.reader();
            reader.read_object(&content, start - at, &mut into).unwrap();
        }
        at += content.len;
    }
}

/// A copy beside the clients of the source pool.
struct Beside {
    disk: Arc<SimDisk>,
    volumes: Arc<Volumes>,
    to: Arc<Pool>,
    run: Replication,
}

impl Beside {
    fn new(disk: &Arc<SimDisk>, to: &Arc<Pool>, seed: u64, pieces_ahead: usize) -> Self {
        let volumes = Arc::new(small_volumes::open(disk, seed));
        let run = replication(&volumes, to, pieces_ahead);
        Self {
            disk: Arc::clone(disk),
            to: Arc::clone(to),
            volumes,
            run,
        }
    }

    fn pool(&self) -> &Arc<Pool> {
        self.volumes.pool()
    }

    fn reads(&self) -> u64 {
        self.disk.counts().reads
    }

    fn cached(&self) -> u64 {
        self.run.counts().0.cached_bytes
    }

    /// Does what is in memory. Returns the bytes.
    fn in_memory(&mut self, budget_bytes: u64) -> u64 {
        let mut all = 0;
        let before = self.reads();
        loop {
            let step = self.run.step_with(0, budget_bytes, Access::Memory);
            match step.unwrap() {
                TaskStep::Worked { bytes } => all += bytes,
                TaskStep::News(CopyNews::Sent(_)) => {}
                TaskStep::NeedsDevice => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(self.reads(), before, "without an I/O grant");
        all
    }

    /// One step with the device.
    fn with_device(&mut self, budget_bytes: u64) -> Option<CopiedSnapshot> {
        match self.run.step(0, budget_bytes).unwrap() {
            TaskStep::Worked { .. } | TaskStep::News(CopyNews::Sent(_)) => None,
            TaskStep::News(CopyNews::Copied(copied)) => Some(*copied),
            other => panic!("{other:?}"),
        }
    }

    /// Steps with the device until the look-ahead is full, and something was read.
    fn look_ahead(&mut self) {
        while self.run.counts().0 == Default::default() {
            assert!(self.with_device(1).is_none());
        }
    }

    /// Copies the snapshot as a server does. Returns the bytes that were copied in memory.
    fn copy(&mut self, snapshot: &Snapshot) -> (CopiedSnapshot, u64) {
        self.run.begin(snapshot).unwrap();
        let mut in_memory = 0;
        for _ in 0..100_000 {
            in_memory += self.in_memory(10_000);
            if let Some(copied) = self.with_device(10_000) {
                return (copied, in_memory);
            }
        }
        panic!("no end");
    }
}

fn replication(volumes: &Arc<Volumes>, to: &Arc<Pool>, pieces_ahead: usize) -> Replication {
    let mut options = CopyOptions {
        volumes: Some(Arc::clone(volumes)),
        ..copy_options()
    };
    options.limits.pieces_ahead = pieces_ahead;
    let all = volumes.pool().snapshots().unwrap();
    Replication::new(Arc::clone(volumes.pool()), all, Arc::clone(to), options).unwrap()
}

/// Snapshots in the receiving pool, as they are there.
fn roots(to: &Pool) -> Vec<(units::SnapshotId, ObjectRoot)> {
    let mut all: Vec<_> = to
        .snapshots()
        .unwrap()
        .iter()
        .map(|s| (s.id, s.root))
        .collect();
    all.sort_by_key(|(id, _)| *id);
    all
}

#[test]
fn the_half_that_clients_have_read_is_not_read_again() {
    let (disk, snapshots) = source(0, None);
    for (n, snapshot) in snapshots.iter().enumerate() {
        let mut results = Vec::new();
        // Nothing, then the first half, then the second.
        for (part, from) in [None, Some(0), Some(HALF)].into_iter().enumerate() {
            let there = receiver(20);
            let to = open_receiver(&there, 21);
            let seed = 30 + 3 * n as u64 + part as u64;
            let mut beside = Beside::new(&disk, &to, seed, 6);
            if let Some(from) = from {
                read(beside.pool(), snapshot, from, HALF);
            }
            let before = disk.counts().read_bytes;
            let (copied, in_memory) = beside.copy(snapshot);
            let read = disk.counts().read_bytes - before;
            let counts = copied.counts;
            let known = counts.read_bytes + counts.cached_bytes;
            assert!(known >= BYTES as u64, "{counts:?}");
            results.push((read, counts, in_memory, roots(&to)));
        }
        let [none, halves @ ..] = &results[..] else {
            panic!("three")
        };
        assert_eq!(none.1.cached_bytes, 0);
        for (read, counts, in_memory, there) in halves {
            assert!(counts.cached_bytes >= HALF * 9 / 10, "{counts:?}");
            assert!(none.0 - read >= HALF * 9 / 10, "{read} of {} bytes", none.0);
            assert!(*in_memory >= HALF * 3 / 4, "{in_memory} without a grant");
            assert_eq!(*there, none.3);
        }
    }
}

#[test]
fn what_clients_read_meanwhile_goes_first() {
    let (disk, snapshots) = source(0, None);
    for (seed, snapshot) in (50..).zip(&snapshots) {
        let to = open_receiver(&receiver(40), 41);
        let mut beside = Beside::new(&disk, &to, seed, 20);
        beside.run.begin(snapshot).unwrap();
        beside.look_ahead();
        assert_eq!(beside.in_memory(10_000), 0);
        // Within the look-ahead of 20 pieces of 20,000 bytes, and behind it.
        read(beside.pool(), snapshot, 200_000, 100_000);
        read(beside.pool(), snapshot, BYTES as u64 - 100_000, 100_000);
        let in_memory = beside.in_memory(10_000);
        assert!((40_000..=110_000).contains(&in_memory), "{in_memory}");
        assert_eq!(beside.cached(), in_memory);
        let copied = loop {
            if let Some(copied) = beside.with_device(10_000) {
                break copied;
            }
        };
        assert!(copied.counts.cached_bytes >= 180_000, "{copied:?}");
    }
}

#[test]
fn a_chunk_that_left_memory_waits_for_the_device() {
    let (disk, [stream, _]) = source(0, None);
    let to = open_receiver(&receiver(60), 61);
    let mut beside = Beside::new(&disk, &to, 62, 20);
    beside.run.begin(&stream).unwrap();
    beside.look_ahead();
    read(beside.pool(), &stream, 100_000, 100_000);
    // One chunk of a piece, then clients read so much else that the rest is evicted.
    let step = beside.run.step_with(0, 1, Access::Memory).unwrap();
    assert!(matches!(step, TaskStep::Worked { bytes } if bytes > 0));
    let other = large(beside.pool());
    read(beside.pool(), &other, 0, LARGE as u64);
    assert_eq!(beside.in_memory(10_000), 0);
    while beside.with_device(10_000).is_none() {}
    let there = roots(&to);
    let arrived = to.reader().read_whole(&there[0].1, 1 << 30).unwrap();
    let expected = beside.pool().reader().read_whole(&stream.root, 1 << 30);
    assert!(arrived == expected.unwrap());
}

#[test]
fn a_disk_whose_recipe_left_memory_waits_for_the_device() {
    let disk = small_volumes::made();
    let volumes = small_volumes::open(&disk, 90);
    volumes.create("disk", BYTES as u64, 12).unwrap();
    small_volumes::write(&volumes.volume("disk").unwrap(), 0, &noise(3, BYTES));
    let snapshot = volumes.snapshot("disk", "monday").unwrap();
    let other = large(volumes.pool());
    drop(volumes);
    let to = open_receiver(&receiver(91), 92);
    let mut beside = Beside::new(&disk, &to, 93, 6);
    let volume = beside.volumes.volume("disk").unwrap();
    assert_eq!(small_volumes::read(&volume).len(), BYTES);
    drop(volume);
    read(beside.pool(), &other, 0, LARGE as u64);
    beside.run.begin(&snapshot).unwrap();
    assert_eq!(beside.in_memory(100_000), 0);
    // One read of the recipe, then the page cache has all of it.
    let before = beside.reads();
    while beside.cached() < BYTES as u64 {
        assert!(beside.with_device(100_000).is_none());
    }
    assert!(beside.reads() - before < 20);
    assert_eq!(beside.run.counts().0.read_bytes, 0);
}

#[test]
fn any_order_gives_the_same_roots() {
    let (disk, first) = source(0, None);
    let (disk, second) = source(1, Some(&disk));
    let snapshots: Vec<_> = first.iter().chain(&second).collect();
    let plain = receiver(70);
    let expected = {
        let from =
            Arc::new(testkit::specimen::open(&disk, 71, None, store::OpenMode::Write).unwrap());
        let to = open_receiver(&plain, 72);
        copy_all(&from, &to);
        roots(&to)
    };
    assert_eq!(expected.len(), 4);
    let mut cached_bytes = 0;
    for seed in 0..24 {
        let mut random = Random::new(seed);
        // Receivers have the same keys, so that roots can be compared.
        let there = receiver(70);
        let mut to = open_receiver(&there, 1000 + seed);
        let ahead = 1 + random.below(30) as usize;
        let mut beside = Beside::new(&disk, &to, 2000 + seed, ahead);
        let mut restarts = 0;
        for snapshot in &snapshots {
            beside.run.begin(snapshot).unwrap();
            loop {
                match random.below(12) {
                    0 => {
                        let at = random.below(BYTES as u64);
                        let which = snapshots[random.below(4) as usize];
                        read(beside.pool(), which, at, random.below(60_000));
                    }
                    1 | 2 => drop(beside.in_memory(1 + random.below(30_000))),
                    3 if random.below(20) == 0 && restarts < 6 => {
                        restarts += 1;
                        cached_bytes += beside.cached();
                        let gives_up = random.below(2) == 0;
                        if gives_up {
                            beside.run.give_up().unwrap();
                        }
                        // The receiving pool's process ends too, or both go on.
                        drop(beside.run);
                        if random.below(2) == 0 {
                            drop(to);
                            drop(beside.to);
                            to = open_receiver(&there, 3000 + 100 * seed + restarts);
                        }
                        let ahead = 1 + random.below(30) as usize;
                        beside = Beside {
                            run: replication(&beside.volumes, &to, ahead),
                            disk: beside.disk,
                            volumes: beside.volumes,
                            to: Arc::clone(&to),
                        };
                        beside.run.begin(snapshot).unwrap();
                    }
                    _ => {
                        if beside.with_device(1 + random.below(40_000)).is_some() {
                            break;
                        }
                    }
                }
            }
        }
        cached_bytes += beside.cached();
        assert!(roots(&to) == expected, "seed {seed}");
    }
    assert!(
        cached_bytes > BYTES as u64,
        "{cached_bytes} bytes out of order"
    );
}

#[test]
fn what_equals_the_base_is_not_read_in_any_order() {
    let (disk, first) = source(0, None);
    let there = receiver(80);
    let to = open_receiver(&there, 81);
    let mut beside = Beside::new(&disk, &to, 82, 6);
    first
        .iter()
        .for_each(|snapshot| drop(beside.copy(snapshot)));
    drop(beside);
    let (disk, second) = source(1, Some(&disk));
    let mut beside = Beside::new(&disk, &to, 83, 6);
    for snapshot in &second {
        let (copied, _) = beside.copy(snapshot);
        let counts = copied.counts;
        assert!(counts.read_bytes <= 60_000, "{counts:?}");
        assert_eq!(counts.cached_bytes, 0);
    }
}

/// Decisions of a seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, end: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

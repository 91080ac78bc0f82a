//! Two writers of one pool: the lock refuses the second; without a lock its puts do.
//!
//! Invariant: however two writers alternate, every acknowledged commit is there, and nothing is
//! damaged.

use media::{
    Barrier, Blobs, DirBlobs, Disk, DiskLayer, DiskLock, MediaError, MediaErrorKind, Put, Syncing,
};
use sim::pool_histories::{
    MEMORY_BYTES, Source, Truth, What, check_all, init_options, lane_options, media, snapshot,
};
use sim::{Seed, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool, StoreErrorKind, WriteSession};

/// A disk whose locks have no effect: the worst network file system.
struct Unlocked(Arc<SimDisk>);

impl DiskLayer for Unlocked {
    fn below(&self) -> &dyn Disk {
        &*self.0
    }
    fn lock(&self, _: &str) -> Result<DiskLock, MediaError> {
        Ok(Box::new(()))
    }
}

fn open(disk: Arc<dyn Disk>, salt: u64) -> store::Result<Pool> {
    Pool::open(media(disk, salt), None, OpenMode::Write, MEMORY_BYTES)
}

fn new_pool(disk: &Arc<SimDisk>) {
    Pool::init(&media(Arc::clone(disk) as _, 1), &init_options(&[])).expect("init");
}

#[test]
fn the_lock_refuses_a_second_writer_and_dies_with_the_first() {
    let disk = SimDisk::new();
    new_pool(&disk);
    let first = open(Arc::clone(&disk) as _, 2).expect("open");
    let second = open(Arc::clone(&disk) as _, 3).err().map(|e| e.kind);
    assert_eq!(second, Some(StoreErrorKind::Locked));
    let reader = Pool::open(
        media(Arc::clone(&disk) as _, 4),
        None,
        OpenMode::Read,
        MEMORY_BYTES,
    );
    assert!(reader.is_ok(), "readers need no lock");
    drop(first);
    let second = open(Arc::clone(&disk) as _, 5).expect("after the first one's end");
    // A killed process leaves nothing that must be removed by hand.
    let disk = disk.kill();
    open(Arc::clone(&disk) as _, 6).expect("after a kill");
    drop(second);
}

/// One of two writers, a step at a time.
struct Writer {
    pool: Pool,
    seed: u64,
    session: Option<(WriteSession, Truth)>,
    acked: Vec<Truth>,
}

impl Writer {
    fn new(disk: &Arc<SimDisk>, seed: u64) -> Self {
        let disk = Arc::new(Unlocked(Arc::clone(disk)));
        Self {
            pool: open(disk, seed).expect("open"),
            seed,
            session: None,
            acked: Vec::new(),
        }
    }

    fn step(&mut self) -> store::Result<()> {
        match self.session.take() {
            None => {
                let mut session = self.pool.begin(lane_options())?;
                self.seed += 1;
                let source = Source::new(What::Stream, &mut Seed::new(self.seed));
                let root = source.put(&mut session, 0, lane_options())?;
                let truth = Truth {
                    snapshot: snapshot(&self.pool, What::Stream, &source, root),
                    source: Arc::new(source),
                };
                self.session = Some((session, truth));
            }
            Some((session, truth)) => {
                let record = truth.snapshot.clone();
                self.pool.commit(session, &[record], &[])?;
                self.acked.push(truth);
            }
        }
        Ok(())
    }
}

/// Checks that everything acknowledged is there, complete and sound.
fn verify(disk: &Arc<SimDisk>, acked: &[&Truth]) -> Result<(), String> {
    let pool = open(Arc::clone(disk) as _, 90_000).map_err(|e| e.to_string())?;
    let snapshots = pool.snapshots().map_err(|e| e.to_string())?;
    for truth in acked {
        if !snapshots.contains(&truth.snapshot) {
            return Err("an acknowledged snapshot is not there".to_owned());
        }
        truth.source.compare(&pool, &truth.snapshot.root)?;
    }
    let report = check_all(&pool).map_err(|e| e.to_string())?;
    match report.is_sound() {
        true => Ok(()),
        false => Err(format!("{:?}", report.damage)),
    }
}

#[test]
fn without_a_lock_the_pool_stays_sound() {
    let (mut refused, mut committed) = (0, 0);
    for seed in 0..200_u64 {
        let disk = SimDisk::new();
        new_pool(&disk);
        let mut turns = Seed::new(seed);
        let mut writers = [
            Writer::new(&disk, 1000 * seed + 100),
            Writer::new(&disk, 1000 * seed + 500),
        ];
        for _ in 0..10 {
            let writer = &mut writers[turns.below(2) as usize];
            if let Err(e) = writer.step() {
                assert_eq!(e.kind, StoreErrorKind::Locked, "seed {seed}: {e}");
                refused += 1;
            }
        }
        // Alone, each of them continues.
        for writer in &mut writers {
            let before = writer.acked.len();
            let done = (0..4).any(|_| writer.step().is_ok() && writer.acked.len() > before);
            assert!(done, "seed {seed}: a writer that was refused stays refused");
        }
        let [first, second] = &writers;
        let acked: Vec<&Truth> = first.acked.iter().chain(&second.acked).collect();
        committed += acked.len();
        let found = verify(&disk.kill(), &acked);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    assert!(refused > 100 && committed > 300, "{refused} {committed}");
}

#[test]
fn a_new_blob_never_takes_a_name_over() {
    for syncing in [
        Syncing::Inline,
        Syncing::Threads {
            threads: 2,
            queue: 4,
        },
    ] {
        let disk = SimDisk::new();
        let blobs = || DirBlobs::new(Arc::clone(&disk) as _, syncing);
        let (first, second) = (blobs(), blobs());
        first
            .put("dir/blob", b"first".to_vec(), Put::New)
            .expect("put");
        first
            .barrier(Barrier::ContainersBeforeRoot)
            .expect("barrier");
        let refused = second
            .put("dir/blob", b"second".to_vec(), Put::New)
            .and_then(|()| second.barrier(Barrier::ContainersBeforeRoot));
        assert_eq!(refused.err().map(|e| e.kind), Some(MediaErrorKind::Exists));
        assert_eq!(first.read("dir/blob", 100).expect("read"), b"first");
    }
}

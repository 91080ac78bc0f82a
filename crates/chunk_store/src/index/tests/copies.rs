//! The copy on a faster device: whatever happens to it, every chunk is found and the index is not
//! damaged.

use super::*;
use format::index::STAMP_BYTES;

const COPY: &str = "cache/copy";
const SECOND: i64 = 1_000_000_000;

/// An index with a copy, and all that was inserted.
struct Copied {
    disk: Arc<TestDisk>,
    fast: Arc<TestDisk>,
    /// An earlier state of the fast disk.
    earlier: Arc<TestDisk>,
    index: FingerprintIndex,
    order: Vec<Fingerprint>,
    room: u64,
    now: i64,
}

fn fast_disk() -> Arc<TestDisk> {
    let disk = TestDisk::new();
    disk.make_dir("cache").unwrap();
    disk
}

fn use_copy(index: &FingerprintIndex, fast: &Arc<TestDisk>, room: u64) {
    index.use_copy(Arc::clone(fast) as Arc<dyn Disk>, COPY.to_owned(), room);
}

impl Copied {
    fn new(room: u64) -> Self {
        let (disk, fast) = (TestDisk::new(), fast_disk());
        let index = open(&disk, MIB).index;
        use_copy(&index, &fast, room);
        Self {
            disk,
            earlier: Arc::clone(&fast),
            fast,
            index,
            order: Vec::new(),
            room,
            now: 0,
        }
    }

    fn store(&mut self, count: u64, dice: &mut Dice) {
        for _ in 0..count {
            let fingerprint = dice.fingerprint();
            let place = location(self.order.len() as u64);
            self.index.insert(&fingerprint, place).unwrap();
            self.order.push(fingerprint);
        }
    }

    fn commit(&self) {
        let next = self.order.len() as u64 / 256;
        self.index.commit(&covers(next)).unwrap();
    }

    fn step(&mut self, seconds: i64) -> bool {
        self.now += seconds * SECOND;
        self.index.step_copy(UnixNanos(self.now), 64 << 10)
    }

    fn fill(&mut self) {
        while self.step(1) {}
        self.step(11);
    }

    fn reopen(&mut self) {
        let opened = open(&self.disk, MIB);
        self.index = opened.index;
        use_copy(&self.index, &self.fast, self.room);
        let covered = opened.coverage.get(&WriterId(1)).copied().unwrap_or(0);
        for (n, fingerprint) in (0..).zip(&self.order).skip(covered as usize * 256) {
            self.index.insert(fingerprint, location(n)).unwrap();
        }
    }

    fn status(&self) -> IndexCopyStatus {
        self.index.copy_status().expect("there is to be a copy")
    }

    fn misses(&self) -> usize {
        let is_missed = |(n, fingerprint): &(u64, &Fingerprint)| {
            !lookup(&self.index, fingerprint).contains(&location(*n))
        };
        (0..).zip(&self.order).filter(is_missed).count()
    }

    fn check(&self) {
        assert_eq!(self.misses(), 0);
        assert!(!self.index.is_damaged(), "a copy damages nothing");
    }
}

#[test]
fn lookups_and_merges_read_the_copy_also_after_a_restart() {
    let mut dice = Dice(1);
    let mut copied = Copied::new(u64::MAX);
    copied.store(60_000, &mut dice);
    copied.commit();
    copied.fill();
    assert_eq!(copied.status().state, IndexCopyState::Ready);
    copied.store(60_000, &mut dice);
    copied.commit();
    copied.fill();
    copied.store(300, &mut dice);
    let reads = copied.disk.counts.reads.load(Relaxed);
    copied.commit();
    copied.check();
    assert_eq!(
        copied.disk.counts.reads.load(Relaxed),
        reads,
        "from the copy"
    );
    assert!(copied.status().reads > 0);

    copied.index.finish_copy(UnixNanos(copied.now));
    copied.reopen();
    copied.step(1);
    let status = copied.status();
    assert_eq!(
        (status.state, status.bytes),
        (IndexCopyState::Ready, status.index_bytes)
    );
    let reads = copied.disk.counts.reads.load(Relaxed);
    copied.check();
    assert_eq!(
        copied.disk.counts.reads.load(Relaxed),
        reads,
        "from the copy"
    );
}

#[test]
fn a_small_share_holds_the_first_buckets() {
    let mut dice = Dice(2);
    let room = 1 << 20;
    let mut copied = Copied::new(room);
    copied.store(120_000, &mut dice);
    copied.commit();
    copied.fill();
    copied.store(9000, &mut dice);
    copied.commit();
    copied.fill();
    copied.reopen();
    copied.check();
    copied.step(1);
    let status = copied.status();
    assert_eq!(status.state, IndexCopyState::Ready);
    assert!(
        status.bytes <= room && status.bytes > room / 2,
        "{status:?}"
    );
    assert!(status.index_bytes > room);
    copied.check();
    assert!(copied.status().reads > 0 && copied.status().file_reads > 0);
}

#[test]
fn a_device_that_fails_is_left_alone_and_then_filled_again() {
    let mut dice = Dice(3);
    let mut copied = Copied::new(u64::MAX);
    copied.store(20_000, &mut dice);
    copied.commit();
    copied.fill();
    copied.fast.counts.budget.store(0, Relaxed);
    copied.store(3000, &mut dice);
    copied.commit();
    copied.check();
    copied.step(1);
    assert!(matches!(copied.status().state, IndexCopyState::Off { .. }));
    copied.fast.counts.budget.store(-1, Relaxed);
    copied.step(30);
    assert!(matches!(copied.status().state, IndexCopyState::Off { .. }));
    copied.step(31);
    copied.fill();
    assert_eq!(copied.status().state, IndexCopyState::Ready);
    copied.check();
}

#[test]
fn a_damaged_copy_is_filled_again_at_once_but_once_a_minute() {
    let mut dice = Dice(4);
    let mut copied = Copied::new(u64::MAX);
    copied.store(20_000, &mut dice);
    copied.commit();
    copied.fill();
    let spoil = |copied: &Copied| {
        copied.fast.bytes(COPY, |bytes| bytes[8192..].fill(7));
        copied.check();
        assert!(matches!(copied.status().state, IndexCopyState::Off { .. }));
    };
    spoil(&copied);
    let damaged = copied.status().damaged;
    assert!(damaged >= 16, "{damaged}");
    copied.step(1);
    assert_eq!(copied.status().bytes, 64 << 10, "from the start");
    copied.fast.bytes(COPY, |bytes| {
        let has_stamp = bytes[..STAMP_BYTES].iter().any(|byte| *byte != 0);
        assert!(!has_stamp, "it would vouch for wrong buckets");
    });
    copied.fill();
    let status = copied.status();
    assert_eq!(status.state, IndexCopyState::Ready);
    let reads = copied.disk.counts.reads.load(Relaxed);
    copied.check();
    assert_eq!(copied.disk.counts.reads.load(Relaxed), reads);
    assert_eq!(copied.status().damaged, damaged, "nothing wrong is left");
    // A device that lies costs no more than this.
    spoil(&copied);
    copied.step(1);
    assert!(matches!(copied.status().state, IndexCopyState::Off { .. }));
    copied.step(61);
    copied.fill();
    assert_eq!(copied.status().state, IndexCopyState::Ready);
    copied.check();
}

fn harm(copied: &mut Copied, dice: &mut Dice) {
    match dice.below(7) {
        // Power is lost: each disk keeps what it likes of what was not synced.
        0 => {
            copied.disk = copied.disk.crash(dice);
            copied.fast = copied.fast.crash(dice);
        }
        1 => copied.fast = copied.fast.crash(dice),
        2 => copied.fast = fast_disk(),
        3 => copied.fast = Arc::clone(&copied.earlier),
        4 => {
            let mut other = Copied::new(u64::MAX);
            other.store(5000, &mut Dice(dice.next()));
            other.commit();
            other.fill();
            copied.fast = other.fast;
        }
        5 if copied.fast.exists(COPY) => copied.fast.bytes(COPY, |bytes| {
            for _ in 0..30.min(bytes.len()) {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << dice.below(8);
            }
        }),
        _ if copied.fast.exists(COPY) => copied.fast.bytes(COPY, |bytes| {
            bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize);
        }),
        _ => {}
    }
}

fn run(seed: u64) -> usize {
    let mut dice = Dice(seed);
    let mut copied = Copied::new([u64::MAX, 300_000][dice.below(2) as usize]);
    for _ in 0..25 {
        let count = dice.below(3000);
        copied.store(count, &mut dice);
        for _ in 0..dice.below(12) {
            copied.step(6);
        }
        if dice.below(3) == 0 {
            copied.commit();
        }
        copied.check();
        if dice.below(3) == 0 {
            copied.index.finish_copy(UnixNanos(copied.now));
        }
        if dice.below(6) == 0 {
            copied.earlier = copied.fast.crash(&mut dice);
        }
        if dice.below(3) == 0 {
            harm(&mut copied, &mut dice);
            copied.reopen();
            copied.step(1);
            copied.check();
        }
    }
    copied.status().reads as usize
}

#[test]
fn whatever_happens_to_the_copy_every_chunk_is_found() {
    let reads: usize = (0..30).map(run).sum();
    assert!(reads > 1000, "{reads} reads of copies");
}

/// A bucket changes in file and copy, the copy is stamped, and then only the fast disk loses what
/// was not synced.
fn lose_power_after_a_stamp(seed: u64, syncs: bool) -> usize {
    let mut dice = Dice(seed);
    let mut copied = Copied::new(u64::MAX);
    copied.store(9000, &mut dice);
    copied.commit();
    copied.fill();
    if !syncs {
        copied.fast.stop_syncing();
    }
    copied.store(900, &mut dice);
    copied.commit();
    copied.index.finish_copy(UnixNanos(copied.now));
    copied.fast = copied.fast.crash(&mut dice);
    copied.reopen();
    copied.step(1);
    copied.misses()
}

#[test]
fn a_stamp_vouches_for_durable_buckets_only() {
    for seed in 0..60 {
        assert_eq!(lose_power_after_a_stamp(seed, true), 0, "{seed}");
    }
}

#[test]
fn canary_a_copy_that_is_not_synced_hides_chunks() {
    let misses: usize = (0..60)
        .map(|seed| lose_power_after_a_stamp(seed, false))
        .sum();
    assert!(misses > 0, "no sync of the copy matters");
}

/// A copy is stamped, containers are deleted, their entries leave file and copy, and the fast disk
/// loses power. Then the pool is set back to the moment of the stamp.
fn set_back(seed: u64, syncs: bool) -> usize {
    let mut dice = Dice(seed);
    let mut copied = Copied::new(u64::MAX);
    copied.store(9000, &mut dice);
    copied.commit();
    copied.fill();
    // The stamp has become durable some time.
    copied.fast = copied.fast.copy();
    copied.reopen();
    copied.step(1);
    assert_eq!(copied.status().state, IndexCopyState::Ready);
    let earlier = copied.disk.copy();
    if !syncs {
        copied.fast.stop_syncing();
    }
    let deleted = (0..20).map(|n| location(n * 256).container);
    copied.index.forget(deleted);
    copied.store(900, &mut dice);
    copied.commit();
    copied.order.truncate(9000);
    copied.fast = copied.fast.crash(&mut dice);
    copied.disk = earlier;
    copied.reopen();
    copied.step(1);
    copied.misses()
}

#[test]
fn a_pool_that_is_set_back_finds_no_stamp() {
    for seed in 0..60 {
        assert_eq!(set_back(seed, true), 0, "{seed}");
    }
}

#[test]
fn canary_a_stamp_that_is_not_erased_hides_chunks() {
    let misses: usize = (0..60).map(|seed| set_back(seed, false)).sum();
    assert!(misses > 0, "the erasure of the stamp needs no sync");
}

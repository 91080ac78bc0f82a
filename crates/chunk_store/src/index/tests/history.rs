//! Random histories against a map: insert, look up, commit, reopen, crash, damage, delete.

use super::*;
use std::collections::HashMap;

/// A caller's knowledge: every stored chunk, and the container at which the index's coverage ends.
struct Caller {
    disk: Arc<TestDisk>,
    index: FingerprintIndex,
    stored: HashMap<Fingerprint, Location>,
    order: Vec<Fingerprint>,
    memory_bytes: usize,
}

impl Caller {
    fn new(disk: Arc<TestDisk>, memory_bytes: usize) -> Self {
        let index = open(&disk, memory_bytes).index;
        Self {
            disk,
            index,
            stored: HashMap::new(),
            order: Vec::new(),
            memory_bytes,
        }
    }

    fn store(&mut self, fingerprint: Fingerprint) {
        let place = location(self.order.len() as u64);
        self.index.insert(&fingerprint, place).unwrap();
        self.stored.insert(fingerprint, place);
        self.order.push(fingerprint);
    }

    fn next_container(&self) -> u64 {
        self.order.len() as u64 / 256
    }

    /// Reopens the index and inserts the containers beyond its coverage, as recovery does.
    fn reopen(&mut self) -> IndexFound {
        let opened = open(&self.disk, self.memory_bytes);
        self.index = opened.index;
        let covered = opened.coverage.get(&WriterId(1)).copied().unwrap_or(0);
        for (n, fingerprint) in (0..).zip(&self.order).skip(covered as usize * 256) {
            self.index.insert(fingerprint, location(n)).unwrap();
        }
        opened.found
    }

    fn find(&self, fingerprint: &Fingerprint) -> bool {
        let candidates = lookup(&self.index, fingerprint);
        self.stored
            .get(fingerprint)
            .is_some_and(|place| candidates.contains(place))
    }

    /// Asserts that every stored chunk is found, or that the index reports damage.
    fn check(&mut self, dice: &mut Dice) {
        let misses: Vec<_> = self
            .order
            .iter()
            .filter(|fp| !self.find(fp))
            .copied()
            .collect();
        assert!(
            misses.is_empty() || self.index.is_damaged(),
            "{} silent misses",
            misses.len()
        );
        if self.index.is_damaged() {
            self.index.reset(self.order.len() as u64);
            assert!(!self.index.is_damaged());
            for (n, fingerprint) in (0..).zip(&self.order) {
                self.index.insert(fingerprint, location(n)).unwrap();
            }
            assert!(
                self.order.iter().all(|fp| self.find(fp)),
                "whole after a reset"
            );
        }
        for _ in 0..20 {
            assert!(
                lookup(&self.index, &dice.fingerprint()).is_empty(),
                "from nowhere"
            );
        }
    }
}

fn run(seed: u64) {
    let mut dice = Dice(seed);
    let mut caller = Caller::new(TestDisk::new(), MIB);
    for _ in 0..30 {
        for _ in 0..dice.below(3000) {
            let again = dice.below(10) == 0 && !caller.order.is_empty();
            let fingerprint = match again {
                true => caller.order[dice.below(caller.order.len() as u64) as usize],
                false => dice.fingerprint(),
            };
            caller.store(fingerprint);
        }
        match dice.below(8) {
            0..3 => {
                let coverage = covers(caller.next_container());
                // The merge may find damage in a bucket that no lookup has read. Without a merge
                // the entries wait, and the next open inserts them again.
                let is_covered = caller.index.commit(&coverage).unwrap();
                assert!(!is_covered || !caller.index.is_damaged());
            }
            3 => drop(caller.reopen()),
            4 => {
                caller.disk = caller.disk.crash(&mut dice);
                caller.reopen();
            }
            5 => {
                caller.disk.bytes(PATH, |bytes| {
                    let at = dice.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << dice.below(8);
                });
                caller.reopen();
            }
            6 => {
                caller.disk.bytes(PATH, |bytes| {
                    bytes.truncate(dice.below(bytes.len() as u64) as usize);
                });
                caller.reopen();
            }
            _ => {
                caller.disk.remove(PATH).unwrap();
                assert_eq!(caller.reopen(), IndexFound::Missing);
            }
        }
        caller.check(&mut dice);
    }
}

#[test]
fn any_history_finds_everything_or_says_that_it_is_damaged() {
    (0..12).for_each(run);
}

/// Commits, inserts more so that buckets are rewritten in place, and loses power in a merge.
fn crash_in_a_merge(seed: u64, syncs: bool) -> IndexFound {
    let mut dice = Dice(seed);
    let mut caller = Caller::new(TestDisk::new(), MIB);
    for _ in 0..8000 {
        caller.store(dice.fingerprint());
    }
    assert!(
        caller
            .index
            .commit(&covers(caller.next_container()))
            .unwrap()
    );
    for _ in 0..500 {
        caller.store(dice.fingerprint());
    }
    if !syncs {
        caller.disk.stop_syncing();
    }
    // The power fails at one of the first writes and syncs of this commit, or after it.
    caller
        .disk
        .counts
        .budget
        .store(dice.below(28) as i64, Relaxed);
    let _ = caller.index.commit(&covers(caller.next_container()));
    caller.disk = caller.disk.crash(&mut dice);
    let found = caller.reopen();
    assert!(caller.order.iter().all(|fp| caller.find(fp)) || caller.index.is_damaged());
    found
}

#[test]
fn a_crash_in_a_merge_is_seen() {
    let found: Vec<_> = (0..100).map(|seed| crash_in_a_merge(seed, true)).collect();
    assert!(found.contains(&IndexFound::Unclean), "in between");
    assert!(found.contains(&IndexFound::Loaded), "before or after");
    assert!(
        found
            .iter()
            .all(|f| matches!(f, IndexFound::Unclean | IndexFound::Loaded))
    );
}

#[test]
#[should_panic = "assertion failed"]
fn canary_a_disk_that_does_not_sync_is_caught() {
    for seed in 0..100 {
        crash_in_a_merge(seed, false);
    }
}

#[test]
fn an_error_in_a_merge_loses_nothing_and_the_next_commit_repairs_it() {
    for budget in 0..30 {
        let mut dice = Dice(budget);
        let mut caller = Caller::new(TestDisk::new(), MIB);
        let count = if budget % 2 == 0 { 2000 } else { 12_000 };
        for _ in 0..count {
            caller.store(dice.fingerprint());
        }
        caller.index.commit(&covers(1)).unwrap();
        for _ in 0..dice.below(4000) {
            caller.store(dice.fingerprint());
        }
        let syncs = caller.disk.counts.syncs.load(Relaxed);
        caller.disk.counts.budget.store(budget as i64, Relaxed);
        let failed = caller.index.commit(&covers(2)).is_err();
        caller.disk.counts.budget.store(-1, Relaxed);
        assert!(
            caller.order.iter().all(|fp| caller.find(fp)),
            "budget {budget}"
        );
        let again = caller.index.commit(&covers(3));
        match again {
            Ok(whole) => assert!(whole),
            Err(e) => {
                // After a failed sync nothing is written until a reset.
                assert!(failed && caller.index.is_damaged(), "{e}");
                assert!(caller.disk.counts.syncs.load(Relaxed) > syncs);
                caller.check(&mut dice);
                assert!(caller.index.commit(&covers(3)).unwrap());
            }
        }
        caller.check(&mut dice);
        caller.reopen();
        assert!(
            caller.order.iter().all(|fp| caller.find(fp)),
            "budget {budget}, reopened"
        );
        assert!(!caller.disk.exists("cache/fpi.new"));
    }
}

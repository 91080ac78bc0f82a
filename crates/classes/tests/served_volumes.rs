//! Requests get the classes of the policy, and nothing else changes. Run against a volume that
//! notes the class of each request.

use classes::Policy;
use classes::{Classified, Classifiers};
use noting::Noting;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use testkit::conformance::volume::{abilities_suite, volume_suite};
use units::{IoClass, Pattern};
use volume::{Durability, MemoryVolume, RequestContext, Volume};

const MIB: u64 = 1 << 20;

#[derive(Default)]
struct Seen {
    classes: Mutex<Vec<u8>>,
    patterns: Mutex<Vec<Option<Pattern>>>,
    /// Number of writes at once that are refused, and of writes that fail.
    refuses: AtomicU64,
    fails: AtomicU64,
}

impl Seen {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.classes.lock())
    }

    fn note(&self, context: RequestContext) {
        self.classes.lock().push(context.class.0);
        self.patterns.lock().push(context.pattern);
    }
}

fn policy(rules: &str) -> Arc<Policy> {
    let head = "IO class id,IO class name,Eviction priority,Allocation\n0,unclassified,100,1.00\n";
    Arc::new(Policy::parse(&format!("{head}{rules}")).expect("a policy"))
}

fn served(size: u64, rules: &str) -> (Arc<Classifiers>, Arc<Seen>, Classified<Noting>) {
    let all = Arc::new(Classifiers::new(4 * MIB));
    all.set(Some(policy(rules)));
    let seen = Arc::<Seen>::default();
    let volume = Noting(MemoryVolume::new(size), Arc::clone(&seen));
    let volume = Classified::new(&all, "id", "db-1", volume);
    (all, seen, volume)
}

fn context(wire: u8) -> RequestContext {
    RequestContext {
        class: IoClass(wire),
        ..RequestContext::default()
    }
}

#[test]
fn it_is_a_volume_with_all_abilities() {
    let all = Arc::new(Classifiers::new(4 * MIB));
    for rules in [None, Some("1,metadata,0,1.00\n2,pattern:rand,9,1.00\n")] {
        all.set(rules.map(policy));
        volume_suite(&|size| {
            Box::new(Classified::new(
                &all,
                &size.to_string(),
                "v",
                MemoryVolume::new(size),
            ))
        });
        abilities_suite(
            &|volume| Box::new(Classified::new(&all, "able", "v", volume)),
            &[],
        );
    }
}

#[test]
fn every_way_to_ask_has_its_class() {
    let rules = "1,volume:db-*,1,1.00\n2,wire:7,1,1.00\n3,io_direction:write,1,1.00\n\
                 4,request_size:gt:4096,1,1.00\n";
    let (all, seen, volume) = served(MIB, rules);
    let able = volume.capabilities();
    volume.read(context(0), 0, &mut [0; 10]).expect("read");
    volume.read(context(7), 0, &mut [0; 10]).expect("read");
    volume
        .write(context(7), 0, &[0; 10], Durability::Volatile)
        .expect("write");
    able.write_now(context(0), 0, &[0; 10]).expect("write");
    able.prefetch(context(7), 0, 8192);
    assert_eq!(seen.take(), [1, 2, 3, 3, 4]);
    let counts = all.counts();
    assert_eq!((counts[1].reads, counts[1].read_bytes), (1, 10));
    assert_eq!((counts[2].reads, counts[3].writes), (1, 2));
    assert_eq!(counts[3].written_bytes, 20);
    // A hint is no request.
    assert_eq!(counts[4].reads, 0);
}

#[test]
fn without_a_policy_the_class_of_the_client_means_nothing() {
    let (all, seen, volume) = served(MIB, "1,wire:9,1,1.00\n");
    all.set(None);
    volume.read(context(9), 0, &mut [0; 10]).expect("read");
    assert_eq!(seen.take(), [0]);
    assert!(!all.step(100).has_more && all.counts().iter().all(|of| of.reads == 0));
    all.set(Some(policy("1,wire:9,1,1.00\n")));
    volume.read(context(9), 0, &mut [0; 10]).expect("read");
    assert_eq!(seen.take(), [1]);
}

/// The volume does not judge again, and random writes do not hide a stream of reads from it.
#[test]
fn the_volume_gets_the_pattern_that_the_policy_asks_for() {
    let (all, seen, volume) = served(64 << 30, "1,pattern:rand,1,1.00\n");
    let far = |n: u64| (n * 7_919_317_003) % (63 << 30);
    for n in 0..2000 {
        volume
            .write(context(0), far(n), &[1], Durability::Volatile)
            .expect("write");
        volume.read(context(0), n, &mut [0; 1]).expect("read");
    }
    let patterns = std::mem::take(&mut *seen.patterns.lock());
    let (writes, reads): (Vec<_>, Vec<_>) = patterns.chunks(2).map(|two| (two[0], two[1])).unzip();
    assert!(reads.iter().all(|of| *of == Some(Pattern::Sequential)));
    let random = writes.iter().filter(|of| **of == Some(Pattern::Random));
    assert!(random.count() > 1500);
    all.set(Some(policy("1,wire:9,1,1.00\n")));
    volume.read(context(0), 0, &mut [0; 1]).expect("read");
    assert_eq!(*seen.patterns.lock(), [None], "nobody asks for it");
}

#[test]
fn a_request_that_comes_again_is_not_its_own_neighbour() {
    let (_, seen, volume) = served(64 << 30, "1,pattern:rand,1,1.00\n2,pattern:seq,1,1.00\n");
    let far = |n: u64| (n * 7_919_317_003) % (63 << 30);
    // A region of the detector has 4 GiB: fill the history of all.
    for n in 0..2000 {
        volume
            .write(context(0), far(n), &[1], Durability::Volatile)
            .expect("write");
    }
    seen.take();
    let able = volume.capabilities();
    for n in 2000..2100 {
        seen_refuse(&seen);
        let done = able.write_now(context(0), far(n), &[1]).expect("write");
        assert!(!done);
        volume
            .write(context(0), far(n), &[1], Durability::Volatile)
            .expect("write");
    }
    let random = seen.take().iter().filter(|class| **class == 1).count();
    assert!(random > 90, "{random} of 100 are random");
}

fn seen_refuse(seen: &Seen) {
    seen.refuses.store(1, SeqCst);
}

/// An MBR with one partition of Linux from sector 8 on; the rest of the first sector is the table's
/// own.
fn partition_table() -> [u8; 512] {
    let mut sector = [0; 512];
    sector[450] = 0x83;
    sector[454..458].copy_from_slice(&8u32.to_le_bytes());
    sector[458..462].copy_from_slice(&1000u32.to_le_bytes());
    sector[510] = 0x55;
    sector[511] = 0xaa;
    sector
}

#[test]
fn what_is_written_is_learned_in_the_background() {
    let (all, seen, volume) = served(MIB, "1,metadata,1,1.00\n");
    let look = || {
        seen.take();
        volume.read(context(0), 0, &mut [0; 16]).expect("read");
        seen.take()
    };
    while all.step(8).has_more {}
    assert_eq!(look(), [0]);
    let table = partition_table();
    volume
        .write(context(0), 0, &table, Durability::Volatile)
        .expect("write");
    while all.step(8).has_more {}
    assert_eq!(look(), [1], "the table is metadata");
    let layouts = all.layouts();
    assert!(layouts[0].is_complete && layouts[0].cost.is_some_and(|cost| cost.recognised > 0));
    // Discarded, zeroed, and written with a failure in the middle: each is looked at again.
    volume.discard(context(0), 0, 512).expect("discard");
    while all.step(8).has_more {}
    assert_eq!(look(), [0], "no table any more");
    let written = volume.capabilities().write_now(context(0), 0, &table);
    assert!(written.expect("write"));
    while all.step(8).has_more {}
    assert_eq!(look(), [1]);
    seen.fails.store(1, SeqCst);
    let mut other = table;
    other[450] = 0;
    other[458..462].copy_from_slice(&[0; 4]);
    let both = [other, other].concat();
    assert!(
        volume
            .write(context(0), 0, &both, Durability::Volatile)
            .is_err()
    );
    while all.step(8).has_more {}
    assert_eq!(look(), [0], "half of the failed write was done");
}

#[test]
fn a_policy_that_begins_later_learns_what_was_written_before() {
    let (all, seen, volume) = served(MIB, "1,metadata,1,1.00\n");
    while all.step(8).has_more {}
    all.set(None);
    let table = partition_table();
    volume
        .write(context(0), 0, &table, Durability::Volatile)
        .expect("write");
    all.set(Some(policy("2,metadata,1,1.00\n")));
    while all.step(8).has_more {}
    seen.take();
    volume.read(context(0), 0, &mut [0; 16]).expect("read");
    assert_eq!(seen.take(), [2]);
}

#[test]
fn handles_of_one_volume_learn_together_and_memory_is_bounded() {
    let all = Arc::new(Classifiers::new(MIB));
    all.set(Some(policy("1,metadata,1,1.00\n")));
    let volumes: Vec<_> = (0..100)
        .map(|n| Classified::new(&all, &n.to_string(), "v", MemoryVolume::new(4096)))
        .collect();
    let again = Classified::new(&all, "0", "v", MemoryVolume::new(4096));
    assert_eq!(all.layouts().len(), 100);
    let left_out = all.layouts().iter().filter(|l| l.is_left_out).count();
    assert!((80..100).contains(&left_out), "{left_out} have no memory");
    drop((volumes, again));
    assert!(all.layouts().is_empty());
    let _one = Classified::new(&all, "0", "v", MemoryVolume::new(4096));
    assert!(!all.layouts()[0].is_left_out, "memory comes back");
}

#[test]
fn requests_and_steps_side_by_side() {
    let (all, seen, volume) = served(MIB, "1,metadata,1,1.00\n2,pattern:rand,1,1.00\n");
    let table = partition_table();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let volume = &volume;
            scope.spawn(move || {
                for n in 0..2000u64 {
                    let at = (n * 7919 + thread * 512) % (MIB - 512) / 512 * 512;
                    let (data, at) = if n % 50 == 0 {
                        (table, 0)
                    } else {
                        ([7; 512], at + 512)
                    };
                    let done =
                        volume.write(context(0), at.min(MIB - 512), &data, Durability::Volatile);
                    done.expect("write");
                    volume
                        .read(context(0), at.min(MIB - 512), &mut [0; 512])
                        .expect("read");
                }
            });
        }
        let all = &all;
        scope.spawn(move || {
            for n in 0..2000 {
                all.step(4);
                if n % 500 == 499 {
                    all.set(Some(policy("1,metadata,1,1.00\n")));
                }
            }
        });
    });
    while all.step(8).has_more {}
    seen.take();
    volume.read(context(0), 0, &mut [0; 16]).expect("read");
    assert_eq!(seen.take(), [1], "the last table was learned");
}

mod noting {
    use super::Seen;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::SeqCst;
    use volume::{
        Capabilities, Durability, FastPath, Layer, MemoryVolume, Prefetch, RequestContext, Volume,
        VolumeError, VolumeErrorKind,
    };

    /// A volume that notes the class of each request.
    pub struct Noting(pub MemoryVolume, pub Arc<Seen>);

    impl Layer for Noting {
        type Inner = MemoryVolume;

        fn below(&self) -> &MemoryVolume {
            &self.0
        }

        fn read(
            &self,
            context: RequestContext,
            at: u64,
            into: &mut [u8],
        ) -> Result<(), VolumeError> {
            self.1.note(context);
            Volume::read(&self.0, context, at, into)
        }

        fn write(
            &self,
            context: RequestContext,
            at: u64,
            data: &[u8],
            durability: Durability,
        ) -> Result<(), VolumeError> {
            self.1.note(context);
            if self.1.fails.load(SeqCst) > 0 {
                self.1.fails.fetch_sub(1, SeqCst);
                // A part of it was done.
                let half = data.get(..data.len() / 2).unwrap_or_default();
                Volume::write(&self.0, context, at, half, durability)?;
                return Err(VolumeErrorKind::Io.into());
            }
            Volume::write(&self.0, context, at, data, durability)
        }

        fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
            Capabilities {
                fast_path: Some(self),
                prefetch: Some(self),
                ..below
            }
        }
    }

    impl FastPath for Noting {
        fn is_cached(&self, _: RequestContext, _: u64, _: u64) -> bool {
            true
        }

        fn write_now(
            &self,
            context: RequestContext,
            at: u64,
            data: &[u8],
        ) -> Result<bool, VolumeError> {
            if self.1.refuses.load(SeqCst) > 0 {
                self.1.refuses.fetch_sub(1, SeqCst);
                return Ok(false);
            }
            Layer::write(self, context, at, data, Durability::Volatile)?;
            Ok(true)
        }
    }

    impl Prefetch for Noting {
        fn prefetch(&self, context: RequestContext, _: u64, _: u64) {
            self.1.note(context);
        }

        fn announce(&self, _: RequestContext, _: u64, _: u64) -> bool {
            false
        }
    }
}

mod waiting {
    use super::{MIB, context, partition_table, policy};
    use classes::{Classified, Classifiers};
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use volume::{Durability, MemoryVolume, Operation, Slow, Volume};

    /// They waited for the layout's lock, which a step holds while it reads.
    #[test]
    fn neither_commands_nor_writes_wait_for_a_step_that_reads() {
        let all = Arc::new(Classifiers::new(MIB));
        all.set(Some(policy("1,metadata,1,1.00\n")));
        let ((begun, has_begun), (go, may_go)) = (channel(), channel::<()>());
        let (begun, may_go) = (Mutex::new(begun), Mutex::new(may_go));
        // Its reads wait for the test.
        let gate = Slow::new(MemoryVolume::new(MIB), move |request| {
            if request.operation == Operation::Read {
                let _ = begun.lock().send(());
                let _ = may_go.lock().recv();
            }
        });
        let volume = Classified::new(&all, "id", "v", gate);
        std::thread::scope(|scope| {
            let stepping = scope.spawn(|| all.step(8));
            has_begun.recv().expect("the step reads");
            let table = partition_table();
            let written = Volume::write(&volume, context(0), 0, &table, Durability::Volatile);
            written.expect("write");
            Volume::discard(&volume, context(0), 4096, 4096).expect("discard");
            assert_eq!(all.layouts().len(), 1);
            all.forget("id");
            all.set(None);
            all.set(Some(policy("1,metadata,1,1.00\n")));
            assert!(!stepping.is_finished());
            drop(go);
            stepping.join().expect("the step ends");
        });
        while all.step(8).has_more {}
        assert!(all.layouts()[0].is_complete);
    }
}

#[test]
fn a_volume_is_not_kept_for_a_client_that_left() {
    let all = Arc::new(Classifiers::new(MIB));
    all.set(Some(policy("1,metadata,1,1.00\n")));
    let (first, seen) = (MemoryVolume::new(MIB), Arc::<Seen>::default());
    let first = Classified::new(&all, "state", "s", Noting(first, Arc::clone(&seen)));
    let second = Classified::new(&all, "state", "s", MemoryVolume::new(MIB));
    while all.step(8).has_more {}
    assert_eq!(all.layouts().len(), 1, "both share what is known");
    drop(first);
    assert_eq!(Arc::strong_count(&seen), 1, "its volume is closed");
    // The other one's handle is read now.
    let table = partition_table();
    let written = second.write(context(0), 0, &table, Durability::Volatile);
    written.expect("write");
    while all.step(8).has_more {}
    let layouts = all.layouts();
    assert!(layouts[0].is_complete && layouts[0].cost.is_some_and(|cost| cost.recognised == 1));
}

#[test]
fn later_volumes_have_as_much_memory_as_earlier_ones() {
    let all = Arc::new(Classifiers::new(MIB));
    all.set(Some(policy("1,metadata,1,1.00\n")));
    let memory = || -> Vec<u64> {
        while all.step(8).has_more {}
        let layouts = all.layouts();
        let costs = layouts.iter().filter_map(|layout| layout.cost);
        costs.map(|cost| cost.memory_bytes_max).collect()
    };
    let make = |n: u64| Classified::new(&all, &n.to_string(), "v", MemoryVolume::new(MIB));
    let mut volumes: Vec<_> = (0..1).map(make).collect();
    let alone = memory();
    volumes.extend((1..10).map(make));
    let shared = memory();
    assert_eq!(shared.len(), 10);
    assert!(
        shared.iter().all(|bytes| *bytes == alone[0] / 16),
        "{shared:?}"
    );
    volumes.truncate(1);
    assert_eq!(memory(), alone, "memory comes back");
}

//! Many threads look up, offer and forget while another steps: right bytes or nothing, and nobody
//! waits for anybody.

use crate::world;

use ssd_tier::Kind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{IoClass, UnixNanos};
use world::{World, chunk};

#[test]
fn lookups_and_writes_at_once_are_right() {
    let world = World::new(16, true);
    let (tier, is_over, hits) = (&world.tier, AtomicBool::new(false), AtomicU64::new(0));
    let names: Vec<_> = (0..600).map(|n| world.name(n)).collect();
    let reader = |start: u64| {
        let mut n = start;
        for _ in 0..30_000 {
            n = (n * 31 + 7) % 600;
            let name = &names[n as usize];
            match tier.lookup(name, Kind::Data) {
                Some(found) => {
                    hits.fetch_add(1, Ordering::Relaxed);
                    assert!(*found == *chunk(n), "chunk {n}");
                }
                None if n.is_multiple_of(97) => tier.forget(name),
                None => drop(tier.offer(name, Kind::Data, IoClass(n as u8 % 3), &chunk(n))),
            }
        }
    };
    std::thread::scope(|scope| {
        let stepping = scope.spawn(|| {
            let mut now = world.now;
            while !is_over.load(Ordering::Relaxed) {
                now += 1_000_000;
                tier.step(UnixNanos(now), 1 << 16);
            }
        });
        let readers: Vec<_> = (1..4).map(|n| scope.spawn(move || reader(n))).collect();
        readers
            .into_iter()
            .for_each(|r| r.join().expect("a reader"));
        is_over.store(true, Ordering::Relaxed);
        stepping.join().expect("steps");
    });
    let status = tier.status();
    assert!(hits.load(Ordering::Relaxed) > 1000, "{status:?}");
    assert!(status.evictions > 20, "{status:?}");
    assert_eq!((status.damaged, status.failed_reads), (0, 0), "{status:?}");
}

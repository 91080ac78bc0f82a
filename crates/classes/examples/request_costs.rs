//! Measures how much longer a request takes with a classifier before its volume. The volume is an
//! image in memory. Prints nanoseconds a request, medians of rounds that take turns.
//!
//! ```text
//! cargo run --release -p classes --example request_costs -- IMAGE
//! ```

use classes::{Classified, Classifiers};
use classes::{Policy, shipped};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use volume::{Durability, MemoryVolume, RequestContext, Volume};

const ROUNDS: usize = 31;
const REQUESTS: u64 = 20_000;
const CONTEXT: RequestContext = RequestContext::CLIENT;

fn policy(name: &str) -> Arc<Policy> {
    let shipped = shipped::find(name).expect("a policy that ships");
    Arc::new(Policy::parse(shipped.csv).expect("a policy"))
}

/// Nanoseconds a request of 512 bytes at random places.
fn round(volume: &dyn Volume, writes: bool) -> f64 {
    let (blocks, mut bytes) = (volume.size_bytes() / 4096, [0; 512]);
    let mut at = 0x9e37_79b9_7f4a_7c15u64;
    let since = Instant::now();
    for _ in 0..REQUESTS {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (at >> 33) % blocks * 4096;
        volume.read(CONTEXT, offset, &mut bytes).expect("read");
        if writes {
            let write = volume.write(CONTEXT, offset, &bytes, Durability::Volatile);
            write.expect("write");
        }
    }
    black_box(&bytes);
    since.elapsed().as_nanos() as f64 / REQUESTS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let image = std::env::args().nth(1).expect("usage: request_costs IMAGE");
    let bytes = std::fs::read(image).expect("an image");
    // One for all, so that its own time is the same.
    let plain = Arc::new(MemoryVolume::new(bytes.len() as u64));
    let written = plain.write(CONTEXT, 0, &bytes, Durability::Volatile);
    written.expect("write");
    let of = |name: Option<&str>| {
        let all = Arc::new(Classifiers::new(64 << 20));
        all.set(name.map(policy));
        let classified = Classified::new(&all, "id", "disk", Arc::clone(&plain));
        while all.step(8).has_more {}
        (all, classified)
    };
    let (_none, no_policy) = of(None);
    let (t5, by_layout) = of(Some("t5"));
    let (_vm, by_pattern) = of(Some("vm-images"));
    let ways: [(&str, &dyn Volume); 4] = [
        ("no classifier", &plain),
        ("no policy", &no_policy),
        ("t5 (blocks)", &by_layout),
        ("vm-images (blocks and pattern)", &by_pattern),
    ];
    let mut times = [const { (Vec::new(), Vec::new()) }; 4];
    for _ in 0..ROUNDS {
        for ((_, volume), (reads, both)) in ways.iter().zip(&mut times) {
            reads.push(round(*volume, false));
            both.push(round(*volume, true));
        }
    }
    println!("{:?}", t5.layouts());
    for ((name, _), (reads, both)) in ways.iter().zip(times) {
        let (read, both) = (median(reads), median(both));
        println!(
            "{name:<32} read {read:6.0} ns, write {:6.0} ns",
            both - read
        );
    }
}

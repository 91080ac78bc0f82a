//! Measures the cost of a decision: `cargo run --release -p qos --example decision_costs`.
//!
//! Prints processor time of this thread, as Linux counts it, for a request that is offered, handed
//! out and completed: the best of several batches.
//! Invariant: elapsed time is not measured, so other processes do not change the result much.

use qos::{
    DeviceRequest, Direction, EdgeThrottle, Flow, LatencyTargets, Scheduler, SchedulerSettings,
};
use std::hint::black_box;

const REQUESTS: u64 = 300_000;

/// Processor time of this thread, nanoseconds.
fn processor_ns() -> f64 {
    // Yielding makes the kernel update the count.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse().ok());
    first.unwrap_or(f64::NAN)
}

fn best(mut act: impl FnMut(u64)) -> f64 {
    let batches = (0..7).map(|_| {
        let start = processor_ns();
        (0..REQUESTS).for_each(&mut act);
        (processor_ns() - start) / REQUESTS as f64
    });
    batches.fold(f64::INFINITY, f64::min)
}

fn request(n: u64, flows: u64) -> DeviceRequest {
    DeviceRequest {
        id: n,
        flow: Flow::ALL[(n % flows) as usize],
        direction: Direction::Read,
        is_sequential: false,
        bytes: 4096,
    }
}

fn main() {
    println!("| flows | one request, ns | handed out |\n|---|---|---|");
    for flows in [1, 5, 8] {
        let Ok(mut scheduler) = Scheduler::new(SchedulerSettings::SSD) else {
            return;
        };
        let mut now = 0;
        // Sixteen requests wait all the time.
        for n in 0..16 {
            let _ = scheduler.offer(request(n, flows)).is_ok();
        }
        let mut handed_out = 0;
        let ns = best(|n| {
            now += 10_000;
            let _ = black_box(scheduler.offer(request(n, flows))).is_ok();
            if let Some((request, _)) = black_box(scheduler.next(now)) {
                scheduler.completed(request.flow, now, now);
                handed_out += 1;
            }
        });
        println!("| {flows} | {ns:.0} | {handed_out} |");
    }
    let mut edge = EdgeThrottle::new(LatencyTargets::default());
    let ns = best(|n| {
        edge.completed(Flow::Backup, n, n);
        black_box(edge.delay_ns(Flow::Backup, n));
    });
    println!("\nA delay at the edge: {ns:.0} ns.");
}

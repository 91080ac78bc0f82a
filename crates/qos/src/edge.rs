//! Delays at the edge: new reads wait outside while requests inside take too long.
//!
//! The `device` crate calls this before it queues a user's read.
//! Invariant: a delay is at most `delay_ns_max`. Without samples it fades, so that no flow is
//! excluded for good. A flow delays only flows of equal or less importance.

use crate::flow::{ByFlow, Flow};

/// A new sample has a weight of 1/`SAMPLES` in a mean.
const SAMPLES: f64 = 32.0;

/// Target latencies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatencyTargets {
    /// Mean latency that a flow should not exceed; `u64::MAX`: no target.
    pub target_ns: ByFlow<u64>,
    /// Maximum delay.
    pub delay_ns_max: u64,
    /// A mean without new samples halves in this time.
    pub half_life_ns: u64,
}

impl Default for LatencyTargets {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        Self {
            target_ns: [
                20 * MS,
                50 * MS,
                100 * MS,
                200 * MS,
                500 * MS,
                u64::MAX,
                u64::MAX,
                u64::MAX,
            ],
            delay_ns_max: 200 * MS,
            half_life_ns: 1000 * MS,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Mean {
    ns: f64,
    at_ns: u64,
}

impl Mean {
    fn faded(&self, now_ns: u64, half_life_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.at_ns) as f64;
        self.ns * 0.5f64.powf(passed / half_life_ns.max(1) as f64)
    }
}

/// Delays at the edge. See the module's head.
pub struct EdgeThrottle {
    targets: LatencyTargets,
    means: ByFlow<Mean>,
}

impl EdgeThrottle {
    /// Creates a throttle without samples.
    pub fn new(targets: LatencyTargets) -> Self {
        Self {
            targets,
            means: Default::default(),
        }
    }

    /// Replaces the targets.
    pub fn set_targets(&mut self, targets: LatencyTargets) {
        self.targets = targets;
    }

    /// Counts a request that was answered at `now_ns`, `latency_ns` after it was queued.
    pub fn completed(&mut self, flow: Flow, latency_ns: u64, now_ns: u64) {
        let Some(mean) = self.means.get_mut(flow as usize) else {
            return;
        };
        // The first sample is the mean.
        let weight = if mean.ns == 0.0 { 1.0 } else { 1.0 / SAMPLES };
        mean.ns += (latency_ns as f64 - mean.ns) * weight;
        mean.at_ns = now_ns;
    }

    /// Returns the recent mean latency of a flow.
    pub fn mean_ns(&self, flow: Flow, now_ns: u64) -> u64 {
        let mean = self.means.get(flow as usize).copied().unwrap_or_default();
        mean.faded(now_ns, self.targets.half_life_ns) as u64
    }

    /// Returns how long to delay a new request of a flow: the largest excess over the target of any
    /// flow that is as important or more.
    pub fn delay_ns(&self, flow: Flow, now_ns: u64) -> u64 {
        let matters = Flow::ALL.iter().zip(self.targets.target_ns);
        let late = |other: Flow, target_ns: u64| {
            // A mean only fades: one that was below its target needs no exact value.
            let mean = self.means.get(other as usize);
            mean.is_some_and(|mean| mean.ns > target_ns as f64)
        };
        let excess = matters
            .take_while(|(other, _)| **other <= flow)
            .filter(|(other, target_ns)| late(**other, *target_ns))
            .map(|(other, target_ns)| self.mean_ns(*other, now_ns).saturating_sub(target_ns));
        excess.max().unwrap_or(0).min(self.targets.delay_ns_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn less_important_flows_wait_when_it_takes_too_long() {
        let mut edge = EdgeThrottle::new(LatencyTargets::default());
        let delays = |edge: &EdgeThrottle, now| Flow::ALL.map(|flow| edge.delay_ns(flow, now) / MS);
        edge.completed(Flow::ForegroundNonSequential, 10 * MS, 0);
        assert_eq!(delays(&edge, 0), [0; 8]);
        (1..200).for_each(|n| edge.completed(Flow::Restore, 160 * MS, n));
        assert_eq!(delays(&edge, 200)[..2], [0, 0]);
        assert!(
            delays(&edge, 200)[2..]
                .iter()
                .all(|d| (59..=60).contains(d))
        );
        (200..400).for_each(|n| edge.completed(Flow::ForegroundNonSequential, 5000 * MS, n));
        assert_eq!(delays(&edge, 400), [200; 8], "at most so much");
        // The flow is quick again, or sends nothing.
        (400..800).for_each(|n| edge.completed(Flow::ForegroundNonSequential, MS, n));
        assert_eq!(delays(&edge, 800)[0], 0);
        assert_eq!(delays(&edge, 3000 * MS), [0; 8]);
    }

    /// Clients in a closed loop, a server with a queue: the mean latency inside falls to the
    /// target.
    #[test]
    fn the_queue_builds_up_outside() {
        const FLOW: Flow = Flow::ForegroundNonSequential;
        let inside = |throttled: bool| {
            let mut edge = EdgeThrottle::new(LatencyTargets::default());
            // 64 clients; one server takes 1 ms per request. Each entry is when that client sends
            // next.
            let mut clients = [0u64; 64];
            let (mut free_at, mut total, mut count) = (0u64, 0u64, 0u64);
            for _ in 0..20_000 {
                let next = (0..clients.len()).min_by_key(|c| clients[*c]).unwrap_or(0);
                let sent = clients[next];
                let done = free_at.max(sent) + MS;
                free_at = done;
                edge.completed(FLOW, done - sent, done);
                let delay = if throttled {
                    edge.delay_ns(FLOW, done)
                } else {
                    0
                };
                clients[next] = done + delay;
                total += done - sent;
                count += 1;
            }
            (total / count, free_at)
        };
        let ((free, free_end), (held, held_end)) = (inside(false), inside(true));
        assert!(free > 60 * MS, "{free} ns without");
        assert!(held < 45 * MS, "{held} ns with");
        assert!(held_end <= free_end * 102 / 100, "the server is kept busy");
    }
}

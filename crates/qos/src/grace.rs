//! Learns how long a device must be without users before maintenance moves its head. The value
//! depends on the device and the load.
//!
//! A user suffers from the seek that it meets, not from the bytes: after the seek, maintenance
//! continues in short contiguous pieces and stops at any arrival. So two times are chosen: the wait
//! before the first seek, and the space between two seeks of reads that are not contiguous.
//!
//! Both are longest at first and then learned. The last few thousand user requests are replayed
//! (Lindley's recursion for one server) without maintenance, and with maintenance that starts after
//! each wait of a ladder. The chosen wait is the shortest at which the 99th percentile grows by at
//! most [`HARM_MOST`] and at which starts gain enough for their cost. The space between seeks is
//! then chosen the same way. The duration of a seek is measured. The real growth of the 99th
//! percentile is measured too: growth above [`HARM_ALARM`] lengthens both times for a while,
//! regardless of the replay.
//!
//! ```text
//! user_completed() ──> samples ──> replay: alone, with each wait, with each space
//! took() ──> seek and piece times ──┘          │
//!                                      ns(), space_ns() ──> scheduler
//! ```
//!
//! The scheduler calls this.
//! Invariant: no I/O and no clock; the wait stays within [`GraceLimits`].

use std::collections::VecDeque;

/// Limits of the wait, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraceLimits {
    /// The shortest wait.
    pub least_ns: u64,
    /// The longest wait.
    pub most_ns: u64,
}

impl GraceLimits {
    /// Returns limits that fix the wait.
    pub const fn fixed(ns: u64) -> Self {
        Self {
            least_ns: ns,
            most_ns: ns,
        }
    }
}

/// Maximum number of user requests that are replayed: forty of them are beyond the 99th percentile.
const REPLAYED: usize = 4000;
/// Maximum number of parts into which requests are divided, each of at least [`PART_LEAST`]. The
/// median of the parts decides. Judged as one part, a burst, whose requests wait for each other
/// anyway, would hide the harm to requests before and after it.
const PARTS_MAX: usize = 4;
const PART_LEAST: usize = 250;
/// Minimum of new requests between two replays: a number, and the known requests divided by a
/// number.
const REPLAY_EVERY: (usize, usize) = (250, 4);
/// Minimum time between two replays: each takes a millisecond or two under the lock of the device's
/// queue.
const REPLAY_EVERY_NS: u64 = 1_000_000_000;
/// Maximum growth of the 99th percentile in a replay. The limit that users are promised is 1.2.
const HARM_MOST: f64 = 1.14;
/// Maximum growth of the measured 99th percentile.
const HARM_ALARM: f64 = 1.17;
/// Minimum number of requests for that measurement.
const ALARM_SAMPLES: usize = 1000;
/// Number of replays for which an alarm is remembered.
const ALARM_LASTS: u32 = 40;
/// Minimum mean gain of a start: device time that follows the seek, relative to the seek.
const GAIN_LEAST: f64 = 0.25;
/// Ratio of neighbouring waits on the ladder.
const RUNG: f64 = 1.4;
/// Candidates for the space between seeks, in seek times.
const SPACES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const LONGEST: usize = SPACES.len() - 1;
/// A new piece has a weight of 1/`PIECES` in a mean.
const PIECES: f64 = 32.0;

/// A completed user request.
#[derive(Clone, Copy)]
struct Sample {
    came_ns: u64,
    /// Device time.
    service_ns: u64,
    latency_ns: u64,
    /// Estimated latency without maintenance.
    without_ns: u64,
    is_client: bool,
}

/// Learns both times. See the module's head.
pub(crate) struct Grace {
    limits: GraceLimits,
    ns: u64,
    /// Space between two seeks: nanoseconds, and index into [`SPACES`].
    space_ns: u64,
    space: usize,
    /// Mean device time of a seek and its first piece.
    seek_ns: f64,
    /// Mean and mean square of the device time of contiguous pieces.
    piece_ns: (f64, f64),
    samples: VecDeque<Sample>,
    new: usize,
    /// When the samples were last replayed.
    replayed_ns: u64,
    /// When any request was last completed.
    last_end_ns: u64,
    /// When the device would have been free without maintenance.
    free_ns: u64,
    harm: f64,
    alarm: Option<Alarm>,
}

/// A measured growth above [`HARM_ALARM`] that the replay had not predicted: these times, and
/// shorter ones, are not chosen for `replays` replays.
struct Alarm {
    wait_ns: u64,
    space: usize,
    replays: u32,
}

/// When maintenance runs in a replay.
#[derive(Clone, Copy)]
struct Policy {
    wait_ns: u64,
    /// `None`: one task reads in order, so only the first request of each gap seeks.
    space_ns: Option<u64>,
}

/// Result of a replay.
struct Replayed {
    p99: Percentiles,
    starts: u64,
    /// Time that maintenance had after its seeks.
    gained_ns: u64,
}

/// The 99th percentile of each part of the samples, nanoseconds.
type Percentiles = Vec<u64>;

impl Grace {
    /// `seek_ns` is the first estimate of a seek. Until something is learned, the wait and the
    /// space are longest: the first users must not pay for what is unknown.
    pub fn new(limits: GraceLimits, seek_ns: u64) -> Self {
        Self {
            limits,
            ns: limits.most_ns.max(limits.least_ns),
            space_ns: seek_ns.saturating_mul(SPACES[LONGEST]),
            space: LONGEST,
            seek_ns: seek_ns as f64,
            piece_ns: (0.0, 0.0),
            samples: VecDeque::with_capacity(REPLAYED + 1),
            new: 0,
            replayed_ns: 0,
            last_end_ns: 0,
            free_ns: 0,
            harm: 1.0,
            alarm: None,
        }
    }

    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// Returns the space between two seeks, nanoseconds.
    pub fn space_ns(&self) -> u64 {
        self.space_ns
    }

    /// Returns the factor by which maintenance raised the 99th percentile of clients' latencies in
    /// the last judgement.
    pub fn harm(&self) -> f64 {
        self.harm
    }

    /// Records the device time of a piece: one that needed a seek, or a contiguous one.
    pub fn took(&mut self, is_seek: bool, took_ns: u64) {
        let took_ns = took_ns as f64;
        let follow = |mean: &mut f64, value: f64| *mean += (value - *mean) / PIECES;
        if is_seek {
            follow(&mut self.seek_ns, took_ns);
        } else {
            follow(&mut self.piece_ns.0, took_ns);
            follow(&mut self.piece_ns.1, took_ns * took_ns);
        }
    }

    /// Returns the mean rest of a contiguous piece that a user meets: long pieces are met more
    /// often.
    fn residue_ns(&self) -> f64 {
        let (mean, mean_square) = self.piece_ns;
        mean_square / (2.0 * mean.max(1.0))
    }

    pub fn maintenance_completed(&mut self, now_ns: u64) {
        self.last_end_ns = now_ns;
    }

    /// Returns the device time of a request that arrived at `came_ns` and is done at `now_ns`.
    pub fn service_ns(&self, came_ns: u64, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.last_end_ns.max(came_ns))
    }

    /// Records a completed user request that arrived at `came_ns`.
    pub fn user_completed(&mut self, is_client: bool, came_ns: u64, now_ns: u64) {
        let service_ns = self.service_ns(came_ns, now_ns);
        self.last_end_ns = now_ns;
        // Without maintenance it would not have been later than it was.
        let begin_ns = self.free_ns.max(came_ns);
        self.free_ns = begin_ns.saturating_add(service_ns).min(now_ns);
        self.samples.push_back(Sample {
            came_ns,
            service_ns,
            latency_ns: now_ns.saturating_sub(came_ns),
            without_ns: self.free_ns.saturating_sub(came_ns),
            is_client,
        });
        if self.samples.len() > REPLAYED {
            self.samples.pop_front();
        }
        self.new += 1;
        let is_enough = self.new >= REPLAY_EVERY.0.max(self.samples.len() / REPLAY_EVERY.1);
        if is_enough && now_ns.saturating_sub(self.replayed_ns) >= REPLAY_EVERY_NS {
            self.new = 0;
            self.replayed_ns = now_ns;
            self.learn();
        }
    }

    fn learn(&mut self) {
        // Without any clients, all users are judged.
        let judges_clients = self.samples.iter().any(|sample| sample.is_client);
        let judged = |sample: &Sample| sample.is_client || !judges_clients;
        let mut scratch = Vec::with_capacity(self.samples.len());
        let mut p99 = |of: fn(&Sample) -> u64| {
            scratch.clear();
            let judged = self.samples.iter().filter(|sample| judged(sample));
            scratch.extend(judged.map(of));
            percentiles(&mut scratch)
        };
        self.harm = growth(
            &p99(|sample| sample.latency_ns),
            &p99(|sample| sample.without_ns),
        );
        let alarm = self.alarm.take();
        // With few requests the 99th percentile is chance. With both times at their longest, the
        // harm has other causes.
        let is_judged = self.samples.len() >= ALARM_SAMPLES;
        let is_longest = self.ns >= self.limits.most_ns && self.space == LONGEST;
        self.alarm = match self.harm > HARM_ALARM && is_judged && !is_longest {
            true => Some(Alarm {
                wait_ns: self.ns,
                space: self.space,
                replays: ALARM_LASTS,
            }),
            false => alarm.filter(|alarm| alarm.replays > 1).map(|alarm| Alarm {
                replays: alarm.replays - 1,
                ..alarm
            }),
        };
        let mut replay = |policy| self.replay(policy, &judged, &mut scratch);
        let alone = replay(None).p99;
        let wait_ns = self.choose_wait(&alone, &mut replay);
        let space = self.choose_space(wait_ns, &alone, &mut replay);
        (self.ns, self.space) = (wait_ns, space);
        self.space_ns = self.spaced_ns(space);
    }

    fn choose_wait(
        &self,
        alone: &Percentiles,
        replay: &mut dyn FnMut(Option<Policy>) -> Replayed,
    ) -> u64 {
        let GraceLimits { least_ns, most_ns } = self.limits;
        // With the longest space, the wait did the harm.
        let alarm = self.alarm.as_ref();
        let alarm_ns = alarm
            .filter(|alarm| alarm.space == LONGEST)
            .map(|alarm| alarm.wait_ns);
        let mut wait_ns = least_ns;
        while wait_ns < most_ns {
            let replayed = replay(Some(Policy {
                wait_ns,
                space_ns: None,
            }));
            let gain_ns = replayed.gained_ns as f64 / replayed.starts.max(1) as f64;
            let is_alarming = alarm_ns.is_some_and(|alarm_ns| wait_ns <= alarm_ns);
            if growth(&replayed.p99, alone) <= HARM_MOST
                && gain_ns >= self.seek_ns * GAIN_LEAST
                && !is_alarming
            {
                break;
            }
            let next_ns = (wait_ns as f64 * RUNG) as u64 + 1;
            wait_ns = next_ns.min(most_ns);
        }
        wait_ns
    }

    /// Returns an index into [`SPACES`].
    fn choose_space(
        &self,
        wait_ns: u64,
        alone: &Percentiles,
        replay: &mut dyn FnMut(Option<Policy>) -> Replayed,
    ) -> usize {
        let alarm = self.alarm.as_ref();
        let mut is_fine = |space: &usize| {
            let is_alarming = alarm.is_some_and(|alarm| *space <= alarm.space);
            let space_ns = Some(self.spaced_ns(*space));
            let mut grown = || growth(&replay(Some(Policy { wait_ns, space_ns })).p99, alone);
            !is_alarming && grown() <= HARM_MOST
        };
        (0..LONGEST).find(|space| is_fine(space)).unwrap_or(LONGEST)
    }

    fn spaced_ns(&self, space: usize) -> u64 {
        let seeks = SPACES.get(space).copied().unwrap_or(SPACES[LONGEST]);
        (self.seek_ns * seeks as f64) as u64
    }

    /// Replays the samples with maintenance, or without if `policy` is `None`.
    fn replay(
        &self,
        policy: Option<Policy>,
        judged: &dyn Fn(&Sample) -> bool,
        latencies: &mut Vec<u64>,
    ) -> Replayed {
        let (mut starts, mut gained_ns) = (0, 0u64);
        let mut free_ns = self.samples.front().map_or(0, |first| first.came_ns);
        latencies.clear();
        for (sample, spread) in self.samples.iter().zip(spread()) {
            if let Some(policy) = policy {
                let start_at_ns = free_ns.saturating_add(policy.wait_ns);
                if let Some(into_ns) = sample.came_ns.checked_sub(start_at_ns) {
                    starts += 1;
                    let gain_ns = into_ns.saturating_sub(self.seek_ns as u64);
                    gained_ns = gained_ns.saturating_add(gain_ns);
                    let met_ns = self.met_ns(policy, into_ns, spread);
                    free_ns = sample.came_ns.saturating_add(met_ns);
                }
            }
            free_ns = free_ns
                .max(sample.came_ns)
                .saturating_add(sample.service_ns);
            if judged(sample) {
                latencies.push(free_ns.saturating_sub(sample.came_ns));
            }
        }
        Replayed {
            p99: percentiles(latencies),
            starts,
            gained_ns,
        }
    }

    /// Returns how long a user waits for maintenance that began `into_ns` before it.
    fn met_ns(&self, policy: Policy, into_ns: u64, spread: f64) -> u64 {
        let seek_ns = self.seek_ns.max(1.0) as u64;
        let Some(streamed_ns) = into_ns.checked_sub(seek_ns) else {
            return seek_ns - into_ns;
        };
        let in_order_ns = (2.0 * self.residue_ns() * spread) as u64;
        let Some(space_ns) = policy.space_ns else {
            return in_order_ns;
        };
        // A cycle has two seeks: to the other place and back.
        let cycle_ns = space_ns.saturating_add(seek_ns.saturating_mul(2));
        match (streamed_ns % cycle_ns).checked_sub(space_ns) {
            None => in_order_ns,
            Some(seeking_ns) => seek_ns - seeking_ns % seek_ns,
        }
    }
}

/// Evenly spread numbers from 0 to 1, the same in each replay.
fn spread() -> impl Iterator<Item = f64> {
    let mut at = 0u32;
    std::iter::repeat_with(move || {
        at = at.wrapping_add(2_654_435_769);
        f64::from(at) / f64::from(u32::MAX)
    })
}

/// Returns the factor by which the 99th percentile grew: the median of the parts.
fn growth(with: &Percentiles, alone: &Percentiles) -> f64 {
    let mut grown: Vec<f64> = std::iter::zip(with, alone)
        .map(|(with, alone)| *with as f64 / (*alone).max(1) as f64)
        .collect();
    grown.sort_by(f64::total_cmp);
    let (least, most) = (grown.len().saturating_sub(1) / 2, grown.len() / 2);
    let middle = |at: usize| grown.get(at).copied().unwrap_or(1.0);
    f64::midpoint(middle(least), middle(most))
}

/// Returns the 99th percentile of each part of the latencies.
fn percentiles(latencies: &mut [u64]) -> Percentiles {
    let parts = (latencies.len() / PART_LEAST).clamp(1, PARTS_MAX);
    let each = latencies.len().div_ceil(parts).max(1);
    latencies.chunks_mut(each).map(p99_of).collect()
}

/// Returns the 99th percentile; 0 if there are no latencies.
fn p99_of(latencies: &mut [u64]) -> u64 {
    let beyond = latencies.len() / 100;
    let Some(at) = latencies.len().checked_sub(beyond + 1) else {
        return 0;
    };
    *latencies.select_nth_unstable(at).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SchedulerSettings;

    const MS: u64 = 1_000_000;

    fn disk() -> Grace {
        Grace::new(
            SchedulerSettings::DISK.grace,
            SchedulerSettings::DISK.costs.seek_ns,
        )
    }

    /// Serves users who arrive at `came`: 8 ms each, one after another, plus `delay`.
    fn serve(grace: &mut Grace, came: impl Iterator<Item = u64>, delay: impl Fn(u64) -> u64) {
        let mut free = grace.last_end_ns;
        for (nth, came) in (0..).zip(came) {
            let delay = delay(nth);
            if delay > 0 {
                grace.maintenance_completed(came + delay);
            }
            free = free.max(came + delay) + 8 * MS;
            grace.user_completed(true, came, free);
        }
    }

    #[test]
    fn what_users_would_have_had_is_computed_from_what_they_had() {
        let mut grace = disk();
        let mut without = |came_ns, now_ns| {
            grace.user_completed(true, came_ns, now_ns);
            grace.samples.back().expect("it was added").without_ns
        };
        // Without maintenance each keeps its latency.
        assert_eq!(without(100, 108), 8);
        assert_eq!(without(104, 116), 12);
        // Maintenance from 200 to 210 delays requests that arrive at 203 and 206 and take 8 each.
        // The one at 225 waits for the rest.
        grace.maintenance_completed(210);
        let mut without = |came_ns, now_ns| {
            grace.user_completed(true, came_ns, now_ns);
            grace.samples.back().expect("it was added").without_ns
        };
        assert_eq!(without(203, 218), 8);
        assert_eq!(without(206, 226), 13);
        assert_eq!(without(225, 234), 8);
    }

    #[test]
    fn rare_users_are_hardly_waited_for_and_steady_ones_are_not_disturbed() {
        let mut grace = disk();
        let begin = 1000 * MS;
        serve(&mut grace, (0..1000).map(|n| begin + n * 500 * MS), |_| 0);
        // Each of them meets a contiguous piece, none a start.
        assert_eq!(grace.ns(), SchedulerSettings::DISK.grace.least_ns);
        // A client that asks again 10 ms after its answer meets each start with a shorter wait.
        let begin = grace.last_end_ns;
        serve(&mut grace, (1..1001).map(|n| begin + n * 18 * MS), |_| 0);
        assert!(grace.ns() > 10 * MS, "{} ns", grace.ns());
        // The load changes again.
        let begin = grace.last_end_ns;
        serve(&mut grace, (1..6001).map(|n| begin + n * 500 * MS), |_| 0);
        assert_eq!(grace.ns(), SchedulerSettings::DISK.grace.least_ns);
    }

    #[test]
    fn harm_that_the_replay_does_not_see_makes_the_wait_longer() {
        let mut grace = disk();
        let far = |n: u64| 1000 * MS + n * 500 * MS;
        serve(&mut grace, (0..1000).map(far), |_| 0);
        assert_eq!(grace.ns(), SchedulerSettings::DISK.grace.least_ns);
        let delay = |n| if n % 20 == 0 { 8 * MS } else { 0 };
        serve(&mut grace, (1000..5000).map(far), delay);
        assert!(grace.harm() > 1.9, "{}", grace.harm());
        let cautious = (grace.ns(), grace.space_ns());
        assert!(
            cautious
                > (
                    SchedulerSettings::DISK.grace.least_ns,
                    SchedulerSettings::DISK.costs.seek_ns
                ),
            "{cautious:?}"
        );
        serve(&mut grace, (5000..40_000).map(far), delay);
        assert!(grace.ns() > cautious.0);
        serve(&mut grace, (40_000..100_000).map(far), |_| 0);
        assert_eq!(
            grace.ns(),
            SchedulerSettings::DISK.grace.least_ns,
            "it was long ago"
        );
        assert!(grace.harm() < 1.01);
    }

    #[test]
    fn a_burst_does_not_hide_what_is_done_to_those_after_it() {
        let mut grace = disk();
        // Five hundred at once: their 99th percentile is seconds with or without maintenance.
        serve(&mut grace, (0..500).map(|_| 1000 * MS), |_| 0);
        // Then a client asks again 1 to 60 ms after its answer: one request in eight meets a seek
        // that begins after 4 ms.
        let mut at = grace.last_end_ns;
        let gaps = spread().map(|gap| 9 * MS + (gap * 59.0 * MS as f64) as u64);
        let came = gaps.take(1500).map(|gap| {
            at += gap;
            at
        });
        serve(&mut grace, came, |_| 0);
        assert!(grace.ns() > 10 * MS, "{} ns", grace.ns());
    }

    #[test]
    fn harm_to_few_requests_is_chance() {
        let mut grace = disk();
        let far = |n: u64| 1000 * MS + n * 500 * MS;
        let delay = |n| if n % 20 == 0 { 8 * MS } else { 0 };
        serve(&mut grace, (0..750).map(far), delay);
        assert!(grace.harm() > 1.9, "{}", grace.harm());
        assert_eq!(
            (grace.ns(), grace.space),
            (SchedulerSettings::DISK.grace.least_ns, 0)
        );
    }

    #[test]
    fn harm_at_the_longest_wait_forbids_no_shorter_one() {
        let mut grace = disk();
        let delay = |n| if n % 20 == 0 { 8 * MS } else { 0 };
        // No start pays, so the wait is the longest. Delays raise the space to the longest too.
        let near = (1..20_001).map(|n| 1000 * MS + n * 18 * MS);
        serve(&mut grace, near, delay);
        assert!(grace.harm() > HARM_ALARM, "{}", grace.harm());
        assert_eq!(grace.ns(), SchedulerSettings::DISK.grace.most_ns);
        let begin = grace.last_end_ns;
        serve(&mut grace, (1..6001).map(|n| begin + n * 500 * MS), |_| 0);
        assert!(grace.ns() < SchedulerSettings::DISK.grace.most_ns / 2);
    }

    #[test]
    fn nothing_is_known_at_first() {
        let grace = disk();
        assert_eq!(grace.ns(), SchedulerSettings::DISK.grace.most_ns);
        assert_eq!(grace.space_ns(), 64 * SchedulerSettings::DISK.costs.seek_ns);
    }

    #[test]
    fn a_fast_device_does_not_replay_all_the_time() {
        let mut grace = Grace::new(
            SchedulerSettings::SSD.grace,
            SchedulerSettings::SSD.costs.seek_ns,
        );
        let begin_ns = 10_000 * MS;
        // A hundred thousand requests in a second.
        let replays = (0..100_000u64).filter(|n| {
            let came_ns = begin_ns + n * 10_000;
            grace.user_completed(true, came_ns, came_ns + 5000);
            grace.new == 0
        });
        assert_eq!(replays.count(), 1);
    }

    #[test]
    fn the_wait_stays_within_its_limits_whatever_comes() {
        let limits = GraceLimits {
            least_ns: 3,
            most_ns: 50,
        };
        let mut grace = Grace::new(limits, 1 << 40);
        let mut now = 0u64;
        for n in 0..3000u64 {
            now = now.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
            grace.took(n % 3 == 0, now);
            grace.maintenance_completed(now >> (n % 64));
            grace.user_completed(n % 2 == 0, now >> (n % 11), now >> (n % 7));
            assert!((3..=50).contains(&grace.ns()));
        }
    }
}

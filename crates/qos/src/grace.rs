//! How long a device must be without users before maintenance moves its head: learned per device and load.
//!
//! What hurts a user is the seek that it meets, not the bytes: once the head is there, maintenance goes on in
//! short contiguous pieces and stops at any arrival. So two things are to choose: how long to wait before the
//! first seek, and how long to stream or rest between two seeks of reads that are not contiguous.
//!
//! Both are the longest at first, and then learned. The last few thousand requests of users are replayed
//! (Lindley's recursion for one server) without maintenance, and with maintenance that starts after each wait of
//! a ladder. The shortest wait is chosen at which the 99th percentile grows by no more than [`HARM_MOST`] and at
//! which starts bring more than they cost; then, in the same way, the shortest time between seeks. What a seek
//! takes is measured. What maintenance really did to the 99th percentile is measured too: more than
//! [`HARM_ALARM`] makes both longer whatever the replay says, for a while.
//!
//! Invariant: pure; the wait stays within [`GraceLimits`]. Called by the scheduler.

use std::collections::VecDeque;

/// Bounds of the wait, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraceLimits {
    /// The shortest.
    pub least_ns: u64,
    /// The longest.
    pub most_ns: u64,
}

impl GraceLimits {
    /// A wait that is not learned.
    pub const fn fixed(ns: u64) -> Self {
        Self {
            least_ns: ns,
            most_ns: ns,
        }
    }
}

/// Requests of users that are replayed: forty of them are beyond the 99th percentile.
const REPLAYED: usize = 4000;
/// Requests are judged in so many parts, each of at least [`PART_LEAST`], by the median of these parts: over all of
/// them together a burst, whose requests wait for each other anyway, would hide what those before and after it suffer.
const PARTS_MAX: usize = 4;
const PART_LEAST: usize = 250;
/// New ones between two replays: so many, or a share of those that are known.
const REPLAY_EVERY: (usize, usize) = (250, 4);
/// ... and so much time: replays take a millisecond or two, under the lock of the device's queue.
const REPLAY_EVERY_NS: u64 = 1_000_000_000;
/// By so much the 99th percentile may grow in a replay; the bar for users is 1.2.
const HARM_MOST: f64 = 1.14;
/// ... and by so much as it was measured.
const HARM_ALARM: f64 = 1.17;
/// ... over so many requests at least.
const ALARM_SAMPLES: usize = 1000;
/// Replays for which an alarm is remembered.
const ALARM_LASTS: u32 = 40;
/// A start must bring this share of what it costs, at least, in time of the device that follows it.
const GAIN_LEAST: f64 = 0.25;
/// Waits of the ladder are this far apart.
const RUNG: f64 = 1.4;
/// Times between seeks, in seeks.
const SPACES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const LONGEST: usize = SPACES.len() - 1;
/// Of a mean, the weight of one new piece is one of so many.
const PIECES: f64 = 32.0;

/// A request of a user that is done.
#[derive(Clone, Copy)]
struct Sample {
    came_ns: u64,
    /// Time of the device.
    service_ns: u64,
    latency_ns: u64,
    /// Latency that it would have had without maintenance.
    without_ns: u64,
    is_client: bool,
}

/// See the module's head.
pub(crate) struct Grace {
    limits: GraceLimits,
    ns: u64,
    /// Between two seeks, nanoseconds and as a place in [`SPACES`].
    space_ns: u64,
    space: usize,
    /// Time of the device that a seek and its first piece take, in the mean.
    seek_ns: f64,
    /// ... and the mean and the mean square of contiguous pieces.
    piece_ns: (f64, f64),
    samples: VecDeque<Sample>,
    new: usize,
    /// When the samples were replayed last.
    replayed_ns: u64,
    /// When anything was done last.
    last_end_ns: u64,
    /// Without maintenance the device would have been free again at this time.
    free_ns: u64,
    harm: f64,
    alarm: Option<Alarm>,
}

/// What did harm, though a replay had let it pass: no shorter times for so many replays.
struct Alarm {
    wait_ns: u64,
    space: usize,
    replays: u32,
}

/// When maintenance runs in a replay.
#[derive(Clone, Copy)]
struct Policy {
    wait_ns: u64,
    /// `None`: one task that reads in order, so no seeks but the first of each gap.
    space_ns: Option<u64>,
}

/// What a replay gave.
struct Replayed {
    p99: Percentiles,
    starts: u64,
    /// Time after starts that maintenance had.
    gained_ns: u64,
}

/// The 99th percentile of each part of the samples, nanoseconds.
type Percentiles = Vec<u64>;

impl Grace {
    /// A seek is thought to take `seek_ns` at first. Until something is learned the wait and the time between
    /// seeks are the longest: those who ask first must not pay for what is not known.
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

    /// How long to stream or rest between two seeks.
    pub fn space_ns(&self) -> u64 {
        self.space_ns
    }

    /// What maintenance did to the 99th percentile of clients' latencies when it was judged last, as a factor.
    pub fn harm(&self) -> f64 {
        self.harm
    }

    /// A piece took so long at the device: one for which the head had to move, or a contiguous one.
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

    /// What is left of a piece that a user meets, in the mean: long ones are met more often.
    fn residue_ns(&self) -> f64 {
        let (mean, mean_square) = self.piece_ns;
        mean_square / (2.0 * mean.max(1.0))
    }

    pub fn maintenance_completed(&mut self, now_ns: u64) {
        self.last_end_ns = now_ns;
    }

    /// Time of the device that a request had which came then and is done now.
    pub fn service_ns(&self, came_ns: u64, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.last_end_ns.max(came_ns))
    }

    /// A user's request that came at `came_ns` is done.
    pub fn user_completed(&mut self, is_client: bool, came_ns: u64, now_ns: u64) {
        let service_ns = self.service_ns(came_ns, now_ns);
        self.last_end_ns = now_ns;
        // Never later than it was.
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
        // Who has no clients looks at everybody.
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
        // Of few requests the 99th percentile is chance; with the longest of both the harm is not theirs.
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
        // With the longest time between seeks it was the waits that did harm.
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

    /// A place in [`SPACES`].
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

    /// The samples again, with maintenance; `None`: without any.
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

    /// How long a user waits for what is at the device, who comes so long after maintenance began.
    fn met_ns(&self, policy: Policy, into_ns: u64, spread: f64) -> u64 {
        let seek_ns = self.seek_ns.max(1.0) as u64;
        let Some(streamed_ns) = into_ns.checked_sub(seek_ns) else {
            return seek_ns - into_ns;
        };
        let in_order_ns = (2.0 * self.residue_ns() * spread) as u64;
        let Some(space_ns) = policy.space_ns else {
            return in_order_ns;
        };
        // Out and back.
        let cycle_ns = space_ns.saturating_add(seek_ns.saturating_mul(2));
        match (streamed_ns % cycle_ns).checked_sub(space_ns) {
            None => in_order_ns,
            Some(seeking_ns) => seek_ns - seeking_ns % seek_ns,
        }
    }
}

/// Numbers from 0 to 1 that are evenly spread, the same in each replay.
fn spread() -> impl Iterator<Item = f64> {
    let mut at = 0u32;
    std::iter::repeat_with(move || {
        at = at.wrapping_add(2_654_435_769);
        f64::from(at) / f64::from(u32::MAX)
    })
}

/// By how much the 99th percentile grew, as a factor: the median of the parts.
fn growth(with: &Percentiles, alone: &Percentiles) -> f64 {
    let mut grown: Vec<f64> = std::iter::zip(with, alone)
        .map(|(with, alone)| *with as f64 / (*alone).max(1) as f64)
        .collect();
    grown.sort_by(f64::total_cmp);
    let (least, most) = (grown.len().saturating_sub(1) / 2, grown.len() / 2);
    let middle = |at: usize| grown.get(at).copied().unwrap_or(1.0);
    f64::midpoint(middle(least), middle(most))
}

/// The 99th percentile of each part of the latencies.
fn percentiles(latencies: &mut [u64]) -> Percentiles {
    let parts = (latencies.len() / PART_LEAST).clamp(1, PARTS_MAX);
    let each = latencies.len().div_ceil(parts).max(1);
    latencies.chunks_mut(each).map(p99_of).collect()
}

/// The 99th percentile; 0 of nothing.
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
    use crate::settings::Settings;

    const MS: u64 = 1_000_000;

    fn disk() -> Grace {
        Grace::new(Settings::DISK.grace, Settings::DISK.costs.seek_ns)
    }

    /// Of users who came at `came`, each served in 8 ms after what was there, and delayed by `delay` besides.
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
        // Alone: each is as it was.
        assert_eq!(without(100, 108), 8);
        assert_eq!(without(104, 116), 12);
        // A step of maintenance from 200 to 210 delays two that come at 203 and 206, of 8 each, and the one at 225
        // by as much as was left.
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
        // Each of them comes at a piece, none at a start.
        assert_eq!(grace.ns(), Settings::DISK.grace.least_ns);
        // One that asks again 10 ms after its answer meets each start that is made before.
        let begin = grace.last_end_ns;
        serve(&mut grace, (1..1001).map(|n| begin + n * 18 * MS), |_| 0);
        assert!(grace.ns() > 10 * MS, "{} ns", grace.ns());
        // The load has changed again.
        let begin = grace.last_end_ns;
        serve(&mut grace, (1..6001).map(|n| begin + n * 500 * MS), |_| 0);
        assert_eq!(grace.ns(), Settings::DISK.grace.least_ns);
    }

    #[test]
    fn harm_that_the_replay_does_not_see_makes_the_wait_longer() {
        let mut grace = disk();
        let far = |n: u64| 1000 * MS + n * 500 * MS;
        serve(&mut grace, (0..1000).map(far), |_| 0);
        assert_eq!(grace.ns(), Settings::DISK.grace.least_ns);
        let delay = |n| if n % 20 == 0 { 8 * MS } else { 0 };
        serve(&mut grace, (1000..5000).map(far), delay);
        assert!(grace.harm() > 1.9, "{}", grace.harm());
        let cautious = (grace.ns(), grace.space_ns());
        assert!(
            cautious > (Settings::DISK.grace.least_ns, Settings::DISK.costs.seek_ns),
            "{cautious:?}"
        );
        serve(&mut grace, (5000..40_000).map(far), delay);
        assert!(grace.ns() > cautious.0);
        serve(&mut grace, (40_000..100_000).map(far), |_| 0);
        assert_eq!(grace.ns(), Settings::DISK.grace.least_ns, "it was long ago");
        assert!(grace.harm() < 1.01);
    }

    #[test]
    fn a_burst_does_not_hide_what_is_done_to_those_after_it() {
        let mut grace = disk();
        // Five hundred at once: their 99th percentile is seconds, whatever maintenance does.
        serve(&mut grace, (0..500).map(|_| 1000 * MS), |_| 0);
        // Then one that asks again 1 to 60 ms after its answer: one in eight meets a seek that begins after 4 ms.
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
    fn nothing_is_known_at_first() {
        let grace = disk();
        assert_eq!(grace.ns(), Settings::DISK.grace.most_ns);
        assert_eq!(grace.space_ns(), 64 * Settings::DISK.costs.seek_ns);
    }

    #[test]
    fn a_fast_device_does_not_replay_all_the_time() {
        let mut grace = Grace::new(Settings::SSD.grace, Settings::SSD.costs.seek_ns);
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

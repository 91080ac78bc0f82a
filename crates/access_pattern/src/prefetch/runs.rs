//! Remembers how long runs of requests become: how many reached each power of two. The planner
//! asks it whether a stream is likely to go on.
//!
//! Invariant: pure. Without evidence every run is expected to go on.

/// Runs are counted from this length on, as a power of two: 4 KiB.
const SHIFT_MIN: u32 = 12;
/// Number of lengths; the last is the limit of windows, 4 MiB.
const LENGTHS: usize = 11;
/// After this many runs each count is halved, so that the last few hundred decide.
const RUNS_MAX: u16 = 256;
/// Runs of any length before the first. About a dozen short ones outweigh them.
const RUNS_ASSUMED: u16 = 8;

/// For each length, the number of runs that reached it.
#[derive(Clone)]
pub(super) struct RunLengths {
    reached: [u16; LENGTHS],
}

impl Default for RunLengths {
    fn default() -> Self {
        Self {
            reached: [RUNS_ASSUMED; LENGTHS],
        }
    }
}

/// Returns the number of the largest counted length that a run of so many bytes has reached.
fn number_of(bytes: u64) -> usize {
    let number = bytes.max(1).ilog2().saturating_sub(SHIFT_MIN);
    (number as usize).min(LENGTHS - 1)
}

impl RunLengths {
    /// A run grew from `before` to `now` bytes; `None`: it begins.
    pub fn note(&mut self, before: Option<u64>, now: u64) {
        let first = before.map_or(0, |before| number_of(before) + 1);
        for count in self.reached.iter_mut().take(number_of(now) + 1).skip(first) {
            *count += 1;
        }
        if self.reached.iter().any(|count| *count >= RUNS_MAX) {
            self.reached.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Returns how many of the next `wanted` bytes a run of `bytes` is likely to read: as much as
    /// half of the runs read that came so far. 0: most ended here. One or two runs are no evidence.
    pub fn likely_more(&self, bytes: u64, wanted: u64) -> u64 {
        let count = |number| self.reached.get(number).copied().unwrap_or(0);
        let came_so_far = count(number_of(bytes));
        let is_likely = |more: &u64| {
            let whole = bytes.saturating_add(*more).checked_next_power_of_two();
            (count(number_of(whole.unwrap_or(u64::MAX))) + 1) * 2 >= came_so_far
        };
        let halves = (0..u64::BITS).map(|n| wanted >> n);
        let mut halves = halves.take_while(|wanted| *wanted >= 1 << SHIFT_MIN);
        halves.find(is_likely).unwrap_or(0)
    }
}

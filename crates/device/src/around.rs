//! Decides when a disk with arms reads the surroundings of a random read too. The arm is there
//! already, and the system's page cache keeps what comes with it. [`super::PacedDisk`] calls this.
//!
//! Files are divided into windows. The last ones are remembered, read or not, with the parts of
//! them that clients asked for: so it is known what reading them saved, or would have saved.
//!
//! Invariant: bookkeeping in bounded memory, no I/O. If surroundings do not pay, reads cost what
//! they cost without this.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Length of a window, bytes: it is read in about the time of two moves of the arm.
pub(super) const WINDOW_BYTES: u64 = 2 << 20;
/// Number of windows that are remembered. The page cache should have space for them.
const WINDOWS_MAX: usize = 128;
/// A window must save so many reads to pay.
const SAVED_MIN: u32 = 2;
/// Credit at the start, and its limits on both sides: so many reads may be saved, or windows of
/// half as many may save none, before the opinion changes.
const CREDIT_MAX: i32 = 32;
/// One of so many windows is read after the read for which it is read: the time of that read alone
/// tells whether the device has arms.
const SINGLE_ONE_IN: u64 = 8;

/// Decision about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surroundings {
    /// Read nothing else.
    Leave,
    /// Its window was read not long ago: the arm need not move.
    Here,
    /// Read the window that begins here, then the bytes themselves.
    ReadBefore(u64),
    /// Read the bytes, then the window.
    ReadAfter(u64),
}

struct Window {
    file: u64,
    number: u64,
    /// A bit for each 64th of it that was asked for.
    asked: u64,
    is_read: bool,
}

#[derive(Default)]
struct WindowTracker {
    windows: VecDeque<Window>,
    /// Reads saved, less what the windows cost; see [`CREDIT_MAX`].
    credit: i32,
    windows_read: u64,
}

/// See the module's head.
pub(super) struct Around {
    state: Mutex<WindowTracker>,
    files: AtomicU64,
}

impl Default for Around {
    fn default() -> Self {
        let credit = CREDIT_MAX;
        Self {
            state: Mutex::new(WindowTracker {
                credit,
                ..WindowTracker::default()
            }),
            files: AtomicU64::new(0),
        }
    }
}

impl Around {
    /// Returns the number of a file that is opened.
    pub fn new_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes a random read at `offset` of a file, and decides on its surroundings.
    pub fn of(&self, file: u64, offset: u64) -> Surroundings {
        let number = offset / WINDOW_BYTES;
        let part = 1u64 << (offset % WINDOW_BYTES * 64 / WINDOW_BYTES);
        let mut state = self.state.lock();
        let WindowTracker {
            windows,
            credit,
            windows_read,
        } = &mut *state;
        let is_it = |w: &&mut Window| w.number == number && w.file == file;
        let known = windows.iter_mut().rev().find(is_it);
        let reads = match known {
            Some(window) => {
                if window.asked & part == 0 {
                    window.asked |= part;
                    *credit = (*credit + 1).min(CREDIT_MAX);
                }
                if window.is_read {
                    return Surroundings::Here;
                }
                // It has paid already: so will the rest of it.
                window.is_read = window.asked.count_ones() > SAVED_MIN;
                window.is_read
            }
            None => {
                *credit = (*credit - SAVED_MIN as i32).max(-CREDIT_MAX);
                if windows.len() >= WINDOWS_MAX {
                    windows.pop_front();
                }
                let is_read = *credit > 0;
                windows.push_back(Window {
                    file,
                    number,
                    asked: part,
                    is_read,
                });
                is_read
            }
        };
        if !reads {
            return Surroundings::Leave;
        }
        *windows_read += 1;
        let start = number * WINDOW_BYTES;
        match windows_read.is_multiple_of(SINGLE_ONE_IN) {
            true => Surroundings::ReadAfter(start),
            false => Surroundings::ReadBefore(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many windows were read for these reads of one file, and of its whole reads those
    /// that found their window read.
    fn count(around: &Around, offsets: impl Iterator<Item = u64>) -> (usize, usize) {
        let all: Vec<_> = offsets.map(|offset| around.of(7, offset)).collect();
        let here = all.iter().filter(|s| **s == Surroundings::Here).count();
        let left = all.iter().filter(|s| **s == Surroundings::Leave).count();
        (all.len() - here - left, here)
    }

    /// A generator that is good enough to be no pattern.
    fn noise(range: u64) -> impl Iterator<Item = u64> {
        let next = |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        std::iter::successors(Some(1), next).map(move |x| (x >> 20) % range)
    }

    #[test]
    fn reads_near_each_other_share_a_window() {
        let around = Around::default();
        // Ten reads in each of 200 places, as a boot does.
        let places = (0..200).flat_map(|n| (0..10).map(move |m| n * (16 << 20) + m * (150 << 10)));
        assert_eq!(count(&around, places), (200, 1800));
        assert_ne!(around.of(8, 0), Surroundings::Here, "another file");
    }

    #[test]
    fn reads_that_lie_nowhere_near_each_other_stay_alone() {
        let around = Around::default();
        let (read, _) = count(&around, noise(4 << 30).take(10_000));
        assert!(read < 100, "{read} windows for 10,000 reads");
        // A neighbourhood among them is found all the same, after two single reads.
        let mut far = noise(4 << 30).skip(10_000);
        let mut places = (0..40).flat_map(|m| [(64 << 30) + m * (40 << 10), far.next().unwrap()]);
        let (read, here) = count(&around, &mut places);
        assert_eq!((read, here), (1, 37));
    }

    #[test]
    fn one_window_in_eight_comes_after_a_read_whose_time_counts() {
        let around = Around::default();
        let of = |n: u64| {
            for m in 1..4 {
                around.of(0, n * WINDOW_BYTES + m * (100 << 10));
            }
            around.of(0, (n + 1) * WINDOW_BYTES)
        };
        let after = (0..64).filter(|n| matches!(of(*n), Surroundings::ReadAfter(_)));
        assert_eq!(after.count(), 8);
    }
}

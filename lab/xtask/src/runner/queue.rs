//! Runs jobs side by side: first those that may have others beside them, then the others one after
//! the other.

use super::job::{Ended, Job};
use super::scratch::Scratch;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// Runs all of `jobs`, each group in its order, and calls `say` as each ends. Returns how they
/// ended, in the order of their ends.
pub fn run(jobs: Vec<Job>, scratch: &Scratch, mut say: impl FnMut(&Ended)) -> Vec<Ended> {
    let (alone, beside): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.is_alone);
    let mut ended = side_by_side(beside, width(), scratch, &mut say);
    ended.extend(side_by_side(alone, 1, scratch, &mut say));
    ended
}

/// Number of jobs at a time: `QUINTET_TEST_JOBS`, or two for each processor, as scripts wait for
/// half of their time.
fn width() -> usize {
    let asked = std::env::var("QUINTET_TEST_JOBS")
        .ok()
        .and_then(|text| text.parse().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or(2 * processors).max(1)
}

fn side_by_side(
    jobs: Vec<Job>,
    width: usize,
    scratch: &Scratch,
    say: &mut impl FnMut(&Ended),
) -> Vec<Ended> {
    let waiting = Mutex::new(VecDeque::from(jobs));
    let next = || {
        waiting
            .lock()
            .expect("no worker panics with it")
            .pop_front()
    };
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..width {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(job) = next() {
                    let _ = sender.send(scratch.with_folder(|folder| job.run(folder)));
                }
            });
        }
        drop(sender);
        receiver.into_iter().inspect(|ended| say(ended)).collect()
    })
}

//! Writer lock of a served pool, a fair queue that can be interrupted. [`super::ServerState`] calls
//! this.
//!
//! Invariant: one writer has the lock. Waiters get it in the order of their arrival. A waiter that
//! gives up leaves the queue and does not change the order of the others.

use parking_lot::Mutex;
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use terminal::interrupt::{Interrupt, Interrupted};

/// The writer lock and its queue.
#[derive(Default)]
pub struct WriterLock(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// Name of the writer that has the lock.
    holder: Option<String>,
    number: u64,
    /// Waiters in order.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    name: String,
    /// The lock is passed to the waiter by writing a byte to its socket.
    call: UnixStream,
}

/// A writer that asks for the lock.
pub struct Asking<'a> {
    /// Its name, for those who wait for it.
    pub name: &'a str,
    /// Ends its wait.
    pub interrupt: &'a Interrupt,
    /// Longest wait. `None`: as long as it takes.
    pub limit: Option<Duration>,
}

/// Why a writer did not get the lock.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// Another writer had it to the end of the wait.
    #[error("{holder} writes to this pool")]
    Busy {
        /// Name of the other writer.
        holder: String,
    },
    /// The writer was asked to stop, or cannot wait.
    #[error(transparent)]
    Stopped(#[from] io::Error),
}

/// Ownership of the writer lock. Dropping it passes the lock to the next waiter.
pub struct WriterGuard(Arc<WriterLock>);

impl WriterLock {
    /// Waits for the lock. Calls `waiting` with the name of the writer that has it, if one does.
    pub fn take(
        lock: &Arc<Self>,
        asking: &Asking<'_>,
        waiting: impl FnOnce(&str),
    ) -> Result<WriterGuard, NotTaken> {
        let mut queue = lock.0.lock();
        let Some(holder) = queue.holder.clone() else {
            queue.holder = Some(asking.name.to_owned());
            drop(queue);
            return Ok(WriterGuard(Arc::clone(lock)));
        };
        if asking.limit.is_some_and(|limit| limit.is_zero()) {
            return Err(NotTaken::Busy { holder });
        }
        let (called, call) = UnixStream::pair().map_err(NotTaken::Stopped)?;
        queue.number += 1;
        let number = queue.number;
        queue.waiting.push_back(Waiter {
            number,
            name: asking.name.to_owned(),
            call,
        });
        drop(queue);
        waiting(&holder);
        let waited = match asking.limit {
            Some(limit) => asking
                .interrupt
                .wait_for_within(&called, PollFlags::IN, limit),
            None => asking
                .interrupt
                .wait_for(&called, PollFlags::IN)
                .map(|()| true),
        };
        let mut queue = lock.0.lock();
        let before = queue.waiting.len();
        queue.waiting.retain(|waiter| waiter.number != number);
        let was_called = queue.waiting.len() == before;
        let holder = queue.holder.clone().unwrap_or(holder);
        drop(queue);
        // A waiter that left the queue by a call owns the lock. If it was also interrupted,
        // dropping the value passes the lock on.
        let guard = was_called.then(|| WriterGuard(Arc::clone(lock)));
        let in_time = waited?;
        match guard {
            Some(guard) => Ok(guard),
            None if in_time => Err(io::Error::other(Interrupted).into()),
            None => Err(NotTaken::Busy { holder }),
        }
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let mut queue = self.0.0.lock();
        match queue.waiting.pop_front() {
            // The waiter polls the other end of this socket.
            Some(mut waiter) => {
                let _ = waiter.call.write_all(&[1]);
                queue.holder = Some(waiter.name);
            }
            None => queue.holder = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn asking<'a>(name: &'a str, interrupt: &'a Interrupt, limit: Option<Duration>) -> Asking<'a> {
        Asking {
            name,
            interrupt,
            limit,
        }
    }

    #[test]
    fn the_lock_goes_in_order_and_past_those_that_left() {
        let lock = Arc::new(WriterLock::default());
        let never = Interrupt::of_command().unwrap();
        let none = |_: &str| panic!("nobody is before");
        let first = WriterLock::take(&lock, &asking("first", &never, None), none).unwrap();
        let (say, said) = channel();
        let mut waiters = Vec::new();
        for number in 0..3 {
            let (lock, say) = (Arc::clone(&lock), say.clone());
            let interrupt = Interrupt::of_command().unwrap();
            let (queue, queued) = channel();
            waiters.push((
                interrupt.clone(),
                std::thread::spawn(move || {
                    let waiting = |holder: &str| queue.send(holder.to_owned()).unwrap();
                    let asking = asking("later", &interrupt, None);
                    let guard = WriterLock::take(&lock, &asking, waiting);
                    if guard.is_ok() {
                        say.send(number).unwrap();
                    }
                    guard.is_ok()
                }),
            ));
            assert_eq!(queued.recv().unwrap(), "first");
        }
        waiters[1].0.request();
        let (_, left) = waiters.remove(1);
        assert!(!left.join().unwrap());
        assert!(said.try_recv().is_err());
        drop(first);
        assert!(
            waiters
                .into_iter()
                .all(|(_, waiter)| waiter.join().unwrap())
        );
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [0, 2]);
        let free = |_: &str| panic!("all turns were given back");
        WriterLock::take(&lock, &asking("last", &never, None), free).unwrap();
    }

    #[test]
    fn a_wait_that_is_over_names_the_writer_and_leaves_the_queue() {
        let lock = Arc::new(WriterLock::default());
        let never = Interrupt::of_command().unwrap();
        let first = WriterLock::take(&lock, &asking("first", &never, None), |_| ()).unwrap();
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            let asking = asking("second", &never, Some(limit));
            let refused = WriterLock::take(&lock, &asking, |_| ()).err().unwrap();
            assert!(matches!(refused, NotTaken::Busy { holder } if holder == "first"));
        }
        drop(first);
        let none = |_: &str| panic!("nobody is before");
        WriterLock::take(&lock, &asking("third", &never, None), none).unwrap();
    }
}

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
use terminal::interrupt::{Interrupt, Interrupted};

/// The writer lock and its queue.
#[derive(Default)]
pub struct WriterLock(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    taken: bool,
    number: u64,
    /// Waiters in order. The lock is passed to a waiter by writing a byte to its socket.
    waiting: VecDeque<(u64, UnixStream)>,
}

/// Ownership of the writer lock. Dropping it passes the lock to the next waiter.
pub struct WriterGuard(Arc<WriterLock>);

impl WriterLock {
    /// Waits for the lock. Calls `waiting` if another writer has it.
    ///
    /// Fails when `interrupt` is requested.
    pub fn take(
        lock: &Arc<Self>,
        interrupt: &Interrupt,
        waiting: impl FnOnce(),
    ) -> io::Result<WriterGuard> {
        let mut queue = lock.0.lock();
        if !queue.taken {
            queue.taken = true;
            drop(queue);
            return Ok(WriterGuard(Arc::clone(lock)));
        }
        let (called, call) = UnixStream::pair()?;
        queue.number += 1;
        let number = queue.number;
        queue.waiting.push_back((number, call));
        drop(queue);
        waiting();
        let waited = interrupt.wait_for(&called, PollFlags::IN);
        let mut queue = lock.0.lock();
        let before = queue.waiting.len();
        queue.waiting.retain(|(other, _)| *other != number);
        let was_called = queue.waiting.len() == before;
        drop(queue);
        // A waiter that left the queue by a call owns the lock. If it was also interrupted,
        // dropping the value passes the lock on.
        let guard = was_called.then(|| WriterGuard(Arc::clone(lock)));
        waited?;
        guard.ok_or_else(|| io::Error::other(Interrupted))
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let mut queue = self.0.0.lock();
        match queue.waiting.pop_front() {
            // The waiter polls the other end of this socket.
            Some((_, mut call)) => {
                let _ = call.write_all(&[1]);
            }
            None => queue.taken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn turns_go_in_order_and_past_those_who_left() {
        let lock = Arc::new(WriterLock::default());
        let none = || panic!("nobody is before");
        let first = WriterLock::take(&lock, &Interrupt::of_command().unwrap(), none).unwrap();
        let (say, said) = channel();
        let mut waiters = Vec::new();
        for number in 0..3 {
            let (lock, say) = (Arc::clone(&lock), say.clone());
            let interrupt = Interrupt::of_command().unwrap();
            let (queue, queued) = channel();
            waiters.push((
                interrupt.clone(),
                std::thread::spawn(move || {
                    let guard = WriterLock::take(&lock, &interrupt, || queue.send(()).unwrap());
                    if guard.is_ok() {
                        say.send(number).unwrap();
                    }
                    guard.is_ok()
                }),
            ));
            queued.recv().unwrap();
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
        let free = || panic!("all turns were given back");
        WriterLock::take(&lock, &Interrupt::of_command().unwrap(), free).unwrap();
    }
}

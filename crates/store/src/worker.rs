//! A thread that works on items in order, for a caller that reads the next item from the device
//! meanwhile. Garbage collection and scrub use it.
//!
//! Invariant: results come out in the order in which items went in. Dropping it waits for the item
//! in work.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// See the module's head.
pub struct Worker<I, O> {
    /// Dropped to end the thread.
    items: Option<Sender<I>>,
    results: Receiver<O>,
    thread: Option<JoinHandle<()>>,
}

impl<I: Send + 'static, O: Send + 'static> Worker<I, O> {
    /// Starts the thread.
    pub fn start(
        name: &str,
        mut work: impl FnMut(I) -> O + Send + 'static,
    ) -> std::io::Result<Self> {
        let (items, to_do) = channel::<I>();
        let (done, results) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            for item in to_do {
                if done.send(work(item)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            items: Some(items),
            results,
            thread: Some(thread),
        })
    }

    /// Passes an item on; returns it if the thread has ended.
    pub fn give(&self, item: I) -> Result<(), I> {
        match &self.items {
            Some(items) => items.send(item).map_err(|back| back.0),
            None => Err(item),
        }
    }

    /// Waits for the oldest result. `None`: the thread has ended.
    pub fn take(&self) -> Option<O> {
        self.results.recv().ok()
    }
}

impl<I, O> Drop for Worker<I, O> {
    fn drop(&mut self) {
        self.items = None;
        if let Some(thread) = self.thread.take() {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_and_a_lost_thread_is_noticed() {
        let worker = Worker::start("double", |n: u32| {
            assert!(n < 100, "ends the thread");
            n * 2
        });
        let Ok(worker) = worker else {
            return;
        };
        (0..3).for_each(|n| assert_eq!(worker.give(n), Ok(())));
        assert_eq!(
            (0..3).map_while(|_| worker.take()).collect::<Vec<_>>(),
            [0, 2, 4]
        );
        assert_eq!(worker.give(100), Ok(()));
        assert_eq!(worker.take(), None);
    }
}

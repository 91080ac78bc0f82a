//! A thread beside a server's clients that ends when this is dropped.
//!
//! Invariant: whoever drops it waits until the thread has seen the wish to stop. Called by the verifier, the
//! defragger and the reclaimer.

use crate::interrupt::Interrupt;
use std::io;
use std::thread::JoinHandle;

/// See the module's head.
pub struct Background {
    interrupt: Interrupt,
    wake: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs `work` until `interrupt`, which it looks at, is requested; `wake` ends a rest of it that the
    /// interrupt does not.
    pub fn start(
        name: &str,
        interrupt: Interrupt,
        work: impl FnOnce() + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)?;
        Ok(Self {
            interrupt,
            wake: Box::new(wake),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.interrupt.request();
        (self.wake)();
        if let Some(thread) = self.thread.take() {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

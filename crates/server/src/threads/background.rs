//! Handle of a background thread, which ends when the handle is dropped. The threads of maintenance
//! tasks and of checkpoints call this.
//!
//! Invariant: dropping the handle waits until the thread has ended.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;
use terminal::interrupt::Interrupt;

/// Handle of a background thread. See the module's head.
pub struct Background {
    interrupt: Interrupt,
    wake: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs `work` on a new thread. `work` must end soon after `interrupt` is requested. `wake`
    /// must end a wait of `work` that the interrupt does not end.
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

    /// Does `work`, which is short, after each interval.
    pub(super) fn periodic(
        name: &str,
        interval: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let interrupt = Interrupt::of_command()?;
        let stop = interrupt.clone();
        let run = move || {
            while !stop.wait(interval) {
                work();
            }
        };
        Self::start(name, interrupt, run, || {})
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

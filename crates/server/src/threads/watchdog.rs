//! The thread that tells the service manager that this process is not stuck.
//!
//! Invariant: it says so only as long as it is so: what every client needs first, the list of
//! exports, can be made. Called by `serve`.

use crate::exports::HeldExports;
use crate::systemd::Notifier;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// See the module's head. Dropping it ends the thread.
pub struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Says it so often.
    pub fn start(
        notifier: &Arc<Notifier>,
        interval: Duration,
        exports: Arc<HeldExports>,
    ) -> io::Result<Self> {
        let notifier = Arc::clone(notifier);
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    drop(exports.names());
                    notifier.say("WATCHDOG=1");
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

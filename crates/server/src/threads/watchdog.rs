//! The thread that tells the service manager that this process is not stuck. `serve` starts it.
//!
//! Invariant: it reports only while it can make the list of exports, which every new client needs
//! first. A deadlock there stops the reports.

use crate::exports::ServerExports;
use crate::systemd::Notifier;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Handle of the thread. Dropping it ends the thread.
pub struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Reports at this interval.
    pub fn start(
        notifier: &Arc<Notifier>,
        interval: Duration,
        exports: Arc<ServerExports>,
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

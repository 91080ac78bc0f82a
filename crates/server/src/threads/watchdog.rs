//! The thread that tells the service manager that this process is not stuck. `serve` starts it.
//!
//! Invariant: it reports only while it can make the list of exports, which every new client needs
//! first. A deadlock there stops the reports.

use super::background::Background;
use crate::exports::ServerExports;
use crate::systemd::Notifier;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Reports at this interval.
pub fn start(
    notifier: &Arc<Notifier>,
    interval: Duration,
    exports: Arc<ServerExports>,
) -> io::Result<Background> {
    let notifier = Arc::clone(notifier);
    Background::periodic("watchdog", interval, move || {
        drop(exports.names());
        notifier.say("WATCHDOG=1");
    })
}

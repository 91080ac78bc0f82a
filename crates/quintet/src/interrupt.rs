//! Signals as flags: stop (SIGINT, SIGTERM) and "say how far you are" (SIGUSR1).
//!
//! Invariant: a handler only sets a flag; drivers poll it between bounded steps and leave the pool
//! as it was committed last. A second signal ends the process at once, which loses no stored byte.

use crate::exit::Exit;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The user asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// A shared view of the flags.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
}

impl Interrupt {
    /// Flags that only [`Interrupt::request`] raises: for tests.
    pub fn detached() -> Self {
        Self::default()
    }

    /// Takes over the signals. Once a process, at its start.
    pub fn install() -> io::Result<Self> {
        use signal_hook::flag;
        let flags = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and raises it.
            let code = i32::from(Exit::Interrupted.code());
            flag::register_conditional_shutdown(signal, code, Arc::clone(&flags.stop))?;
            flag::register(signal, Arc::clone(&flags.stop))?;
        }
        flag::register(SIGUSR1, Arc::clone(&flags.report))?;
        Ok(flags)
    }

    /// The user asked to stop.
    pub fn requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Fails when the user asked to stop: for `?` between steps.
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.requested() {
            true => Err(Interrupted),
            false => Ok(()),
        }
    }

    /// As if the user had asked.
    pub fn request(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for rooms that know only a flag.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// True once for each time that the user asked how far we are.
    pub fn take_report_request(&self) -> bool {
        self.report.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_raise_flags() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.take_report_request());
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        assert!(interrupt.take_report_request());
        assert!(!interrupt.take_report_request());
        assert_eq!(interrupt.check(), Ok(()));
        signal_hook::low_level::raise(SIGINT).unwrap();
        assert_eq!(interrupt.check(), Err(Interrupted));
    }
}

//! Stop requests (SIGINT, SIGTERM, SIGHUP) and progress requests (SIGUSR1) as flags. Commands,
//! tasks and threads poll them.
//!
//! Invariant: a signal handler only sets a flag and writes a byte. Long work polls the flag between
//! bounded steps and leaves the pool as it was last committed. Waits for a descriptor wait for the
//! byte too. A second signal ends the process at once, which loses no stored byte. Commands that a
//! server runs for clients have their own flags, which signals do not set.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The user asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Signals that ask this process to stop. SIGHUP, which a closed terminal sends, is one of them
/// unless the process was started to ignore it (`nohup`).
pub fn stop_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let ignores_hangup = ignored.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0);
    let hangup = (!ignores_hangup).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup).collect()
}

/// Shared handle of the flags.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
    wake: Option<Arc<Wake>>,
}

/// A socket pair that becomes and stays readable once the flag is set.
#[derive(Debug)]
struct Wake {
    raised: UnixStream,
    raise: UnixStream,
}

impl Wake {
    fn new() -> io::Result<Self> {
        let (raised, raise) = UnixStream::pair()?;
        raise.set_nonblocking(true)?;
        Ok(Self { raised, raise })
    }
}

impl Interrupt {
    /// Makes flags that only [`Interrupt::request`] sets and that end no wait: for tests.
    pub fn detached() -> Self {
        Self::default()
    }

    /// Makes flags that only [`Interrupt::request`] and [`Interrupt::request_report`] set.
    pub fn of_command() -> io::Result<Self> {
        Ok(Self {
            wake: Some(Arc::new(Wake::new()?)),
            ..Self::default()
        })
    }

    /// Installs the signal handlers. Called once, at the start of the process. A second signal ends
    /// the process with `exit_code`.
    pub fn install(exit_code: u8) -> io::Result<Self> {
        use signal_hook::{flag, low_level::pipe};
        let flags = Self::of_command()?;
        for signal in stop_signals() {
            // The order matters: the shutdown handler must see the flag before the first signal
            // sets it.
            let code = i32::from(exit_code);
            flag::register_conditional_shutdown(signal, code, Arc::clone(&flags.stop))?;
            flag::register(signal, Arc::clone(&flags.stop))?;
            if let Some(wake) = &flags.wake {
                pipe::register(signal, wake.raise.try_clone()?)?;
            }
        }
        flag::register(SIGUSR1, Arc::clone(&flags.report))?;
        Ok(flags)
    }

    /// Returns true if the user asked to stop.
    pub fn requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Fails if the user asked to stop: for `?` between steps.
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.requested() {
            true => Err(Interrupted),
            false => Ok(()),
        }
    }

    /// Sets the stop flag and ends waits.
    pub fn request(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(wake) = &self.wake {
            // If the socket is full, it is readable already.
            let _ = (&wake.raise).write(&[1]);
        }
    }

    /// Sets the progress flag.
    pub fn request_report(&self) {
        self.report.store(true, Ordering::Relaxed);
    }

    /// Waits this long, or until a stop request. Returns true after a stop request.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.requested() || left.is_zero() {
                return self.requested();
            }
            let raised = self.wake.iter();
            let mut fds: Vec<PollFd<'_>> = raised
                .map(|wake| PollFd::new(&wake.raised, PollFlags::IN))
                .collect();
            // A poll that fails or ends early is repeated until the time is over.
            let left = Timespec::try_from(left).ok();
            let _ = poll(&mut fds, left.as_ref());
        }
    }

    /// Waits until a descriptor is ready. Fails when the user asks to stop.
    pub fn wait_for(&self, fd: impl AsFd, ready: PollFlags) -> io::Result<()> {
        self.wait_until(fd, ready, None).map(|_| ())
    }

    /// The same, but for this long at most. Returns false if the time is over.
    pub fn wait_for_within(
        &self,
        fd: impl AsFd,
        ready: PollFlags,
        time: Duration,
    ) -> io::Result<bool> {
        self.wait_until(fd, ready, Some(Instant::now() + time))
    }

    fn wait_until(
        &self,
        fd: impl AsFd,
        ready: PollFlags,
        until: Option<Instant>,
    ) -> io::Result<bool> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            let fd = PollFd::new(&fd, ready);
            let polled = match &self.wake {
                Some(wake) => {
                    let mut fds = [fd, PollFd::new(&wake.raised, PollFlags::IN)];
                    poll(&mut fds, limit.as_ref()).map(|_| fds.map(|fd| !fd.revents().is_empty()))
                }
                None => poll(&mut [fd], limit.as_ref()).map(|ready| [ready > 0, false]),
            };
            match polled {
                // A ready descriptor takes precedence, so that final messages are still written.
                Ok([true, _]) => return Ok(true),
                Ok([_, true]) => return Err(io::Error::other(Interrupted)),
                Ok(_) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Returns the stop flag itself, for crates that only know a flag.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Returns true once after each progress request.
    pub fn take_report_request(&self) -> bool {
        self.report.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_raise_flags() {
        let interrupt = Interrupt::install(130).unwrap();
        assert!(!interrupt.take_report_request());
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        assert!(interrupt.take_report_request());
        assert!(!interrupt.take_report_request());
        assert_eq!(interrupt.check(), Ok(()));
        let (silent, _other) = UnixStream::pair().unwrap();
        let waiting = interrupt.clone();
        let waiter = std::thread::spawn(move || waiting.wait_for(&silent, PollFlags::IN));
        signal_hook::low_level::raise(SIGINT).unwrap();
        assert_eq!(interrupt.check(), Err(Interrupted));
        let ended = waiter.join().unwrap().unwrap_err();
        assert!(ended.get_ref().is_some_and(|e| e.is::<Interrupted>()));
    }

    #[test]
    fn time_passes_until_a_stop_request() {
        let interrupt = Interrupt::of_command().unwrap();
        assert!(!interrupt.wait(Duration::from_millis(10)));
        let waiting = interrupt.clone();
        let waiter = std::thread::spawn(move || waiting.wait(Duration::from_secs(1000)));
        interrupt.request();
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn what_is_ready_comes_before_the_wish_to_stop() {
        let interrupt = Interrupt::of_command().unwrap();
        let (to, mut from) = UnixStream::pair().unwrap();
        from.write_all(b"x").unwrap();
        interrupt.request();
        interrupt.wait_for(&to, PollFlags::IN).unwrap();
        assert!(interrupt.wait_for(&from, PollFlags::IN).is_err());
    }
}

//! What a service and systemd say to each other: `Type=notify`, the watchdog, socket activation.
//!
//! Invariant: without systemd's variables nothing is said and nothing taken; what cannot be said is
//! not worth failing for once the service runs. (sd_notify(3), sd_listen_fds(3).) Called by `serve`.

use crate::settings::{Environment, SettingError};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::ffi::OsStr;
use std::io;
use std::num::ParseIntError;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// First descriptor that a service manager hands over.
const LISTEN_FIRST: i32 = 3;
/// More is nonsense.
const LISTEN_MAX: i32 = 16;

/// Why what a service manager says was not understood.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Its socket cannot be used.
    #[error("NOTIFY_SOCKET")]
    Notify(#[source] io::Error),
    /// How often it wants to hear of us is no number.
    #[error("WATCHDOG_USEC")]
    Watchdog(#[source] ParseIntError),
    /// How many sockets it opened is no number.
    #[error("LISTEN_FDS")]
    Sockets(#[source] ParseIntError),
    /// A socket that it opened is not there.
    #[error("LISTEN_FDS")]
    Socket(#[source] io::Error),
    /// A variable is not text.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Tells the service manager how things are.
pub struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    /// From `NOTIFY_SOCKET`.
    pub fn of(environment: &Environment) -> Result<Self, ServiceError> {
        let Some(place) = environment.value("NOTIFY_SOCKET") else {
            return Ok(Self(None));
        };
        let connected =
            address(place).and_then(|address| Ok(Self(Some((UnixDatagram::unbound()?, address)))));
        connected.map_err(ServiceError::Notify)
    }

    /// Says `READY=1` and the like, one or more lines.
    pub fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            // Nobody listens any more, or not now: nothing depends on it.
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

fn address(place: &OsStr) -> io::Result<SocketAddr> {
    match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(place),
    }
}

/// Meant for this process, or for no process by number.
fn is_ours(environment: &Environment, name: &str) -> Result<bool, SettingError> {
    let pid = environment.text(name)?;
    Ok(pid.is_none_or(|pid| pid.trim() == getpid().as_raw_pid().to_string()))
}

/// How often the service manager wants to hear `WATCHDOG=1`, at least; half of what it said.
pub fn watchdog_interval(environment: &Environment) -> Result<Option<Duration>, ServiceError> {
    let Some(text) = environment.text("WATCHDOG_USEC")? else {
        return Ok(None);
    };
    if !is_ours(environment, "WATCHDOG_PID")? {
        return Ok(None);
    }
    let us: u64 = text.trim().parse().map_err(ServiceError::Watchdog)?;
    Ok((us > 0).then(|| Duration::from_micros(us / 2)))
}

/// Listening sockets that the service manager opened for us.
pub fn listening_sockets(environment: &Environment) -> Result<Vec<OwnedFd>, ServiceError> {
    let Some(text) = environment.text("LISTEN_FDS")? else {
        return Ok(Vec::new());
    };
    if !is_ours(environment, "LISTEN_PID")? {
        return Ok(Vec::new());
    }
    let count: i32 = text.trim().parse().map_err(ServiceError::Sockets)?;
    let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(io::Error::from)?;
    (LISTEN_FIRST..LISTEN_FIRST + count.clamp(0, LISTEN_MAX))
        // A copy: who owns a descriptor by its number, the compiler does not know.
        .map(|fd| {
            let taken = pidfd_getfd(&own, fd, PidfdGetfdFlags::empty());
            taken.map_err(|e| ServiceError::Socket(e.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_what() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("notify");
        let listener = UnixDatagram::bind(&place).unwrap();
        let environment = Environment::of(&[("NOTIFY_SOCKET", place.to_str().unwrap())]);
        Notifier::of(&environment).unwrap().say("READY=1\nSTATUS=x");
        let mut said = [0; 100];
        let count = listener.recv(&mut said).unwrap();
        assert_eq!(&said[..count], b"READY=1\nSTATUS=x");
        Notifier::of(&Environment::default()).unwrap().say("x");
        drop(listener);
        Notifier::of(&environment).unwrap().say("nobody listens");
    }

    #[test]
    fn variables_of_others_are_not_ours() {
        let us = |pairs: &[(&str, &str)]| watchdog_interval(&Environment::of(pairs)).unwrap();
        assert_eq!(us(&[]), None);
        assert_eq!(us(&[("WATCHDOG_USEC", "0")]), None);
        let half = Some(Duration::from_secs(1));
        assert_eq!(us(&[("WATCHDOG_USEC", "2000000")]), half);
        let pid = getpid().as_raw_pid().to_string();
        let own = [("WATCHDOG_USEC", "2000000"), ("WATCHDOG_PID", &pid)];
        assert_eq!(us(&own), half);
        let other = [("WATCHDOG_USEC", "2000000"), ("WATCHDOG_PID", "1")];
        assert_eq!(us(&other), None);
        let fds = |pairs: &[(&str, &str)]| listening_sockets(&Environment::of(pairs));
        assert_eq!(fds(&[]).unwrap().len(), 0);
        let other = [("LISTEN_FDS", "1"), ("LISTEN_PID", "1")];
        assert_eq!(fds(&other).unwrap().len(), 0);
        assert!(fds(&[("LISTEN_FDS", "many")]).is_err());
    }
}

//! The protocol between a service and systemd: `Type=notify`, the watchdog, socket activation
//! (sd_notify(3), sd_listen_fds(3)). `serve` calls this.
//!
//! Invariant: without systemd's variables, nothing is sent or accepted. A notification that cannot
//! be sent is ignored, because the service works without it.

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::ffi::OsStr;
use std::io;
use std::num::ParseIntError;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use terminal::environment::{Environment, SettingError};

/// First descriptor that a service manager passes.
const LISTEN_FIRST: i32 = 3;
/// Maximum number of descriptors. A larger number is a mistake.
const LISTEN_MAX: i32 = 16;

/// Error in the variables or sockets of a service manager.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The notification socket cannot be used.
    #[error("cannot use NOTIFY_SOCKET")]
    Notify(#[source] io::Error),
    /// The watchdog interval is not a number.
    #[error("invalid WATCHDOG_USEC")]
    Watchdog(#[source] ParseIntError),
    /// The number of sockets is not a number.
    #[error("invalid LISTEN_FDS")]
    Sockets(#[source] ParseIntError),
    /// A passed socket does not exist.
    #[error("cannot use a socket of LISTEN_FDS")]
    Socket(#[source] io::Error),
    /// A variable is not text.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Sends notifications to the service manager.
pub struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    /// Makes a notifier from `NOTIFY_SOCKET`.
    pub fn of(environment: &Environment) -> Result<Self, ServiceError> {
        let Some(place) = environment.value("NOTIFY_SOCKET") else {
            return Ok(Self(None));
        };
        let connected =
            address(place).and_then(|address| Ok(Self(Some((UnixDatagram::unbound()?, address)))));
        connected.map_err(ServiceError::Notify)
    }

    /// Sends a state, such as `READY=1`, one or more lines.
    pub fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            // The service does not depend on the service manager: errors are ignored.
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

/// Returns true if the variables are meant for this process: their process id is ours or not set.
fn is_ours(environment: &Environment, name: &str) -> Result<bool, SettingError> {
    let pid = environment.text(name)?;
    Ok(pid.is_none_or(|pid| pid.trim() == getpid().as_raw_pid().to_string()))
}

/// Returns the interval of `WATCHDOG=1`: half of the service manager's limit. `None` without a
/// watchdog.
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

/// A listening socket of the service manager.
pub struct PassedSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Its name (`FileDescriptorName=`). Empty if the service manager passed no names.
    pub name: String,
}

/// Returns the listening sockets that the service manager passed.
pub fn listening_sockets(environment: &Environment) -> Result<Vec<PassedSocket>, ServiceError> {
    let Some(text) = environment.text("LISTEN_FDS")? else {
        return Ok(Vec::new());
    };
    if !is_ours(environment, "LISTEN_PID")? {
        return Ok(Vec::new());
    }
    let count: i32 = text.trim().parse().map_err(ServiceError::Sockets)?;
    let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(io::Error::from)?;
    let names = environment.text("LISTEN_FDNAMES")?.unwrap_or_default();
    let names = names.split(':').map(str::to_owned);
    (LISTEN_FIRST..LISTEN_FIRST + count.clamp(0, LISTEN_MAX))
        .zip(names.chain(std::iter::repeat(String::new())))
        // Copies each descriptor: safe code cannot take ownership of one by its number.
        .map(|(fd, name)| {
            let socket = pidfd_getfd(&own, fd, PidfdGetfdFlags::empty());
            let socket = socket.map_err(|e| ServiceError::Socket(e.into()))?;
            Ok(PassedSocket { socket, name })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_recipients() {
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

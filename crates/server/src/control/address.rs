//! Binds and connects the control socket: `control` in the pool's directory. The two ends of the
//! control socket call this.
//!
//! Invariant: the socket is reached through a handle of its directory, so the length of the path
//! does not matter, and never through a symbolic link. A client knows the user of the listening
//! process before it sends a byte. Only the holder of the pool's lock binds: a socket that exists
//! then is stale. The socket has its mode from the start.

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

const NAME: &str = "control";
const BACKLOG: i32 = 64;

/// Handle of the directory of a control socket.
pub(super) struct Place(OwnedFd);

impl Place {
    /// Opens the directory of a pool.
    pub fn of(pool: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(pool, flags, Mode::empty())?))
    }

    /// Binds and listens. The caller must hold the pool's lock.
    pub fn listen(&self) -> io::Result<UnixListener> {
        self.remove()?;
        let socket = socket()?;
        // The socket file gets the mode of the bound socket: no other user can connect at any
        // moment. The name is resolved below the handle, so no symbolic link is followed.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let path = format!("/proc/self/fd/{}/{NAME}", self.0.as_raw_fd());
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(UnixListener::from(socket))
    }

    /// Removes the socket file. The caller must still hold the pool's lock.
    pub fn remove(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Connects. `None` if no process listens, or if this user may not connect.
    fn connect(&self, limit: Duration) -> io::Result<Option<UnixStream>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = match rustix::fs::openat(&self.0, NAME, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
            opened => opened?,
        };
        let found = rustix::fs::fstat(&name)?;
        // A link could lead to the socket of another service.
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_nlink > 1 {
            let why =
                format!("{NAME} in the pool's directory is not a socket of this pool; remove it");
            return Err(io::Error::other(why));
        }
        let socket = socket()?;
        // Without this limit, a process that listens but never accepts would block this one for
        // ever.
        set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
        let path = format!("/proc/self/fd/{}", name.as_raw_fd());
        match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::ACCESS | Errno::NOENT) => return Ok(None),
            Err(Errno::AGAIN) => {
                let why = "it does not answer; check whether the server hangs, or stop it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(e) => return Err(e.into()),
        }
        set_socket_timeout(&socket, Timeout::Recv, Some(limit))?;
        // The kernel recorded these credentials when the process began to listen.
        let peer = socket_peercred(&socket)?;
        let own = rustix::process::geteuid();
        match stranger(peer.uid.as_raw(), own.as_raw()) {
            None => Ok(Some(UnixStream::from(socket))),
            Some(why) => {
                let process = peer.pid.as_raw_pid();
                Err(io::Error::other(format!("{why} (process {process})")))
            }
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    Ok(socket?)
}

/// Returns why nothing may be sent to user `peer`: requests carry secrets and a terminal.
fn stranger(peer: u32, own: u32) -> Option<String> {
    (peer != own && peer != 0).then(|| {
        format!(
            "a process of user {peer} answers, and this is user {own}; nothing was sent. If that process is your server, \
             run this as user {peer}. Else stop it and remove {NAME} in the pool's directory"
        )
    })
}

/// Connects to the pool's server. `None` if there is none, or none that this user may ask.
///
/// `limit` bounds connecting and each later send and receive on the stream. A server of a user
/// other than this one and root is an error.
pub(super) fn connect(pool: &Path, limit: Duration) -> io::Result<Option<UnixStream>> {
    match Place::of(pool) {
        Ok(place) => place.connect(limit),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(60);

    fn listen(pool: &Path) -> UnixListener {
        Place::of(pool).unwrap().listen().unwrap()
    }

    #[test]
    fn long_paths_and_dead_servers() {
        let top = tempfile::tempdir().unwrap();
        let pool = top.path().join("x".repeat(100)).join("y".repeat(100));
        assert!(connect(&pool, LIMIT).unwrap().is_none());
        std::fs::create_dir_all(&pool).unwrap();
        assert!(connect(&pool, LIMIT).unwrap().is_none());
        let listener = listen(&pool);
        assert!(connect(&pool, LIMIT).unwrap().is_some());
        let mode = pool.join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listener);
        assert!(pool.join(NAME).symlink_metadata().is_ok());
        assert!(connect(&pool, LIMIT).unwrap().is_none());
        let _again = listen(&pool);
        assert!(connect(&pool, LIMIT).unwrap().is_some());
        Place::of(&pool).unwrap().remove().unwrap();
        assert!(connect(&pool, LIMIT).unwrap().is_none());
    }

    #[test]
    fn what_is_no_socket_of_its_own_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let (pool, other) = (top.path().join("pool"), top.path().join("other"));
        std::fs::create_dir(&pool).unwrap();
        let elsewhere = UnixListener::bind(&other).unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let refused = || connect(&pool, LIMIT).unwrap_err().to_string();
        std::os::unix::fs::symlink(&other, pool.join(NAME)).unwrap();
        assert!(refused().contains("not a socket"));
        std::fs::remove_file(pool.join(NAME)).unwrap();
        std::fs::hard_link(&other, pool.join(NAME)).unwrap();
        assert!(refused().contains("not a socket"));
        std::fs::remove_file(pool.join(NAME)).unwrap();
        std::fs::write(pool.join(NAME), "x").unwrap();
        assert!(refused().contains("not a socket"));
        assert!(elsewhere.accept().is_err(), "nobody came");
        // Binding replaces the name and leaves the target of a link alone.
        std::fs::remove_file(pool.join(NAME)).unwrap();
        std::os::unix::fs::symlink(&other, pool.join(NAME)).unwrap();
        let before = other.metadata().unwrap().permissions();
        let _listener = listen(&pool);
        assert!(connect(&pool, LIMIT).unwrap().is_some());
        assert_eq!(other.metadata().unwrap().permissions(), before);
    }

    #[test]
    fn who_never_accepts_holds_nobody() {
        let top = tempfile::tempdir().unwrap();
        let bound = socket().unwrap();
        let address = SocketAddrUnix::new(top.path().join(NAME)).unwrap();
        rustix::net::bind(&bound, &address).unwrap();
        rustix::net::listen(&bound, 0).unwrap();
        let limit = Duration::from_millis(200);
        let started = Instant::now();
        let mut waiting = Vec::new();
        let refused = loop {
            match connect(top.path(), limit) {
                Ok(stream) => waiting.push(stream),
                Err(e) => break e,
            }
            assert!(waiting.len() < 100);
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn only_ones_own_and_roots_servers_are_told_anything() {
        assert_eq!(stranger(1000, 1000), None);
        assert_eq!(stranger(0, 1000), None);
        assert_eq!(stranger(0, 0), None);
        let why = stranger(1000, 0).unwrap();
        assert!(why.contains("user 1000") && why.contains("nothing was sent"));
        assert!(stranger(1001, 1000).is_some());
    }
}

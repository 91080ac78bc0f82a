//! Where the control socket is: `control` in the pool's directory.
//!
//! Invariant: pools whose paths are too long for a socket's address are reached through a handle of
//! their directory. Only who holds the pool's lock binds: what is there then is stale.

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const NAME: &str = "control";
/// Longest path that a socket's address holds with its end, bytes.
const PATH_BYTES_MAX: usize = 107;
const BACKLOG: i32 = 64;

/// A path that is short enough, for as long as this lives.
struct Address {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl Address {
    fn of(pool: &Path) -> io::Result<Self> {
        let path = pool.join(NAME);
        if path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(pool, flags, Mode::empty())?;
        let short = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd());
        Ok(Self {
            path: short.into(),
            _directory: Some(directory),
        })
    }
}

/// Reaches the pool's server; `None` when there is none, or none that this user may ask.
pub(super) fn connect(pool: &Path) -> io::Result<Option<UnixStream>> {
    let connected = Address::of(pool).and_then(|address| UnixStream::connect(&address.path));
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(e),
        },
    }
}

/// Listens for the commands of a pool. The caller holds the pool's lock.
pub(super) fn listen(pool: &Path) -> io::Result<UnixListener> {
    let address = Address::of(pool)?;
    remove_at(&address.path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&address.path)?)?;
    // Nobody can connect before it listens.
    rustix::fs::chmod(&address.path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Removes the socket. The caller still holds the pool's lock.
pub(super) fn remove(pool: &Path) -> io::Result<()> {
    remove_at(&Address::of(pool)?.path)
}

fn remove_at(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn long_paths_and_dead_servers() {
        let top = tempfile::tempdir().unwrap();
        let pool = top.path().join("x".repeat(100)).join("y".repeat(100));
        assert!(connect(&pool).unwrap().is_none());
        std::fs::create_dir_all(&pool).unwrap();
        assert!(connect(&pool).unwrap().is_none());
        let listener = listen(&pool).unwrap();
        assert!(connect(&pool).unwrap().is_some());
        let mode = pool.join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listener);
        assert!(pool.join(NAME).symlink_metadata().is_ok());
        assert!(connect(&pool).unwrap().is_none());
        let _again = listen(&pool).unwrap();
        assert!(connect(&pool).unwrap().is_some());
        remove(&pool).unwrap();
        assert!(connect(&pool).unwrap().is_none());
    }
}

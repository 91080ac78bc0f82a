//! Binds and connects the control socket: `control` in the pool's directory, or a name of the pool
//! in a directory for sockets, where the pool's file system has none. The two ends of the control
//! socket call this.
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
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const NAME: &str = "control";
const BACKLOG: i32 = 64;

/// Directory for the sockets of pools on file systems without sockets, if the user gave one.
static ELSEWHERE: OnceLock<PathBuf> = OnceLock::new();

/// Says where the sockets of pools on file systems without sockets are, for this process. Only
/// the first call counts. The default is `/run/quintet` or `/run/user/UID/quintet`.
pub fn sockets_are_in(directory: PathBuf) {
    let _ = ELSEWHERE.set(directory);
}

/// A control socket: the handle of its directory, and its name there.
pub(super) struct Place {
    directory: OwnedFd,
    name: String,
}

/// Binds and listens. The caller must hold the pool's lock.
pub(super) fn listen(pool: &Path) -> io::Result<(Place, UnixListener)> {
    let place = Place::of(pool)?;
    let refused = match place.listen() {
        Ok(listener) => return Ok((place, listener)),
        Err(e) if has_no_sockets(&e) => e,
        Err(e) => return Err(e),
    };
    let (own, set) = (own_user(), ELSEWHERE.get().map(PathBuf::as_path));
    for directory in directories(set, own) {
        if let Some(place) = place.elsewhere(&directory, own, true)? {
            return place.listen().map(|listener| (place, listener));
        }
    }
    let why = format!(
        "the pool's file system has no sockets ({}); set QUINTET_CONTROL_DIRECTORY to a directory of this user, for quintet serve \
         and for the commands that ask it",
        units::reason(&refused)
    );
    Err(io::Error::other(why))
}

/// Returns the directories in which the socket of a pool may be, if it is not beside the pool.
fn directories(set: Option<&Path>, own: u32) -> Vec<PathBuf> {
    match set {
        Some(set) => vec![set.into()],
        None => vec![
            PathBuf::from("/run/quintet"),
            PathBuf::from(format!("/run/user/{own}/quintet")),
        ],
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// SMB, exFAT and some FUSE answer so to a new socket; EIO comes of one that is a file afterwards.
fn has_no_sockets(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::IO)
    )
}

impl Place {
    /// Opens the directory of a pool.
    pub fn of(pool: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            directory: rustix::fs::open(pool, flags, Mode::empty())?,
            name: NAME.to_owned(),
        })
    }

    /// Returns the place of this pool's socket in a directory for sockets. `None` if there is no
    /// such directory, or if it is another user's: that user could put anything there.
    fn elsewhere(&self, directory: &Path, own: u32, makes: bool) -> io::Result<Option<Self>> {
        if makes {
            // Where this is impossible, there is none.
            let _ = rustix::fs::mkdir(directory, Mode::RWXU);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(directory, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => return Ok(None),
            opened => opened?,
        };
        let found = rustix::fs::fstat(&opened)?;
        let others = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        if others || (found.st_uid != own && (makes || found.st_uid != 0)) {
            return Ok(None);
        }
        // The server keeps the pool's directory open, so its number stays its own.
        let pool = rustix::fs::fstat(&self.directory)?;
        Ok(Some(Self {
            directory: opened,
            name: format!("{:x}-{:x}.control", pool.st_dev, pool.st_ino),
        }))
    }

    pub fn listen(&self) -> io::Result<UnixListener> {
        self.remove()?;
        let socket = socket()?;
        // The socket file gets the mode of the bound socket: no other user can connect at any
        // moment. The name is resolved below the handle, so no symbolic link is followed.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let path = format!("/proc/self/fd/{}/{}", self.directory.as_raw_fd(), self.name);
        if let Err(e) = rustix::net::bind(&socket, &SocketAddrUnix::new(path)?) {
            // Some (exFAT by FUSE) make a file instead, which is no socket.
            let _ = self.remove();
            return Err(e.into());
        }
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(UnixListener::from(socket))
    }

    /// Removes the socket file. The caller must still hold the pool's lock.
    pub fn remove(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, &*self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Connects. `None` if no process listens, or if this user may not connect.
    fn connect(&self, limit: Duration) -> io::Result<Option<UnixStream>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = match rustix::fs::openat(&self.directory, &*self.name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
            opened => opened?,
        };
        let found = rustix::fs::fstat(&name)?;
        // A link could lead to the socket of another service.
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_nlink > 1 {
            let why = format!(
                "{} is not a socket of this pool; remove it",
                self.name_in_words()
            );
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

impl Place {
    fn name_in_words(&self) -> String {
        match &*self.name {
            NAME => format!("{NAME} in the pool's directory"),
            name => format!("{name} in the directory for control sockets"),
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
        Ok(place) => connect_to(&place, limit),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(e),
        },
    }
}

fn connect_to(place: &Place, limit: Duration) -> io::Result<Option<UnixStream>> {
    if let Some(stream) = place.connect(limit)? {
        return Ok(Some(stream));
    }
    let (own, set) = (own_user(), ELSEWHERE.get().map(PathBuf::as_path));
    for directory in directories(set, own) {
        if let Some(other) = place.elsewhere(&directory, own, false)?
            && let Some(stream) = other.connect(limit)?
        {
            return Ok(Some(stream));
        }
    }
    Ok(None)
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
    fn a_socket_elsewhere_is_in_a_directory_of_ones_own() {
        let top = tempfile::tempdir().unwrap();
        let (pool, sockets) = (top.path().join("pool"), top.path().join("sockets"));
        std::fs::create_dir(&pool).unwrap();
        let place = Place::of(&pool).unwrap();
        let own = own_user();
        assert!(place.elsewhere(&sockets, own, false).unwrap().is_none());
        let other = place.elsewhere(&sockets, own, true).unwrap().unwrap();
        let listener = other.listen().unwrap();
        let again = place.elsewhere(&sockets, own, false).unwrap().unwrap();
        assert!(again.connect(LIMIT).unwrap().is_some());
        // Another pool's is another one.
        let second = Place::of(top.path()).unwrap();
        let second = second.elsewhere(&sockets, own, false).unwrap().unwrap();
        assert!(second.connect(LIMIT).unwrap().is_none());
        drop(listener);
        other.remove().unwrap();
        assert_eq!(sockets.read_dir().unwrap().count(), 0);
        // Where others may write, and where others are at home, nobody listens or asks.
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(place.elsewhere(&sockets, own, true).unwrap().is_none());
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(place.elsewhere(&sockets, own + 1, true).unwrap().is_none());
        assert_eq!(directories(Some(Path::new("/a")), 7), [Path::new("/a")]);
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
    fn a_server_that_never_accepts_holds_no_client() {
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
    fn only_ones_own_and_roots_servers_learn_anything() {
        assert_eq!(stranger(1000, 1000), None);
        assert_eq!(stranger(0, 1000), None);
        assert_eq!(stranger(0, 0), None);
        let why = stranger(1000, 0).unwrap();
        assert!(why.contains("user 1000") && why.contains("nothing was sent"));
        assert!(stranger(1001, 1000).is_some());
    }
}

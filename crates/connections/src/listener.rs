//! Makes and removes listening sockets, and accepts from them. Front ends make them, servers own
//! one each.
//!
//! Invariant: a unix socket never accepts before its mode is 0600. Only a socket that this process
//! made is removed. Accepting never waits: another process may share the socket and be faster.

use crate::acceptor::{Listening, prepare_tcp};
use crate::stream::ByteStream;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum bytes of a Unix socket's path (`sun_path` without its end).
const SOCKET_PATH_MAX: usize = 107;
const BACKLOG: i32 = 128;
/// Requested size of the send buffer, bytes; the system may give less.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Reason why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another running server uses this socket.
    #[error("another server listens on {}", .0.display())]
    SocketInUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// No Unix socket can have such a long path.
    #[error(
        "cannot listen on {}: the path has {} bytes, and that of a socket at most {SOCKET_PATH_MAX}; \
         choose a shorter one, such as below /run",
        .0.display(),
        .0.as_os_str().len()
    )]
    PathTooLong(PathBuf),
    /// The system refused an operation.
    #[error("cannot {doing}: {}", units::reason(source))]
    Io {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ListenError {
    /// Returns what makes an error of the system's error.
    pub fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A listening socket.
pub struct Listener {
    socket: Socket,
    /// Path to remove on drop.
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens on a unix socket that only this user can connect to. Replaces a socket that a dead
    /// server left.
    pub fn bind_unix(path: &Path) -> Result<Self, ListenError> {
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(ListenError::PathTooLong(path.to_owned()));
        }
        remove_stale(path)?;
        let io = |doing| move |error: rustix::io::Errno| ListenError::io(doing)(error.into());
        let flags = SocketFlags::CLOEXEC;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, flags, None);
        let socket = socket.map_err(io("create the socket"))?;
        let address = SocketAddrUnix::new(path).map_err(io("use the socket's path"))?;
        // The path gets the mode of the socket that is bound to it. Others can therefore connect at
        // no moment.
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::fchmod(&socket, mode).map_err(io("protect the socket"))?;
        rustix::net::bind(&socket, &address).map_err(io("bind the socket"))?;
        // From here on the path is ours, and drop removes it.
        let listener = Self {
            socket: Socket::Unix(UnixListener::from(socket)),
            path: Some(path.to_owned()),
        };
        rustix::net::listen(listener.fd(), BACKLOG).map_err(io("listen on the socket"))?;
        listener.prepare()
    }

    /// Listens on an address.
    pub fn bind_tcp(address: SocketAddr) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address);
        Self::from_tcp(listener.map_err(ListenError::io("listen on the address"))?)
    }

    /// Takes a unix socket that another process listens on (socket activation). It is not removed.
    pub fn from_unix(listener: UnixListener) -> Result<Self, ListenError> {
        let socket = Socket::Unix(listener);
        Self { socket, path: None }.prepare()
    }

    /// Takes a TCP socket that another process listens on (socket activation).
    pub fn from_tcp(listener: TcpListener) -> Result<Self, ListenError> {
        let socket = Socket::Tcp(listener);
        Self { socket, path: None }.prepare()
    }

    /// Makes accepting never wait: another process may share the socket and be faster.
    fn prepare(self) -> Result<Self, ListenError> {
        match &self.socket {
            Socket::Unix(listener) => listener.set_nonblocking(true),
            Socket::Tcp(listener) => listener.set_nonblocking(true),
        }
        .map_err(ListenError::io("set up the socket"))?;
        Ok(self)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Returns the address of a TCP socket, with the actual port if 0 was requested.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Unix(_) => None,
            Socket::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// Sets the time after which a silent client counts as vanished.
    pub(crate) fn until(self, vanished_limit: Duration) -> AcceptingListener {
        AcceptingListener {
            listener: self,
            vanished_limit,
        }
    }
}

/// A listener that accepts.
pub(crate) struct AcceptingListener {
    listener: Listener,
    vanished_limit: Duration,
}

/// A new connection.
pub(crate) struct Accepted {
    pub(crate) stream: Arc<dyn ByteStream>,
    /// Our address, as a TCP client sees it.
    pub(crate) local: Option<SocketAddr>,
    /// The TCP client's address.
    pub(crate) peer: Option<SocketAddr>,
}

impl Listening for AcceptingListener {
    type Accepted = Accepted;

    fn socket(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    fn accept(&self) -> io::Result<Accepted> {
        match &self.listener.socket {
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                let _ = sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
                Ok(Accepted {
                    stream: Arc::new(stream),
                    local: None,
                    peer: None,
                })
            }
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                prepare_tcp(&stream, self.vanished_limit)?;
                Ok(Accepted {
                    local: Some(stream.local_addr()?),
                    peer: Some(peer),
                    stream: Arc::new(stream),
                })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket that no process listens on any more.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.to_owned()));
    }
    // A listener that never accepts is also in use, and we do not wait for it.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let connected = rustix::net::socket_with(family, kind, flags, None)
        .and_then(|socket| rustix::net::connect(&socket, &SocketAddrUnix::new(path)?));
    match connected {
        Err(rustix::io::Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(ListenError::io("remove a dead server's socket"))
        }
        _ => Err(ListenError::SocketInUse(path.to_owned())),
    }
}

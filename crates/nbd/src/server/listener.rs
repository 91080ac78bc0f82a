//! Makes and removes listening sockets, and decides where plain NBD may be served. The server calls
//! this.
//!
//! Invariant: a unix socket never accepts before its mode is 0600. Only a socket that this process
//! made is removed.

use crate::error::{SOCKET_PATH_MAX, ServerError};
use connections::{Listening, Stream, prepare_tcp};
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

const BACKLOG: i32 = 128;
/// Requested size of the send buffer, bytes; the system may give less.
const SEND_BUFFER_BYTES: usize = 1 << 20;

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A socket to wait for and accept from.
pub(super) struct Listener {
    socket: Socket,
    /// Path to remove on drop.
    path: Option<PathBuf>,
}

impl Listener {
    pub(super) fn bind_unix(path: &Path) -> Result<Self, ServerError> {
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(ServerError::PathTooLong(path.to_owned()));
        }
        remove_stale(path)?;
        let io = |doing| move |error: rustix::io::Errno| ServerError::io(doing)(error.into());
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

    pub(super) fn bind_tcp(address: SocketAddr) -> Result<Self, ServerError> {
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address);
        Self::from_tcp(listener.map_err(ServerError::io("listen on the address"))?)
    }

    pub(super) fn from_unix(listener: UnixListener) -> Result<Self, ServerError> {
        let socket = Socket::Unix(listener);
        Self { socket, path: None }.prepare()
    }

    pub(super) fn from_tcp(listener: TcpListener) -> Result<Self, ServerError> {
        let address = listener.local_addr();
        let address = address.map_err(ServerError::io("get the address of the socket"))?;
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let socket = Socket::Tcp(listener);
        Self { socket, path: None }.prepare()
    }

    /// Makes accepting never wait: another process may share the socket and be faster.
    fn prepare(self) -> Result<Self, ServerError> {
        match &self.socket {
            Socket::Unix(listener) => listener.set_nonblocking(true),
            Socket::Tcp(listener) => listener.set_nonblocking(true),
        }
        .map_err(ServerError::io("set up the socket"))?;
        Ok(self)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }

    pub(super) fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Unix(_) => None,
            Socket::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// Sets the time after which a silent client counts as vanished.
    pub(super) fn until(self, vanished_limit: Duration) -> Accepting {
        Accepting {
            listener: self,
            vanished_limit,
        }
    }
}

/// A listener that accepts.
pub(super) struct Accepting {
    listener: Listener,
    vanished_limit: Duration,
}

impl Listening for Accepting {
    type Accepted = Arc<dyn Stream>;

    fn socket(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    fn accept(&self) -> io::Result<Arc<dyn Stream>> {
        match &self.listener.socket {
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                let _ = sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
                Ok(Arc::new(stream))
            }
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                prepare_tcp(&stream, self.vanished_limit)?;
                Ok(Arc::new(stream))
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
fn remove_stale(path: &Path) -> Result<(), ServerError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(ServerError::NotASocket(path.to_owned()));
    }
    // A listener that never accepts is also in use, and we do not wait for it.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let connected = rustix::net::socket_with(family, kind, flags, None)
        .and_then(|socket| rustix::net::connect(&socket, &SocketAddrUnix::new(path)?));
    match connected {
        Err(rustix::io::Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(ServerError::io("remove a dead server's socket"))
        }
        _ => Err(ServerError::SocketInUse(path.to_owned())),
    }
}

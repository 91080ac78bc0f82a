//! Waits for and accepts TCP connections. The server calls this.
//!
//! Invariant: accepting never waits: another process may share the socket and be faster.

use crate::error::ServerError;
use connections::Stream;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// A socket to wait for and accept from.
pub(super) struct Listener(TcpListener);

/// A new connection.
pub(super) struct Accepted {
    pub(super) stream: Arc<dyn Stream>,
    /// Our address, as the initiator sees it.
    pub(super) local: SocketAddr,
}

impl Listener {
    pub(super) fn new(listener: TcpListener) -> Result<Self, ServerError> {
        let ready = listener.set_nonblocking(true);
        ready.map_err(ServerError::io("set up the socket"))?;
        Ok(Self(listener))
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    /// Waits for a connection. Returns false when the other end of `woken` was closed.
    pub(super) fn wait(&self, woken: &UnixStream) -> bool {
        let mut fds = [
            PollFd::new(&self.0, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => fds[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Accepts a connection if there is one.
    pub(super) fn accept(&self, vanished_limit: Duration) -> io::Result<Option<Accepted>> {
        let accepted = self.0.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(false)?;
            // A batch of answers is one send, so waiting for more data only costs time.
            let _ = stream.set_nodelay(true);
            notice_vanished(&stream, vanished_limit);
            let local = stream.local_addr()?;
            let stream = Arc::new(stream);
            Ok(Accepted { stream, local })
        });
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::NotConnected
                | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// Number of unanswered probes after which a silent initiator counts as vanished.
const PROBES: u32 = 4;

/// Lets the system detect a vanished peer machine: by probes while there is nothing to send, else
/// by data that is not acknowledged. Best effort; without it only the next send detects that.
fn notice_vanished(stream: &TcpStream, limit: Duration) {
    let second = Duration::from_secs(1);
    let period = (limit / (PROBES + 1)).max(second);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, period);
    let _ = sockopt::set_tcp_keepintvl(stream, period);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
    let _ = sockopt::set_tcp_user_timeout(stream, limit.as_millis().min(1 << 30) as u32);
}

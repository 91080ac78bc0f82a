//! Waits for and accepts connections on a thread of its own. Each server has one [`Acceptor`].
//!
//! Invariant: accepting never waits: another process may share the socket and be faster. The thread
//! ends when the acceptor is stopped or dropped.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Pause when the system has no more descriptors or threads.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Number of unanswered probes after which a silent client counts as vanished.
const PROBES: u32 = 4;

/// A listening socket that does not block.
pub trait Listening: Send + 'static {
    /// A new connection.
    type Accepted;
    /// Returns the socket.
    fn socket(&self) -> BorrowedFd<'_>;
    /// Accepts a connection.
    fn accept(&self) -> io::Result<Self::Accepted>;
}

/// A thread that accepts.
pub struct Acceptor {
    thread: Option<JoinHandle<()>>,
    /// Closing it wakes the thread.
    waker: Option<UnixStream>,
}

impl Acceptor {
    /// Starts a thread that calls `connect` for every new connection. While the system has no more
    /// descriptors, it calls `pause`, which waits until a connection ends, at most for this long.
    pub fn start<L: Listening>(
        name: &str,
        listener: L,
        pause: impl Fn(Duration) + Send + 'static,
        connect: impl Fn(L::Accepted) + Send + 'static,
    ) -> io::Result<Self> {
        let (waker, woken) = UnixStream::pair()?;
        let accept_all = move || {
            while wait(listener.socket(), &woken) {
                match listener.accept() {
                    Ok(accepted) => connect(accepted),
                    Err(error) if is_late(&error) => {}
                    Err(_) => pause(ACCEPT_PAUSE),
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned());
        Ok(Self {
            thread: Some(thread.spawn(accept_all)?),
            waker: Some(waker),
        })
    }

    /// Accepts no more. Returns false if it had stopped before.
    pub fn stop(&mut self) -> bool {
        let Some(thread) = self.thread.take() else {
            return false;
        };
        drop(self.waker.take());
        let _ = thread.join();
        true
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a connection. Returns false when the other end of `woken` was closed.
fn wait(socket: BorrowedFd<'_>, woken: &UnixStream) -> bool {
    let mut fds = [
        PollFd::from_borrowed_fd(socket, PollFlags::IN),
        PollFd::new(woken, PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Ok(_) => fds[1].revents().is_empty(),
        Err(rustix::io::Errno::INTR) => true,
        Err(_) => false,
    }
}

/// Returns true if there is no connection: another process was faster, or the client has left.
fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::ConnectionAborted
    )
}

/// Prepares an accepted TCP connection. Its client counts as vanished when its system has not
/// answered for `vanished_limit`.
pub fn prepare_tcp(stream: &TcpStream, vanished_limit: Duration) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    // A batch of replies is one send, so waiting for more data only costs time.
    let _ = stream.set_nodelay(true);
    notice_vanished(stream, vanished_limit);
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_system_looks_for_vanished_tcp_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        prepare_tcp(&client, Duration::from_secs(50)).unwrap();
        let period = Duration::from_secs(10);
        assert!(sockopt::socket_keepalive(&client).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&client).unwrap(), period);
        assert_eq!(sockopt::tcp_keepintvl(&client).unwrap(), period);
        assert_eq!(sockopt::tcp_keepcnt(&client).unwrap(), 4);
        assert_eq!(sockopt::tcp_user_timeout(&client).unwrap(), 50_000);
    }
}

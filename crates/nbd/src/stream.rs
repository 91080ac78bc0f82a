//! The two ends of a connection that a session needs, so that it does not know its socket.
//!
//! Invariant: all methods may be called from several threads; a send is one system call. The
//! server makes streams from accepted sockets, the fuzzers from bytes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected byte stream.
pub(crate) trait Stream: Send + Sync {
    /// Waits for bytes; 0 means that there will be no more.
    fn recv(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Takes what is there without waiting; `None` means nothing yet.
    fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>>;
    /// Sends some of `bytes`; waits for room.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// How long [`Stream::recv`] waits.
    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// How long [`Stream::send`] waits for room.
    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// Lets [`Stream::recv`] return 0 after what has arrived, at once and for ever.
    fn shutdown_recv(&self);
    /// Ends both directions; whoever waits returns.
    fn shutdown(&self);
    /// True if nobody can take a reply any more. A peer that only stopped sending still can. Never
    /// waits; what arrived and was not received stays there.
    fn hung_up(&self) -> bool;
}

fn recv(socket: impl AsFd, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    loop {
        match rustix::net::recv(&socket, &mut *into, flags) {
            Ok((received, _)) => return Ok(received),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// A unix socket hangs up when its peer closes it. A TCP socket does after the first reply that
/// the peer's system refuses: until then a peer that closed looks like one that stopped sending.
fn hung_up(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(0) | Err(_) => false,
        Ok(_) => fds.iter().any(|fd| !fd.revents().is_empty()),
    }
}

macro_rules! stream {
    ($($socket:ty),*) => {$(
        impl Stream for $socket {
            fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
                recv(self, into, RecvFlags::empty())
            }
            fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
                match recv(self, into, RecvFlags::DONTWAIT) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                    done => done.map(Some),
                }
            }
            fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                send(self, bytes)
            }
            fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(timeout)
            }
            fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.set_write_timeout(timeout)
            }
            fn shutdown_recv(&self) {
                let _ = <$socket>::shutdown(self, Shutdown::Read);
            }
            fn shutdown(&self) {
                let _ = <$socket>::shutdown(self, Shutdown::Both);
            }
            fn hung_up(&self) -> bool {
                hung_up(self)
            }
        }
    )*};
}
stream!(UnixStream, TcpStream);

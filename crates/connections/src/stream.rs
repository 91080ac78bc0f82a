//! Abstracts the socket of a connection for sessions. The server makes streams from accepted
//! sockets, the fuzzers from bytes.
//!
//! Invariant: several threads may call all methods. A send is one system call.

use crate::alarm::Alarm;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected byte stream.
pub trait ByteStream: Send + Sync {
    /// Waits for bytes. Returns 0 at the end of the stream.
    fn recv(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Takes the bytes that have arrived, without waiting; `None` if there are none yet.
    fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>>;
    /// Waits until [`ByteStream::recv`] would not wait, or the alarm rings, at most `limit`.
    /// Returns true if receiving would not wait.
    fn wait(&self, alarm: &Alarm, limit: Duration) -> io::Result<bool>;
    /// Sends some of `bytes`. Waits for space.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Sends some of `bytes` without waiting for space.
    fn send_now(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Sets the time that [`ByteStream::recv`] waits.
    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// Sets the time that [`ByteStream::send`] waits for space.
    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// Makes [`ByteStream::recv`] return 0 after the bytes that have arrived, at once and for ever.
    fn shutdown_recv(&self);
    /// Ends both directions. Waiting calls return.
    fn shutdown(&self);
    /// Returns true if the peer can no longer take a reply. A peer that only stopped sending still
    /// can. Never waits, and leaves arrived bytes in the socket.
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

fn send(socket: impl AsFd, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    loop {
        match rustix::net::send(&socket, bytes, flags | SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Returns true if the socket hung up. A unix socket does when its peer closes it. A TCP socket
/// does after the first reply that the peer's system refuses: until then a peer that closed looks
/// like one that stopped sending.
fn hung_up(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(0) | Err(_) => false,
        Ok(_) => fds.iter().any(|fd| !fd.revents().is_empty()),
    }
}

macro_rules! stream {
    ($($socket:ty),*) => {$(
        impl ByteStream for $socket {
            fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
                recv(self, into, RecvFlags::empty())
            }
            fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
                match recv(self, into, RecvFlags::DONTWAIT) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                    done => done.map(Some),
                }
            }
            fn wait(&self, alarm: &Alarm, limit: Duration) -> io::Result<bool> {
                alarm.wait(self, limit)
            }
            fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                send(self, bytes, SendFlags::empty())
            }
            fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
                send(self, bytes, SendFlags::DONTWAIT)
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

/// A client that has already sent everything, and reads everything, for fuzzers.
pub struct Replay(Mutex<VecDeque<u8>>);

impl Replay {
    /// Makes a client that sends exactly `data`.
    pub fn new(data: &[u8]) -> Self {
        Self(Mutex::new(data.to_vec().into()))
    }
}

impl ByteStream for Replay {
    fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut left = self.0.lock();
        io::Read::read(&mut *left, into)
    }
    fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.recv(into).map(Some)
    }
    fn wait(&self, _: &Alarm, _: Duration) -> io::Result<bool> {
        Ok(true)
    }
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn set_recv_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn set_send_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn shutdown_recv(&self) {
        self.shutdown();
    }
    fn shutdown(&self) {
        self.0.lock().clear();
    }
    fn hung_up(&self) -> bool {
        false
    }
}

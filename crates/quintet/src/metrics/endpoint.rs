//! `/metrics` over HTTP, on a loopback address, for one who asks at a time.
//!
//! Invariant: only loopback addresses; a request has a limit in bytes and in time; nothing but
//! `/metrics` is there. Called by `serve`.

use super::render;
use crate::held::Held;
use anyhow::bail;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REQUEST_BYTES_MAX: u64 = 8 << 10;
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// Answers until it is dropped.
pub struct Endpoint {
    address: SocketAddr,
    /// Closing it wakes the thread.
    waker: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens, and answers on a thread of its own.
    pub fn start(address: SocketAddr, held: &Arc<Held>) -> anyhow::Result<Self> {
        if !address.ip().is_loopback() {
            bail!("{address} is not a loopback address");
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (waker, woken) = UnixStream::pair()?;
        let held = Arc::clone(held);
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &woken, &held))?;
        Ok(Self {
            address,
            waker: Some(waker),
            thread: Some(thread),
        })
    }

    /// Where it listens; tells the port if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.waker.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, woken: &UnixStream, held: &Held) {
    loop {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) if fds[1].revents().is_empty() => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => return,
        }
        if let Ok((stream, _)) = listener.accept() {
            // Who went away, or talks nonsense, gets no metrics.
            let _ = answer(&stream, held);
        }
    }
}

fn answer(stream: &TcpStream, held: &Held) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(REQUEST_LIMIT))?;
    let request = read_head(stream)?;
    let first = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = first.split(|b| *b == b' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", render(held)),
        (Some(b"GET"), _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Up to the empty line.
fn read_head(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + REQUEST_LIMIT;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() as u64 >= REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
    Ok(head)
}

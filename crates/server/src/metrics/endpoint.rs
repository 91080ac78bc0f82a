//! Serves `/metrics` over HTTP on a loopback address. `serve` starts it.
//!
//! Invariant: only loopback addresses, and only the path `/metrics`. One thread polls all clients,
//! so that no client delays another. Each client has limits in bytes and in time, for its request
//! and again for the answer. If there are too many clients, the oldest is disconnected.

use super::render;
use crate::state::ServerState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Maximum time for a client's request, and again for reading the answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);
const CLIENTS_MAX: usize = 256;
/// Maximum number of answers in memory. Further clients wait until an answer was sent.
const ANSWERS_MAX: usize = 16;

/// Error of starting the endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Other machines could reach the address.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The running endpoint. Dropping it ends it.
pub struct Endpoint {
    address: SocketAddr,
    /// Closing this stream wakes the thread.
    waker: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens, and answers on its own thread.
    pub fn start(address: SocketAddr, server: &Arc<ServerState>) -> Result<Self, EndpointError> {
        let server = Arc::clone(server);
        Self::start_with(address, REQUEST_LIMIT, move || render(&server))
    }

    /// `limit`: for each client's request, and again for the answer.
    fn start_with(
        address: SocketAddr,
        limit: Duration,
        body: impl Fn() -> String + Send + 'static,
    ) -> Result<Self, EndpointError> {
        if !address.ip().is_loopback() {
            return Err(EndpointError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (waker, woken) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &woken, limit, &body))?;
        Ok(Self {
            address,
            waker: Some(waker),
            thread: Some(thread),
        })
    }

    /// Returns the address, with the actual port if port 0 was requested.
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

fn serve(listener: &TcpListener, woken: &UnixStream, limit: Duration, body: &dyn Fn() -> String) {
    // Clients, oldest first.
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let ready = match wait(listener, woken, &clients) {
            Wake::Ready(ready) => ready,
            Wake::Again => continue,
            Wake::Stop => return,
        };
        let mut answers = clients.iter().filter(|c| c.answer.is_some()).count();
        let now = Instant::now();
        let mut ready = ready.into_iter();
        clients.retain_mut(|client| {
            let is_ready = ready.next().unwrap_or(false);
            // Drops a client that has disconnected, sent an invalid request or exceeded its time.
            if now >= client.until || is_ready && client.advance().is_err() {
                return false;
            }
            if client.is_asking() && answers < ANSWERS_MAX {
                answers += 1;
                client.respond(body);
                return client.advance().is_ok();
            }
            true
        });
        // Accepts one client per loop, so that waiting clients are served in between.
        if let Ok((stream, _)) = listener.accept()
            && let Ok(client) = Client::new(stream, limit)
        {
            if clients.len() >= CLIENTS_MAX {
                clients.remove(0);
            }
            clients.push(client);
        }
    }
}

enum Wake {
    /// Events, one flag per client.
    Ready(Vec<bool>),
    Again,
    Stop,
}

/// Waits for a new client, an event or the time limit of a client, or the stop.
fn wait(listener: &TcpListener, woken: &UnixStream, clients: &[Client]) -> Wake {
    let mut fds = vec![
        PollFd::new(woken, PollFlags::IN),
        PollFd::new(listener, PollFlags::IN),
    ];
    fds.extend(clients.iter().map(|c| PollFd::new(&c.stream, c.awaits())));
    let soonest = clients.iter().map(|client| client.until).min();
    let left = soonest.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec {
        tv_sec: left.as_secs().cast_signed(),
        tv_nsec: i64::from(left.subsec_nanos()),
    });
    match poll(&mut fds, left.as_ref()) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Wake::Again,
        Err(_) => return Wake::Stop,
    }
    let mut happened = fds.iter().map(|fd| !fd.revents().is_empty());
    if happened.next() != Some(false) {
        return Wake::Stop;
    }
    Wake::Ready(happened.skip(1).collect())
}

/// A connected client.
struct Client {
    stream: TcpStream,
    /// For its request, and again for the answer.
    limit: Duration,
    until: Instant,
    request: Vec<u8>,
    /// The part of the answer that was not sent.
    answer: Option<Answer>,
}

struct Answer {
    bytes: Vec<u8>,
    sent: usize,
}

impl Client {
    fn new(stream: TcpStream, limit: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            limit,
            until: Instant::now() + limit,
            request: Vec::new(),
            answer: None,
        })
    }

    /// Returns true if the whole request has arrived, up to the empty line, and has no answer yet.
    fn is_asking(&self) -> bool {
        self.answer.is_none() && self.request.ends_with(b"\r\n\r\n")
    }

    fn awaits(&self) -> PollFlags {
        match (&self.answer, self.is_asking()) {
            (Some(_), _) => PollFlags::OUT,
            (None, false) => PollFlags::IN,
            (None, true) => PollFlags::empty(),
        }
    }

    /// Reads or writes as much as possible without waiting. An error ends the client.
    fn advance(&mut self) -> io::Result<()> {
        let is_asking = self.is_asking();
        let moved = match &mut self.answer {
            Some(answer) => answer.send(&self.stream),
            None if is_asking => Ok(()),
            None => self.read(),
        };
        match moved {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            moved => moved,
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; 1024];
        while !self.is_asking() {
            let count = (&self.stream).read(&mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.request
                .extend_from_slice(piece.get(..count).unwrap_or_default());
            if self.request.len() > REQUEST_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    fn respond(&mut self, body: &dyn Fn() -> String) {
        let first = self.request.split(|b| *b == b'\r').next();
        let mut words = first.unwrap_or_default().split(|b| *b == b' ');
        let (status, body) = match (words.next(), words.next()) {
            (Some(b"GET"), Some(b"/metrics")) => ("200 OK", body()),
            (Some(b"GET"), _) => ("404 Not Found", "see /metrics\n".to_owned()),
            _ => ("405 Method Not Allowed", String::new()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let bytes = [head.as_bytes(), body.as_bytes()].concat();
        self.answer = Some(Answer { bytes, sent: 0 });
        self.until = Instant::now() + self.limit;
    }
}

impl Answer {
    /// Sends the rest. The end of the answer is an error too, because it ends the client.
    fn send(&mut self, mut to: &TcpStream) -> io::Result<()> {
        while let Some(rest) = self.bytes.get(self.sent..)
            && !rest.is_empty()
        {
            self.sent += to.write(rest)?;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a test waits, on however slow a machine.
    const LONG: Duration = Duration::from_secs(60);

    fn started(limit: Duration) -> Endpoint {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        // The body is larger than the socket buffers of a client that does not read.
        let body = || "x 1\n".repeat(4 << 20);
        Endpoint::start_with(address, limit, body).unwrap()
    }

    fn asked(endpoint: &Endpoint, request: &str) -> String {
        let mut stream = TcpStream::connect(endpoint.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn neither_silent_nor_slow_clients_delay_others() {
        let endpoint = started(LONG);
        let silent: Vec<_> = (0..60)
            .map(|_| TcpStream::connect(endpoint.address()).unwrap())
            .collect();
        // These clients send requests and do not read. They are fewer than the answers in memory.
        let slow: Vec<_> = (0..8)
            .map(|_| {
                let mut stream = TcpStream::connect(endpoint.address()).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let answer = asked(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("x 1\n"));
        drop((silent, slow));
    }

    #[test]
    fn clients_that_do_not_ask_are_disconnected() {
        let endpoint = started(Duration::from_millis(100));
        let client = |request: &[u8]| {
            let mut stream = TcpStream::connect(endpoint.address()).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            // The server may have disconnected it already.
            let _ = stream.write_all(request);
            stream
        };
        let clients: Vec<_> = [&b""[..], b"GET /met"].map(client).into();
        for mut stream in clients {
            let left = stream.read(&mut [0]);
            let is_gone = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset;
            assert!(
                matches!(&left, Ok(0)) || left.as_ref().is_err_and(is_gone),
                "{left:?}"
            );
        }
    }

    #[test]
    fn more_than_may_wait_are_served_all_the_same() {
        let endpoint = started(LONG);
        let silent: Vec<_> = (0..CLIENTS_MAX + 10)
            .map(|_| TcpStream::connect(endpoint.address()).unwrap())
            .collect();
        let answer = asked(&endpoint, "GET /else HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        let answer = asked(&endpoint, "POST /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        drop(silent);
    }
}

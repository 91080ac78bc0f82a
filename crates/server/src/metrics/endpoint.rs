//! Serves `/metrics` over HTTP on a loopback address. `serve` starts it.
//!
//! Invariant: only loopback addresses, and only the path `/metrics`. Each client has a thread, so
//! that no client delays another, and limits in bytes and in time, for its request and again for
//! the answer. If there are too many clients, the oldest is disconnected.

use super::render;
use crate::state::ServerState;
use connections::{Connection, ListenError, Listener, ServerHandle, ServerLimits, SocketServer};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Maximum time for a client's request, and again for reading the answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);
const CLIENTS_MAX: usize = 256;
/// Maximum number of answers in memory. Further clients wait until an answer was sent.
const ANSWERS_MAX: usize = 16;
/// Time for the answers that are being sent when the endpoint ends.
const STOP_LIMIT: Duration = Duration::from_millis(100);

/// Error of starting the endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Other machines could reach the address.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The endpoint cannot be started.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// The running endpoint. Dropping it ends it.
pub struct Endpoint {
    address: SocketAddr,
    _server: ServerHandle,
}

impl Endpoint {
    /// Listens, and answers on its own threads.
    pub fn start(address: SocketAddr, server: &Arc<ServerState>) -> Result<Self, EndpointError> {
        let server = Arc::clone(server);
        Self::start_with(address, REQUEST_LIMIT, move || render(&server))
    }

    /// `limit`: for each client's request, and again for the answer.
    fn start_with(
        address: SocketAddr,
        limit: Duration,
        body: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, EndpointError> {
        if !address.ip().is_loopback() {
            return Err(EndpointError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let limits = ServerLimits {
            connections_max: CLIENTS_MAX,
            stop_limit: STOP_LIMIT,
            ..ServerLimits::default()
        };
        let server = SocketServer::new(Listener::from_tcp(listener)?, limits, 0, false);
        let answers = Answers::default();
        let serve = move |context: connections::SessionContext| {
            // A client that has disconnected, sent an invalid request or exceeded its time.
            let _ = serve(&context.connection, limit, &answers, &body);
            context.connection.drop_now();
        };
        Ok(Self {
            address,
            _server: server.start("metrics", serve)?,
        })
    }

    /// Returns the address, with the actual port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Answers in memory: at most [`ANSWERS_MAX`].
#[derive(Default)]
struct Answers {
    count: Mutex<usize>,
    fewer: Condvar,
}

/// The right to have an answer in memory.
struct AnswerPermit<'a>(&'a Answers);

impl Answers {
    fn permit(&self, until: Instant) -> Option<AnswerPermit<'_>> {
        let mut count = self.count.lock();
        while *count >= ANSWERS_MAX {
            if self.fewer.wait_until(&mut count, until).timed_out() {
                return None;
            }
        }
        *count += 1;
        Some(AnswerPermit(self))
    }
}

impl Drop for AnswerPermit<'_> {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.fewer.notify_one();
    }
}

/// Receives a request and answers it.
fn serve(
    connection: &Connection,
    limit: Duration,
    answers: &Answers,
    body: &dyn Fn() -> String,
) -> Option<()> {
    let until = Instant::now() + limit;
    let request = receive(connection, until)?;
    let _permit = answers.permit(until)?;
    let answer = respond(&request, body);
    let (mut rest, until) = (&answer[..], Instant::now() + limit);
    while !rest.is_empty() {
        let left = Some(left(until)?);
        connection.stream.set_send_timeout(left).ok()?;
        let sent = connection.stream.send(rest).ok()?;
        rest = rest.get(sent..)?;
    }
    Some(())
}

/// Receives a whole request, up to the empty line.
fn receive(connection: &Connection, until: Instant) -> Option<Vec<u8>> {
    let (mut request, mut piece) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        let left = Some(left(until)?);
        connection.stream.set_recv_timeout(left).ok()?;
        let count = connection.stream.recv(&mut piece).ok()?;
        request.extend_from_slice(piece.get(..count).filter(|piece| !piece.is_empty())?);
        if request.len() > REQUEST_BYTES_MAX {
            return None;
        }
    }
    Some(request)
}

/// Returns the time until then, if there is some.
fn left(until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

fn respond(request: &[u8], body: &dyn Fn() -> String) -> Vec<u8> {
    let first = request.split(|b| *b == b'\r').next();
    let mut words = first.unwrap_or_default().split(|b| *b == b' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", body()),
        (Some(b"GET"), _) => ("404 Not PoolFindings", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

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
            let has_left = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset;
            assert!(
                matches!(&left, Ok(0)) || left.as_ref().is_err_and(has_left),
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

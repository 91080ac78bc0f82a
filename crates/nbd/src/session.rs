//! Serves one connection from greeting to disconnect. The server runs one session per connection.
//!
//! Invariant: replies are sent when no complete request is left in the input, or when the output is
//! large enough. A deep queue therefore costs few system calls, and a single request never waits. A
//! client can end at most its own session.

mod transmission;

use crate::REQUEST_BYTES_MAX;
use crate::command::Export;
use crate::exports::Exports;
use crate::negotiation::{Agreed, Negotiation, OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, Step};
use crate::stats::{Counters, Tally};
use crate::wire::constants::{FLAG_C_FIXED_NEWSTYLE, FLAG_C_NO_ZEROES};
use crate::wire::cursor::Cursor;
use crate::wire::options::{
    CLIENT_FLAGS_BYTES, OPTION_HEADER_BYTES, OptionKind, decode_header, encode_greeting,
};
use crate::workers::{Lane, Workers};
use connections::{Connection, Gone, Input, Output, Pool, Share, Stream};
use connections::{ThreadShare, Threads, Writer};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use transmission::Transmission;

/// Data of requests and replies at which replies are sent although more requests have arrived,
/// bytes. A client that waits for some of them continues while the rest is served.
const BATCH_BYTES: usize = 32 << 10;
/// Output memory that a connection keeps between batches, bytes: the largest reads of usual clients
/// (2 MiB, qemu-img) and replies before them.
const OUTPUT_KEPT_BYTES: usize = (2 << 20) + (256 << 10);
/// Reads up to this size need no lease while they are served at once, because the output has space,
/// bytes.
const SMALL_REPLY_BYTES: u64 = 256 << 10;
/// Number of waiting reads that go to workers after a sign that the client keeps several in flight.
const DEEP_REQUESTS: u32 = 64;
/// Maximum number of options in one handshake. Usual clients send fewer than ten.
const OPTIONS_MAX: u32 = 1024;

/// Context of a session: its connection and its server.
pub(crate) struct Session {
    pub(crate) connection: Arc<Connection>,
    pub(crate) exports: Arc<dyn Exports>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) handshake_limit: Duration,
    pub(crate) send_limit: Duration,
    pub(crate) memory: Memory,
    pub(crate) threads: Arc<ThreadShare>,
}

/// Memory for a session's requests.
pub(crate) struct Memory {
    pub(crate) reads: Arc<Share>,
    pub(crate) changes: Arc<Share>,
}

impl Memory {
    fn of(&self, lane: Lane) -> &Arc<Share> {
        match lane {
            Lane::Reads => &self.reads,
            Lane::Changes | Lane::Flushes => &self.changes,
        }
    }
}

/// Result of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client disconnected, properly or between two requests, or the server stops.
    Clean,
    /// The client sent invalid data, disconnected within a request, or did not read its replies.
    Dropped,
}

impl Session {
    /// Makes a session without a server.
    pub(crate) fn alone(
        stream: Arc<dyn Stream>,
        exports: Arc<dyn Exports>,
        limit: Duration,
    ) -> Self {
        let connection = Arc::new(Connection::new(stream));
        let pool = || Arc::new(Pool::new(u64::from(REQUEST_BYTES_MAX), limit));
        Self {
            memory: Memory {
                reads: pool().share(0, connection.clone()),
                changes: pool().share(0, connection.clone()),
            },
            connection,
            exports,
            counters: Arc::default(),
            handshake_limit: limit,
            send_limit: limit,
            threads: Arc::new(Threads::default()).share(),
        }
    }

    /// Serves until the end and returns the result.
    pub(crate) fn run(&self) -> End {
        let mut input = Input::new();
        let end = match self.handshake(&mut input) {
            Ok(Some(agreed)) => self.transmission(agreed, input),
            Ok(None) => End::Clean,
            Err(Gone) => {
                self.counters.handshakes_failed.fetch_add(1, Relaxed);
                End::Dropped
            }
        };
        if end == End::Dropped {
            self.counters.dropped.fetch_add(1, Relaxed);
        }
        self.connection.drop_now();
        end
    }

    /// Waits until `len` bytes have arrived.
    fn need(&self, input: &mut Input, len: usize, until: Instant) -> Result<(), Gone> {
        while input.peek(0, len).is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.connection.stream.set_recv_timeout(Some(left)).is_err() {
                return Err(Gone);
            }
            match input.fill(&*self.connection.stream, len) {
                Ok(received) if received > 0 => {}
                Ok(_) | Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// Agrees on an export; `None` if the client disconnected properly.
    fn handshake(&self, input: &mut Input) -> Result<Option<Agreed>, Gone> {
        let until = Instant::now() + self.handshake_limit;
        let limit = Some(self.handshake_limit.min(self.send_limit));
        self.connection
            .stream
            .set_send_timeout(limit)
            .map_err(|_| Gone)?;
        let writer = Writer::new(self.connection.clone());
        writer.send(&encode_greeting())?;
        self.need(input, CLIENT_FLAGS_BYTES, until)?;
        let flags = Cursor::new(input.available()).u32().ok_or(Gone)?;
        input.consume(CLIENT_FLAGS_BYTES);
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            return Err(Gone);
        }
        let fixed = flags & FLAG_C_FIXED_NEWSTYLE != 0;
        let no_zeroes = flags & FLAG_C_NO_ZEROES != 0;
        let claim = |export: &str| self.connection.claim(export);
        let mut negotiation = Negotiation::new(&*self.exports, &claim, no_zeroes);
        let mut out = Vec::new();
        for _ in 0..OPTIONS_MAX {
            self.need(input, OPTION_HEADER_BYTES, until)?;
            let header = decode_header(input.available()).ok_or(Gone)?;
            if !fixed && header.option != OptionKind::ExportName as u32 {
                return Err(Gone);
            }
            input.consume(OPTION_HEADER_BYTES);
            let len = header.data_bytes as usize;
            let step = if header.data_bytes <= OPTION_BYTES_MAX {
                self.need(input, len, until)?;
                let data = input.peek(0, len).unwrap_or_default();
                let step = negotiation.option(header.option, data, &mut out);
                input.consume(len);
                step
            } else if header.data_bytes <= OPTION_SKIP_BYTES_MAX {
                self.skip(input, len, until)?;
                Negotiation::too_big(header.option, &mut out);
                Step::Next
            } else {
                Step::Drop
            };
            if let Step::Drop = step {
                return Err(Gone);
            }
            // Before the client knows: from now on it is not dropped for a newcomer.
            if matches!(step, Step::Start(_)) && !self.connection.admit() {
                return Err(Gone);
            }
            writer.send(&out)?;
            out.clear();
            match step {
                _ if self.connection.closing() => return Ok(None),
                Step::Next => {}
                Step::Start(agreed) => return Ok(Some(agreed)),
                Step::Close | Step::Drop => return Ok(None),
            }
        }
        Err(Gone)
    }

    fn skip(&self, input: &mut Input, len: usize, until: Instant) -> Result<(), Gone> {
        let mut left = len;
        while left > 0 {
            self.need(input, 1, until)?;
            let now = input.available().len().min(left);
            input.consume(now);
            left -= now;
        }
        Ok(())
    }

    fn transmission(&self, agreed: Agreed, input: Input) -> End {
        let stream = &self.connection.stream;
        let ready = stream.set_recv_timeout(None);
        let ready = ready.and_then(|()| stream.set_send_timeout(Some(self.send_limit)));
        if ready.is_err() {
            return End::Dropped;
        }
        let export = Arc::new(Export::new(agreed));
        let writer = Arc::new(Writer::new(self.connection.clone()));
        let (counters, threads) = (self.counters.clone(), self.threads.clone());
        let workers = Workers::new(export.clone(), writer.clone(), counters, threads);
        let mut transmission = Transmission {
            session: self,
            export,
            writer,
            workers,
            output: Output::new(OUTPUT_KEPT_BYTES),
            tally: Tally::default(),
            arrived: Instant::now(),
            deep: 0,
            taken: 0,
            unseen: 0,
            incoming: None,
        };
        let end = transmission.run(input).unwrap_or(End::Dropped);
        let flushed = transmission.flush();
        transmission.workers.finish();
        match flushed {
            Ok(()) => end,
            Err(Gone) => End::Dropped,
        }
    }
}

#[cfg(test)]
mod announced_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;

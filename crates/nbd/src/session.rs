//! One connection, from greeting to goodbye.
//!
//! Invariant: replies are sent when no complete request is left in the input or when the output
//! is large enough, so a deep queue costs few system calls and a single request never waits.
//! Whatever a client does ends at most its own session. The server runs one per connection.

use crate::REQUEST_BYTES_MAX;
use crate::buffers::{Input, Output};
use crate::command::Export;
use crate::exports::Exports;
use crate::negotiation::{Agreed, Negotiation, OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, Step};
use crate::stats::{Counters, Tally};
use crate::stream::Stream;
use crate::wire::constants::{FLAG_C_FIXED_NEWSTYLE, FLAG_C_NO_ZEROES};
use crate::wire::cursor::Cursor;
use crate::wire::options::{
    CLIENT_FLAGS_BYTES, OPTION_HEADER_BYTES, OptionKind, decode_header, encode_greeting,
};
use crate::wire::requests::{Command, Request, decode, header_bytes};
use crate::workers::{Gone, Workers, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Output at which replies are sent although more requests are there, bytes.
const BATCH_BYTES: usize = 64 << 10;
/// Output memory that a connection keeps between batches, bytes; enough for the largest reads
/// that usual clients send.
const OUTPUT_KEPT_BYTES: usize = 4 << 20;
/// How many slow requests go to the workers after a sign that the client keeps several under way.
const DEEP_REQUESTS: u32 = 64;

/// What a session needs to know of its server.
pub(crate) struct Session {
    pub(crate) stream: Arc<dyn Stream>,
    pub(crate) exports: Arc<dyn Exports>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) handshake_limit: Duration,
    pub(crate) send_limit: Duration,
    pub(crate) stopping: Arc<AtomicBool>,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client said goodbye, or left between two requests, or the server stops.
    Clean,
    /// The client sent nonsense, left in the middle, or did not read its replies.
    Dropped,
}

impl Session {
    /// Serves until the end. Returns how it ended.
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
        self.stream.shutdown();
        end
    }

    /// Waits until `len` bytes are there.
    fn need(&self, input: &mut Input, len: usize, until: Instant) -> Result<(), Gone> {
        while input.peek(0, len).is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_recv_timeout(Some(left)).is_err() {
                return Err(Gone);
            }
            match input.fill(&*self.stream, len) {
                Ok(received) if received > 0 => {}
                Ok(_) | Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// Agrees on an export; `None` if the client said goodbye.
    fn handshake(&self, input: &mut Input) -> Result<Option<Agreed>, Gone> {
        let until = Instant::now() + self.handshake_limit;
        let limit = Some(self.handshake_limit.min(self.send_limit));
        self.stream.set_send_timeout(limit).map_err(|_| Gone)?;
        let writer = Writer::new(self.stream.clone());
        writer.send(&encode_greeting())?;
        self.need(input, CLIENT_FLAGS_BYTES, until)?;
        let flags = Cursor::new(input.available()).u32().ok_or(Gone)?;
        input.consume(CLIENT_FLAGS_BYTES);
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            return Err(Gone);
        }
        let fixed = flags & FLAG_C_FIXED_NEWSTYLE != 0;
        let no_zeroes = flags & FLAG_C_NO_ZEROES != 0;
        let mut negotiation = Negotiation::new(&*self.exports, no_zeroes);
        let mut out = Vec::new();
        loop {
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
            writer.send(&out)?;
            out.clear();
            match step {
                Step::Next if self.stopping.load(Relaxed) => return Ok(None),
                Step::Next => {}
                Step::Start(agreed) => return Ok(Some(agreed)),
                Step::Close | Step::Drop => return Ok(None),
            }
        }
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
        let ready = self.stream.set_recv_timeout(None);
        let ready = ready.and_then(|()| self.stream.set_send_timeout(Some(self.send_limit)));
        if ready.is_err() {
            return End::Dropped;
        }
        let export = Arc::new(Export::new(agreed));
        let writer = Arc::new(Writer::new(self.stream.clone()));
        let workers = Workers::new(export.clone(), writer.clone(), self.counters.clone());
        let mut transmission = Transmission {
            session: self,
            export,
            writer,
            workers,
            output: Output::new(OUTPUT_KEPT_BYTES),
            tally: Tally::default(),
            arrived: Instant::now(),
            deep: 0,
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

/// The state of a connection after the handshake.
struct Transmission<'a> {
    session: &'a Session,
    export: Arc<Export>,
    writer: Arc<Writer>,
    workers: Workers,
    output: Output,
    tally: Tally,
    /// When the last bytes came.
    arrived: Instant,
    /// Slow requests to hand to workers before one is tried on this thread again.
    deep: u32,
}

impl Transmission<'_> {
    fn run(&mut self, mut input: Input) -> Result<End, Gone> {
        let extended = self.export.extended();
        let header = header_bytes(extended);
        loop {
            let mut needed = header;
            if let Some(bytes) = input.peek(0, header) {
                let request = decode(bytes, extended).ok_or(Gone)?;
                let payload_bytes = request.payload_bytes(extended);
                if payload_bytes > u64::from(REQUEST_BYTES_MAX) {
                    // The document wants such clients dropped rather than their bytes skipped.
                    return Err(Gone);
                }
                if request.command == Command::Disconnect as u16 {
                    return Ok(End::Clean);
                }
                needed = header + payload_bytes as usize;
                if input.peek(0, needed).is_some() {
                    self.request(&request, &mut input, header, needed)?;
                    if self.output.len() >= BATCH_BYTES {
                        self.flush()?;
                    }
                    continue;
                }
            }
            self.flush()?;
            if self.session.stopping.load(Relaxed) {
                return Ok(End::Clean);
            }
            match input.fill(&*self.session.stream, needed) {
                Ok(0) if input.available().is_empty() => return Ok(End::Clean),
                Ok(0) | Err(_) => return Err(Gone),
                Ok(_) => self.arrived = Instant::now(),
            }
        }
    }

    /// Carries out the first request of the input and removes it.
    fn request(
        &mut self,
        request: &Request,
        input: &mut Input,
        header: usize,
        total: usize,
    ) -> Result<(), Gone> {
        let payload = input.peek(header, total - header).unwrap_or_default();
        let slow = self.export.slow(request);
        if slow {
            let more = input.available().len() > total;
            if more || self.workers.in_flight() > 0 {
                self.deep = DEEP_REQUESTS;
            }
            if self.deep > 0 {
                self.deep -= 1;
                if self.workers.submit(request, payload, self.arrived) {
                    input.consume(total);
                    return Ok(());
                }
            }
            // What is ready does not wait for the device.
            self.flush()?;
        }
        self.export
            .execute(request, payload, &mut self.output, &mut self.tally);
        input.consume(total);
        if slow && input.fill_now(&*self.session.stream).unwrap_or(false) {
            // It did not wait for this reply before it sent the next request.
            self.deep = DEEP_REQUESTS;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Gone> {
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = self.writer.send(self.output.as_bytes());
        let elapsed = self.arrived.elapsed();
        let bytes = self.output.len();
        self.session.counters.add(&mut self.tally, bytes, elapsed);
        self.output.clear();
        sent
    }
}

#[cfg(test)]
mod tests;

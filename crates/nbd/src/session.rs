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
use crate::wire::constants::{FLAG_C_FIXED_NEWSTYLE, FLAG_C_NO_ZEROES};
use crate::wire::cursor::Cursor;
use crate::wire::options::{
    CLIENT_FLAGS_BYTES, OPTION_HEADER_BYTES, OptionKind, decode_header, encode_greeting,
};
use crate::workers::ExportService;
use connections::{ByteStream, ReplyWriter, ServerLimits, SessionContext, Tally, Workers};
use connections::{Disconnected, End, Habits, Input, Output, SESSION_OUTPUT_BYTES};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transmission::Transmission;

/// Maximum number of options in one handshake. Usual clients send fewer than ten.
const OPTIONS_MAX: u32 = 1024;

/// Context of a session.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    pub(crate) exports: Arc<dyn Exports>,
}

impl Session {
    /// Makes a session without a server.
    pub(crate) fn alone(
        stream: Arc<dyn ByteStream>,
        exports: Arc<dyn Exports>,
        limit: Duration,
    ) -> Self {
        let limits = ServerLimits {
            handshake_limit: limit,
            send_limit: limit,
            stall_limit: limit,
            ..ServerLimits::default()
        };
        Self {
            context: SessionContext::alone(stream, u64::from(REQUEST_BYTES_MAX), limits),
            exports,
        }
    }

    /// Serves until the end and returns the result.
    pub(crate) fn run(&self) -> End {
        let mut input = Input::new();
        let agreed = self.handshake(&mut input);
        self.context
            .finish(agreed, |agreed| self.transmission(agreed, input))
    }

    /// Agrees on an export; `None` if the client disconnected properly.
    fn handshake(&self, input: &mut Input) -> Result<Option<Agreed>, Disconnected> {
        let (context, connection) = (&self.context, &self.context.connection);
        let until = context.begin_handshake()?;
        let writer = ReplyWriter::new(connection.clone());
        writer.send(&encode_greeting())?;
        context.need(input, CLIENT_FLAGS_BYTES, until)?;
        let flags = Cursor::new(input.available()).u32().ok_or(Disconnected)?;
        input.consume(CLIENT_FLAGS_BYTES);
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            return Err(Disconnected);
        }
        let fixed = flags & FLAG_C_FIXED_NEWSTYLE != 0;
        let no_zeroes = flags & FLAG_C_NO_ZEROES != 0;
        let claim = |export: &str| connection.claim(export);
        let mut negotiation = Negotiation::new(&*self.exports, &claim, no_zeroes);
        let mut out = Vec::new();
        for _ in 0..OPTIONS_MAX {
            context.need(input, OPTION_HEADER_BYTES, until)?;
            let header = decode_header(input.available()).ok_or(Disconnected)?;
            if !fixed && header.option != OptionKind::ExportName as u32 {
                return Err(Disconnected);
            }
            input.consume(OPTION_HEADER_BYTES);
            let len = header.data_bytes as usize;
            let step = if header.data_bytes <= OPTION_BYTES_MAX {
                context.need(input, len, until)?;
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
                return Err(Disconnected);
            }
            // Before the client knows: from now on it is not dropped for a newcomer.
            if matches!(step, Step::Start(_)) && !connection.admit() {
                return Err(Disconnected);
            }
            writer.send(&out)?;
            out.clear();
            match step {
                _ if connection.closing() => return Ok(None),
                Step::Next => {}
                Step::Start(agreed) => return Ok(Some(agreed)),
                Step::Close | Step::Drop => return Ok(None),
            }
        }
        Err(Disconnected)
    }

    fn skip(&self, input: &mut Input, len: usize, until: Instant) -> Result<(), Disconnected> {
        let mut left = len;
        while left > 0 {
            self.context.need(input, 1, until)?;
            let now = input.available().len().min(left);
            input.consume(now);
            left -= now;
        }
        Ok(())
    }

    fn transmission(&self, agreed: Agreed, input: Input) -> End {
        let context = &self.context;
        let stream = &context.connection.stream;
        let ready = stream.set_recv_timeout(None);
        let ready = ready.and_then(|()| stream.set_send_timeout(Some(context.limits.send_limit)));
        if ready.is_err() {
            return End::Dropped;
        }
        let export = Arc::new(Export::new(agreed));
        let writer = Arc::new(ReplyWriter::new(context.connection.clone()));
        let service = ExportService {
            export: export.clone(),
            writer: writer.clone(),
            connection: context.connection.clone(),
            counters: context.counters.clone(),
        };
        let mut transmission = Transmission {
            context,
            export,
            writer,
            workers: Workers::new(service, context.threads.clone()),
            output: Output::new(SESSION_OUTPUT_BYTES),
            tally: Tally::default(),
            arrived: Instant::now(),
            habits: Habits::default(),
            taken: 0,
            incoming: None,
        };
        let end = transmission.run(input).unwrap_or(End::Dropped);
        let flushed = transmission.flush();
        transmission.workers.finish();
        match flushed {
            Ok(()) => end,
            Err(Disconnected) => End::Dropped,
        }
    }
}

#[cfg(test)]
mod announced_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;

//! Runs the full feature phase of one connection: takes PDUs apart, checks their numbers and
//! digests, and hands them on. The session calls this after the login.
//!
//! Invariant: this thread executes only commands that need no waiting, except a read while the
//! initiator has nothing else in flight. Commands that may wait go to the workers. At error
//! recovery level 0 an initiator that breaks a rule is rejected and dropped.

use super::state::{FullFeature, Next};
use crate::login::keys::RECEIVE_BYTES_MAX;
use crate::replies::Numbering;
use crate::wire::digest::{DIGEST_BYTES, digest};
use crate::wire::pdu::{FINAL, HEADER_BYTES, NO_TAG, PduHeader, padding, request, response};
use crate::wire::reject::Reason;
use connections::{BATCH_BYTES, Disconnected, End, Input, LOOK_PERIOD};
use std::io;
use std::time::Instant;

/// Tag of our own NOP-In.
const PING_TAG: u32 = 1;
/// Logout for recovery, which does not exist at error recovery level 0.
const FOR_RECOVERY: u8 = 2;

/// Lengths of the parts of a PDU, bytes.
struct Layout {
    data_at: usize,
    data: usize,
    total: usize,
}

impl FullFeature<'_> {
    pub(super) fn run(&mut self, mut input: Input) -> Result<End, Disconnected> {
        loop {
            if self.session.context.connection.is_down() {
                // Commands that have arrived are not executed for nothing.
                return Err(Disconnected);
            }
            let mut needed = HEADER_BYTES;
            if let Some(header) = PduHeader::decode(input.available()) {
                let layout = self.layout(&header);
                needed = layout.data_at;
                if input.peek(0, needed).is_some() {
                    self.check_header(&layout, &input)?;
                    if layout.data > RECEIVE_BYTES_MAX as usize {
                        return self.broken(&header, Reason::ProtocolError);
                    }
                    needed = layout.total;
                }
                if input.peek(0, layout.total).is_some() {
                    let next = self.pdu(&header, &layout, &mut input)?;
                    match next {
                        Next::Continue => {}
                        Next::LoggedOut => return Ok(End::Clean),
                        Next::Broken(reason) => return self.broken(&header, reason),
                    }
                    self.half_since = None;
                    self.taken += layout.data;
                    if self.replies.len() + self.taken >= BATCH_BYTES {
                        self.flush()?;
                    }
                    continue;
                }
            }
            self.flush()?;
            let connection = &*self.session.context.connection;
            if connection.closing() {
                return Ok(End::Clean);
            }
            if self.is_half_for_long(&input) {
                return Err(Disconnected);
            }
            if let Some(alarm) = self.incoming.waits() {
                let is_ready = connection.stream.wait(alarm, LOOK_PERIOD);
                let is_ready = is_ready.map_err(|_| Disconnected)?;
                self.solicit()?;
                if !is_ready {
                    self.look_at_silence()?;
                    continue;
                }
            }
            match input.fill(&*connection.stream, needed) {
                Ok(0) if input.available().is_empty() => return Ok(End::Clean),
                Ok(0) => return Err(Disconnected),
                Ok(received) => {
                    connection.count(received);
                    self.arrived = Instant::now();
                    self.is_pinged = false;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ping()?,
                Err(_) => return Err(Disconnected),
            }
        }
    }

    /// Returns true if the rest of a PDU has not come for long, whatever of it did.
    fn is_half_for_long(&mut self, input: &Input) -> bool {
        if input.available().is_empty() {
            self.half_since = None;
            return false;
        }
        let since = *self.half_since.get_or_insert_with(Instant::now);
        since.elapsed() >= self.session.idle_limit
    }

    /// Does what the time limit of receiving does when this thread does not wait there.
    fn look_at_silence(&mut self) -> Result<(), Disconnected> {
        let limit = self.session.idle_limit;
        let limit = if self.is_pinged { 2 * limit } else { limit };
        match self.arrived.elapsed() >= limit {
            true => self.ping(),
            false => Ok(()),
        }
    }

    fn layout(&self, header: &PduHeader) -> Layout {
        let format = self.replies.format;
        let digest = |is_used: bool| if is_used { DIGEST_BYTES } else { 0 };
        let data = header.data_bytes();
        let header_bytes = HEADER_BYTES + header.additional_bytes();
        let data_at = header_bytes + digest(format.header_digest);
        let data_digest = digest(format.data_digest && data > 0);
        Layout {
            data_at,
            data,
            total: data_at + data + padding(data) + data_digest,
        }
    }

    /// Asks a silent initiator for a sign of life, once.
    fn ping(&mut self) -> Result<(), Disconnected> {
        if self.is_pinged {
            return Err(Disconnected);
        }
        self.is_pinged = true;
        let header = PduHeader::new(response::NOP_IN, FINAL)
            .with_tag(NO_TAG)
            .with_u32::<20>(PING_TAG);
        self.replies.push(header, Numbering::Shows, &[]);
        self.flush()
    }

    /// Rejects a PDU, and ends the session.
    fn broken(&mut self, header: &PduHeader, reason: Reason) -> Result<End, Disconnected> {
        self.reject(header, reason);
        self.flush()?;
        Err(Disconnected)
    }

    /// Fails if the digest of the header is wrong: its lengths cannot be trusted, so there is no
    /// next PDU.
    fn check_header(&self, layout: &Layout, input: &Input) -> Result<(), Disconnected> {
        if !self.replies.format.header_digest {
            return Ok(());
        }
        let covered = layout.data_at - DIGEST_BYTES;
        let header = input.peek(0, covered).ok_or(Disconnected)?;
        match input.peek(covered, DIGEST_BYTES) == Some(&digest(header)) {
            true => Ok(()),
            false => Err(Disconnected),
        }
    }

    /// Returns false if the digest of the data is wrong.
    fn data_matches(&self, layout: &Layout, input: &Input) -> Result<bool, Disconnected> {
        if self.replies.format.data_digest && layout.data > 0 {
            let covered = layout.data + padding(layout.data);
            let data = input.peek(layout.data_at, covered).ok_or(Disconnected)?;
            let received = input.peek(layout.data_at + covered, DIGEST_BYTES);
            return Ok(received == Some(&digest(data)));
        }
        Ok(true)
    }

    /// Handles the first PDU of the input, and removes it.
    fn pdu(
        &mut self,
        header: &PduHeader,
        layout: &Layout,
        input: &mut Input,
    ) -> Result<Next, Disconnected> {
        if !self.data_matches(layout, input)? {
            return Ok(Next::Broken(Reason::DataDigest));
        }
        let data = input.peek(layout.data_at, layout.data).unwrap_or_default();
        let operation = header.operation();
        let is_numbered = matches!(
            operation,
            request::COMMAND
                | request::TASK_MANAGEMENT
                | request::TEXT
                | request::LOGOUT
                | request::NOP_OUT
        );
        if is_numbered && !header.is_immediate() {
            let (expected, most) = self.workers.service().sender.window.bounds();
            let ahead = header.u32_at::<24>().wrapping_sub(expected);
            if ahead > most.wrapping_sub(expected) || most.wrapping_add(1) == expected {
                // Outside of the window: ignored (RFC 7143, 4.2.2.1).
                input.consume(layout.total);
                return Ok(Next::Continue);
            }
            if ahead != 0 {
                // One connection delivers commands in order.
                return Ok(Next::Broken(Reason::ProtocolError));
            }
            self.workers.service().sender.window.advance();
        }
        let is_discovery = self.names.target.is_none();
        let next = match operation {
            request::NOP_OUT => self.nop(header, data),
            request::TEXT => self.text(header, data)?,
            request::LOGOUT => return self.logout(header),
            _ if is_discovery => Next::Broken(Reason::ProtocolError),
            request::COMMAND => {
                let next_follows = input.available().len() > layout.total;
                self.command(header, data, next_follows)?
            }
            request::DATA_OUT => self.data_out(header, data)?,
            request::TASK_MANAGEMENT => self.task_management(header)?,
            request::SNACK => Next::Broken(Reason::Snack),
            _ => Next::Broken(Reason::NotSupported),
        };
        input.consume(layout.total);
        if operation == request::COMMAND && self.workers_are_idle() && self.replies.is_empty() {
            self.look_ahead(input);
        }
        Ok(next)
    }

    fn nop(&mut self, header: &PduHeader, data: &[u8]) -> Next {
        if header.tag() == NO_TAG {
            // The answer to our own, or a sign of life.
            return Next::Continue;
        }
        let answer = PduHeader::new(response::NOP_IN, FINAL)
            .with_tag(header.tag())
            .with_u32::<20>(NO_TAG);
        let most = self.parameters.send_bytes as usize;
        let data = data.get(..data.len().min(most)).unwrap_or_default();
        self.replies.push(answer, Numbering::Takes, data);
        Next::Continue
    }

    fn logout(&mut self, header: &PduHeader) -> Result<Next, Disconnected> {
        let is_recovery = header.flags() & 0x7f >= FOR_RECOVERY;
        // Answers of commands in flight go first.
        self.flush()?;
        self.workers.cancel_held();
        self.incoming.abort(None, None);
        self.workers.drain();
        let result = if is_recovery { 2 } else { 0 };
        let answer = PduHeader::new(response::LOGOUT, FINAL)
            .with_u8::<2>(result)
            .with_tag(header.tag());
        self.replies.push(answer, Numbering::Takes, &[]);
        self.flush()?;
        match is_recovery {
            true => Ok(Next::Broken(Reason::ProtocolError)),
            false => Ok(Next::LoggedOut),
        }
    }
}

//! Runs the transmission phase of one connection. The session calls this after the handshake.
//!
//! Invariant: this thread executes only requests that need no waiting, except a read while the
//! client has nothing else in flight. Requests that may wait go to the workers, so later requests
//! overtake them. Memory beyond the connection's own is leased before it is used. While that waits,
//! no reply that could be sent is delayed. No read of a disconnected client is begun: this thread
//! checks before a large one, and once in a while before small ones.

use crate::REQUEST_BYTES_MAX;
use crate::command::Export;
use crate::wire::requests::{Command, NbdRequest, decode, header_bytes};
use crate::workers::{ExportService, Job, lane_of};
use connections::{BATCH_BYTES, Disconnected, End, Habits, INPUT_BYTES, Input, Lane, Lease};
use connections::{Output, ReplyWriter, SMALL_REPLY_BYTES, SessionContext, Tally, Workers};
use std::sync::Arc;
use std::time::Instant;

/// Number of reads in flight above which none is announced: the system makes this thread wait when
/// the device's queue is full, and so would requests that need no device.
const ANNOUNCED_MAX: usize = 64;

/// The state of a connection after the handshake.
pub(super) struct Transmission<'a> {
    pub(super) context: &'a SessionContext,
    pub(super) export: Arc<Export>,
    pub(super) writer: Arc<ReplyWriter>,
    pub(super) workers: Workers<ExportService>,
    pub(super) output: Output,
    pub(super) tally: Tally,
    /// Arrival time of the last bytes.
    pub(super) arrived: Instant,
    pub(super) habits: Habits,
    /// Payload of requests since the last replies were sent, bytes.
    pub(super) taken: usize,
    /// Lease for the large request that is arriving.
    pub(super) incoming: Option<Lease>,
}

impl Transmission<'_> {
    pub(super) fn run(&mut self, mut input: Input) -> Result<End, Disconnected> {
        let extended = self.export.extended();
        let header = header_bytes(extended);
        let connection = &*self.context.connection;
        loop {
            let mut needed = header;
            if let Some(bytes) = input.peek(0, header) {
                let request = decode(bytes, extended).ok_or(Disconnected)?;
                let payload_bytes = request.payload_bytes(extended);
                if payload_bytes > u64::from(REQUEST_BYTES_MAX) {
                    // The protocol document wants such clients dropped instead of their bytes
                    // skipped.
                    return Err(Disconnected);
                }
                if request.command == Command::Disconnect as u16 {
                    return Ok(End::Clean);
                }
                needed = header + payload_bytes as usize;
                if input.peek(0, needed).is_some() {
                    if let Some(lease) = &self.incoming {
                        lease.transferred();
                    }
                    self.request(&request, &mut input, header)?;
                    self.taken += payload_bytes as usize;
                    if self.output.len() + self.taken >= BATCH_BYTES {
                        self.flush()?;
                    }
                    continue;
                }
                if needed > INPUT_BYTES && self.incoming.is_none() {
                    let lease = self.lease(Lane::Changes, payload_bytes)?;
                    lease.transfer(payload_bytes);
                    self.incoming = Some(lease);
                }
            }
            self.flush()?;
            if connection.closing() {
                return Ok(End::Clean);
            }
            match input.fill(&*connection.stream, needed) {
                Ok(0) if input.available().is_empty() => return Ok(End::Clean),
                Ok(0) | Err(_) => return Err(Disconnected),
                Ok(received) => {
                    connection.count(received);
                    self.arrived = Instant::now();
                }
            }
        }
    }

    /// Leases memory for a request. Replies do not wait meanwhile.
    fn lease(&mut self, lane: Lane, bytes: u64) -> Result<Lease, Disconnected> {
        let share = match lane {
            Lane::Reads => &self.context.reads,
            Lane::Changes | Lane::Flushes => &self.context.changes,
        };
        if let Some(lease) = share.try_take(bytes) {
            return Ok(lease);
        }
        self.flush()?;
        share.take(bytes).ok_or(Disconnected)
    }

    /// Executes the first request of the input, or hands it on, and removes it.
    fn request(
        &mut self,
        request: &NbdRequest,
        input: &mut Input,
        header: usize,
    ) -> Result<(), Disconnected> {
        let payload_bytes = request.payload_bytes(self.export.extended()) as usize;
        let total = header + payload_bytes;
        let reply_bytes = self.export.reply_bytes(request);
        let is_large = reply_bytes > SMALL_REPLY_BYTES;
        if lane_of(request.command) == Lane::Reads {
            let connection = &self.context.connection;
            self.habits.look_for_client(connection, is_large)?;
        }
        let large = match is_large {
            true => Some(self.lease(Lane::Reads, reply_bytes)?),
            false => None,
        };
        let payload = input.peek(header, payload_bytes).unwrap_or_default();
        let (out, tally) = (&mut self.output, &mut self.tally);
        if self.export.execute(request, payload, false, out, tally) {
            input.consume(total);
            self.incoming = None;
            return match large {
                Some(lease) => self.flush_large(&lease),
                None => Ok(()),
            };
        }
        let lane = lane_of(request.command);
        if lane == Lane::Reads {
            if input.available().len() > total || self.workers.in_flight(lane) > 0 {
                self.habits.keeps_several();
            }
            if !self.habits.is_for_workers() {
                return self.read_here(request, input, (header, payload_bytes), large);
            }
        }
        let is_announced = lane == Lane::Reads
            && self.workers.in_flight(lane) < ANNOUNCED_MAX
            && self.export.announce(request);
        let cost_bytes = reply_bytes.saturating_add(payload_bytes as u64);
        if !self.workers.has_room(lane, cost_bytes) {
            self.flush()?;
        }
        let lease = match large.or(self.incoming.take()) {
            Some(lease) => lease,
            None => self.lease(lane, cost_bytes)?,
        };
        let job = Job {
            request: *request,
            payload: input.take(header, payload_bytes),
            lease,
            cost_bytes,
            announced: is_announced.then_some(self.arrived),
        };
        if let Err(job) = self.workers.submit(job) {
            // No thread can be started, so later requests wait behind this one.
            self.flush()?;
            let payload = job.payload.as_bytes();
            let (out, tally) = (&mut self.output, &mut self.tally);
            self.export.execute(request, payload, true, out, tally);
            self.flush()?;
        }
        Ok(())
    }

    /// Executes a read that waits, while nothing else is in flight, without a change of threads.
    fn read_here(
        &mut self,
        request: &NbdRequest,
        input: &mut Input,
        (header, payload_bytes): (usize, usize),
        lease: Option<Lease>,
    ) -> Result<(), Disconnected> {
        // Finished replies must not wait for the device.
        self.flush()?;
        let payload = input.peek(header, payload_bytes).unwrap_or_default();
        let (out, tally) = (&mut self.output, &mut self.tally);
        self.export.execute(request, payload, true, out, tally);
        input.consume(header + payload_bytes);
        let stream = &*self.context.connection.stream;
        if input.fill_now(stream).unwrap_or(false) {
            // The client did not wait for this reply before it sent the next request.
            self.habits.keeps_several();
        }
        match lease {
            Some(lease) => self.flush_large(&lease),
            None => self.flush(),
        }
    }

    /// Sends before the memory of a large reply is released.
    fn flush_large(&mut self, lease: &Lease) -> Result<(), Disconnected> {
        lease.transfer(self.output.len() as u64);
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Result<(), Disconnected> {
        self.taken = 0;
        if self.output.is_empty() {
            return Ok(());
        }
        // Count before sending: a client that has a reply must find it counted.
        let bytes = self.output.len();
        self.context.counters.add(&mut self.tally, bytes);
        let sent = self.writer.send(self.output.as_bytes());
        self.output.clear();
        sent
    }
}

//! Implements the input and output buffers of a connection. Sessions and workers own one
//! each.
//!
//! Invariant: bytes are never moved or cleared on the hot path. A buffer that grew for one large
//! request shrinks again. Code that lets a buffer grow has leased the memory.

use crate::stream::ByteStream;
use parking_lot::Mutex;
use std::io;

/// Input memory that a connection keeps, bytes: many small requests, or a write of usual size.
pub const INPUT_BYTES: usize = 256 << 10;
/// Up to this size an output doubles when it grows, bytes. Beyond it grows by the size of one
/// reply.
const OUTPUT_DOUBLING_BYTES: usize = 1 << 20;
/// Memory that outputs share, bytes.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Bytes that were received and not used yet.
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// The payload of one request, for a thread that outlives the input.
pub struct Payload {
    bytes: Vec<u8>,
    start: usize,
}

impl Payload {
    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

impl Input {
    /// Makes an empty input.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            bytes: vec![0; INPUT_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Returns all buffered bytes.
    pub fn available(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns `len` bytes after the first `skip` ones, if they have arrived.
    pub fn peek(&self, skip: usize, len: usize) -> Option<&[u8]> {
        let rest = self.available().get(skip..)?;
        rest.get(..len)
    }

    /// Drops the first `len` bytes, or all if there are fewer.
    pub fn consume(&mut self, len: usize) {
        self.start = self.start.saturating_add(len).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Removes the first `header` bytes and returns the `len` ones after them. Large payloads leave
    /// without a copy, together with their memory.
    pub fn take(&mut self, header: usize, len: usize) -> Payload {
        let total = header.saturating_add(len);
        if self.bytes.len() <= INPUT_BYTES || self.peek(header, len).is_none() {
            let bytes = self.peek(header, len).unwrap_or_default().to_vec();
            self.consume(total);
            return Payload { bytes, start: 0 };
        }
        let start = self.start + header;
        let rest = self.bytes.get(start + len..self.end).unwrap_or_default();
        let mut fresh = vec![0; INPUT_BYTES.max(rest.len())];
        fresh[..rest.len()].copy_from_slice(rest);
        let rest_len = rest.len();
        let mut bytes = std::mem::replace(&mut self.bytes, fresh);
        (self.start, self.end) = (0, rest_len);
        bytes.truncate(start + len);
        Payload { bytes, start }
    }

    /// Makes space for `needed` bytes from the start on, growing if necessary.
    fn make_room(&mut self, needed: usize) {
        let keep = self.end - self.start;
        if self.bytes.len() > INPUT_BYTES && needed.max(keep) <= INPUT_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            self.bytes.truncate(INPUT_BYTES);
            self.bytes.shrink_to_fit();
            (self.start, self.end) = (0, keep);
        } else if self.start + needed > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, keep);
            if needed > self.bytes.len() {
                self.bytes.resize(needed, 0);
            }
        }
    }

    /// Waits for bytes, with space for a message of `needed`. Returns 0 at the end of the stream.
    pub fn fill(&mut self, stream: &dyn ByteStream, needed: usize) -> io::Result<usize> {
        self.make_room(needed);
        let free = self.bytes.get_mut(self.end..).unwrap_or_default();
        debug_assert!(
            !free.is_empty(),
            "a full buffer is used before it is filled"
        );
        let received = stream.recv(free)?;
        self.end += received;
        Ok(received)
    }

    /// Takes bytes that have arrived meanwhile. Returns true if there were any.
    pub fn fill_now(&mut self, stream: &dyn ByteStream) -> io::Result<bool> {
        self.make_room(0);
        let free = self.bytes.get_mut(self.end..).unwrap_or_default();
        if free.is_empty() {
            return Ok(true);
        }
        // The next fill reports the end of the stream.
        let received = stream.recv_now(free)?.unwrap_or(0);
        self.end += received;
        Ok(received > 0)
    }
}

/// Memory of large replies that the outputs of all connections share. Fresh memory is cleared, and
/// the system maps it page by page.
struct Spare(Mutex<Vec<Vec<u8>>>);

static SPARE: Spare = Spare(Mutex::new(Vec::new()));

impl Spare {
    /// Returns a buffer that is at least `len` bytes long, and at most twice that.
    fn take(&self, len: usize) -> Option<Vec<u8>> {
        let mut buffers = self.0.lock();
        let fits = |buffer: &Vec<u8>| (len..=len.saturating_mul(2)).contains(&buffer.len());
        let found = buffers.iter().rposition(fits);
        found.map(|at| buffers.swap_remove(at))
    }

    /// Keeps a buffer. The oldest are freed if there are too many.
    fn give(&self, buffer: Vec<u8>) {
        let mut buffers = self.0.lock();
        buffers.push(buffer);
        let bytes = |buffers: &[Vec<u8>]| buffers.iter().map(Vec::capacity).sum::<usize>();
        while bytes(&buffers) > SPARE_BYTES_MAX {
            buffers.remove(0);
        }
    }
}

/// Replies that were not sent yet. The vector stays initialised beyond `end`, so that reserving
/// space for data needs no clearing.
pub struct Output {
    bytes: Vec<u8>,
    end: usize,
    kept_bytes: usize,
}

impl Output {
    /// Makes an empty output that keeps up to `kept_bytes` of memory between replies.
    pub fn new(kept_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            end: 0,
            kept_bytes,
        }
    }

    /// Returns the number of buffered bytes.
    pub fn len(&self) -> usize {
        self.end
    }

    /// Returns true if nothing is buffered.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Returns all buffered bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }

    /// Returns `len` buffered bytes after the first `skip` ones, to change them.
    pub fn part_mut(&mut self, skip: usize, len: usize) -> Option<&mut [u8]> {
        let end = skip.checked_add(len).filter(|end| *end <= self.end)?;
        self.bytes.get_mut(skip..end)
    }

    /// Drops all bytes after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(len);
    }

    /// Appends `len` bytes of unspecified content. The caller limits `len`.
    pub fn reserve(&mut self, len: usize) -> &mut [u8] {
        let start = self.end;
        let end = start + len;
        if end > self.bytes.len() {
            let grown = match end <= OUTPUT_DOUBLING_BYTES {
                true => end.next_power_of_two().max(4096),
                false => end,
            };
            self.grow(start, grown);
        }
        self.end = end;
        &mut self.bytes[start..end]
    }

    /// Grows to `len` bytes and keeps the first `used`.
    fn grow(&mut self, used: usize, len: usize) {
        // An output gives away only what is longer than it keeps.
        let is_shared = len > self.kept_bytes;
        let Some(mut spare) = is_shared.then(|| SPARE.take(len)).flatten() else {
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
            return;
        };
        if let (Some(to), Some(from)) = (spare.get_mut(..used), self.bytes.get(..used)) {
            to.copy_from_slice(from);
        }
        self.bytes = spare;
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len()).copy_from_slice(bytes);
    }

    /// Drops everything, and gives memory away after an unusually large reply.
    pub fn clear(&mut self) {
        self.end = 0;
        if self.bytes.len() > self.kept_bytes {
            SPARE.give(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_replies_use_the_same_memory_again() {
        let spare = Spare(Mutex::default());
        spare.give(vec![1; 1000]);
        assert_eq!(spare.take(1001), None);
        assert_eq!(spare.take(499), None, "too much of it would lie idle");
        assert_eq!(spare.take(500), Some(vec![1; 1000]));
        assert_eq!(spare.take(500), None);
        (0..9).for_each(|n| spare.give(vec![n; SPARE_BYTES_MAX / 4]));
        assert_eq!(spare.0.lock().len(), 4);
        spare.give(vec![0; 2 * SPARE_BYTES_MAX]);
        assert!(spare.0.lock().is_empty());
    }

    #[test]
    fn an_output_keeps_its_beginning_when_it_grows() {
        for _ in 0..3 {
            let mut output = Output::new(4096);
            output.push(b"header");
            output.reserve(100_000).fill(7);
            output.push(b"end");
            let bytes = output.as_bytes();
            assert_eq!(
                (&bytes[..6], &bytes[100_006..]),
                (&b"header"[..], &b"end"[..])
            );
            assert!(bytes[6..100_006].iter().all(|byte| *byte == 7));
            output.clear();
            assert!(output.is_empty());
        }
    }
}

//! Encodes replies of the transmission phase. Commands call this.
//!
//! Invariant: headers have a fixed length per style, known before the payload is. The style is
//! chosen once, in the handshake.

use super::constants::{EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};

/// Style of replies, chosen by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// An error and perhaps data.
    Simple,
    /// Chunks.
    Structured,
    /// Chunks with 64-bit lengths.
    Extended,
}

/// An error in the protocol, with Linux numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not allowed.
    NotPermitted = 1,
    /// Input/output error.
    Io = 5,
    /// Malformed or out of range.
    Invalid = 22,
    /// No space, or a write past the end.
    NoSpace = 28,
    /// Larger than this server serves in one piece.
    Overflow = 75,
    /// Not supported (in this form).
    NotSupported = 95,
    /// The server is going down.
    Shutdown = 108,
}

/// Contents of a chunk header in any style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Type, see [`chunk`].
    pub kind: u16,
    /// Last one of the reply.
    pub done: bool,
    /// Cookie of the request.
    pub cookie: u64,
    /// Offset of the request, bytes.
    pub offset_bytes: u64,
    /// Length of the payload, bytes; below 4 GiB by the limit on requests.
    pub payload_bytes: u32,
}

/// A header of any style.
#[derive(Clone, Copy, Debug)]
pub struct ReplyHeader {
    bytes: [u8; 32],
    len: usize,
}

impl ReplyHeader {
    /// Returns the encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

struct ReplyWriter(ReplyHeader);

impl ReplyWriter {
    fn new() -> Self {
        Self(ReplyHeader {
            bytes: [0; 32],
            len: 0,
        })
    }

    fn put<const N: usize>(mut self, field: [u8; N]) -> Self {
        let end = self.0.len + N;
        self.0.bytes[self.0.len..end].copy_from_slice(&field);
        self.0.len = end;
        self
    }
}

/// Length of a chunk's header, bytes.
pub const STRUCTURED_BYTES: usize = 20;
/// Length of an extended chunk's header, bytes.
pub const EXTENDED_BYTES: usize = 32;

/// Makes a simple reply. Data follows if the request was a read and `error` is `None`.
pub fn simple(cookie: u64, error: Option<Errno>) -> ReplyHeader {
    let error = error.map_or(0, |e| e as u32);
    ReplyWriter::new()
        .put(SIMPLE_REPLY_MAGIC.to_be_bytes())
        .put(error.to_be_bytes())
        .put(cookie.to_be_bytes())
        .0
}

/// Makes the header of a chunk: the long one with [`Style::Extended`], else the short one.
pub fn chunk_header(style: Style, header: ChunkHeader) -> ReplyHeader {
    let flags = if header.done { chunk::FLAG_DONE } else { 0 };
    let start = |magic: u32| {
        ReplyWriter::new()
            .put(magic.to_be_bytes())
            .put(flags.to_be_bytes())
            .put(header.kind.to_be_bytes())
            .put(header.cookie.to_be_bytes())
    };
    if style == Style::Extended {
        start(EXTENDED_REPLY_MAGIC)
            .put(header.offset_bytes.to_be_bytes())
            .put(u64::from(header.payload_bytes).to_be_bytes())
            .0
    } else {
        start(STRUCTURED_REPLY_MAGIC)
            .put(header.payload_bytes.to_be_bytes())
            .0
    }
}

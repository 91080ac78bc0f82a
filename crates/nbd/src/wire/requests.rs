//! Decodes requests of the transmission phase. Sessions call this.
//!
//! Invariant: a decoded request is well-formed, but not necessarily allowed. Ranges and flags are
//! checked where it is executed.

use super::constants::{EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, command_flag};
use super::cursor::Cursor;

/// Length of a compact request without payload, bytes.
pub const COMPACT_BYTES: usize = 28;
/// Length of an extended request without payload, bytes.
pub const EXTENDED_BYTES: usize = 32;

/// Longest payload of BLOCK_STATUS that is decoded, bytes. It holds far more contexts than exist.
const STATUS_FILTER_BYTES_MAX: usize = 4096;

/// Commands of a client in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Command {
    /// Read bytes.
    Read = 0,
    /// Write the payload.
    Write = 1,
    /// Disconnect, without reply.
    Disconnect = 2,
    /// Make acknowledged writes durable.
    Flush = 3,
    /// Free space.
    Trim = 4,
    /// Prefetch.
    Cache = 5,
    /// Write zeroes.
    WriteZeroes = 6,
    /// Describe extents.
    BlockStatus = 7,
}

impl Command {
    /// Every command, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Disconnect,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];

    /// Returns the command with this number, if it is known here.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A request as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdRequest {
    /// Flags, see [`command_flag`].
    pub flags: u16,
    /// Number of the command, known or not.
    pub command: u16,
    /// Number that the reply repeats.
    pub cookie: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Length of the range or of the payload, bytes.
    pub len_bytes: u64,
}

impl NbdRequest {
    /// Returns the length of the payload after the request, bytes.
    ///
    /// The protocol document requires PAYLOAD_LEN on every extended WRITE. qemu's client (10.0)
    /// omits it and still sends the payload. qemu's server accepts both, and so does this one.
    pub fn payload_bytes(&self, extended: bool) -> u64 {
        let write = self.command == Command::Write as u16;
        let flagged = extended && self.flags & command_flag::PAYLOAD_LEN != 0;
        if write || flagged { self.len_bytes } else { 0 }
    }
}

/// Returns the length of a request without payload, bytes.
pub fn header_bytes(extended: bool) -> usize {
    if extended {
        EXTENDED_BYTES
    } else {
        COMPACT_BYTES
    }
}

/// Decodes a request of [`header_bytes`]; `None` if too short or with a wrong magic.
pub fn decode(bytes: &[u8], extended: bool) -> Option<NbdRequest> {
    let mut cursor = Cursor::new(bytes);
    let magic = if extended {
        EXTENDED_REQUEST_MAGIC
    } else {
        REQUEST_MAGIC
    };
    if cursor.u32()? != magic {
        return None;
    }
    Some(NbdRequest {
        flags: cursor.u16()?,
        command: cursor.u16()?,
        cookie: cursor.u64()?,
        offset_bytes: cursor.u64()?,
        len_bytes: match extended {
            true => cursor.u64()?,
            false => u64::from(cursor.u32()?),
        },
    })
}

/// The payload of a BLOCK_STATUS request: the contexts to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFilter {
    /// Length of the range to describe, bytes.
    pub len_bytes: u64,
    /// Contexts in the requested order; at least one.
    pub ids: Vec<u32>,
}

/// Decodes the payload of BLOCK_STATUS; `None` if it names no context or ends in the middle.
pub fn decode_status_filter(payload: &[u8]) -> Option<StatusFilter> {
    let mut cursor = Cursor::new(payload);
    let len_bytes = cursor.u64()?;
    if payload.len() > STATUS_FILTER_BYTES_MAX {
        return None;
    }
    let mut ids = vec![cursor.u32()?];
    while !cursor.is_empty() {
        ids.push(cursor.u32()?);
    }
    Some(StatusFilter { len_bytes, ids })
}

/// Encodes a request, as a client does.
pub fn encode(request: &NbdRequest, extended: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(EXTENDED_BYTES);
    let magic = if extended {
        EXTENDED_REQUEST_MAGIC
    } else {
        REQUEST_MAGIC
    };
    bytes.extend_from_slice(&magic.to_be_bytes());
    bytes.extend_from_slice(&request.flags.to_be_bytes());
    bytes.extend_from_slice(&request.command.to_be_bytes());
    bytes.extend_from_slice(&request.cookie.to_be_bytes());
    bytes.extend_from_slice(&request.offset_bytes.to_be_bytes());
    if extended {
        bytes.extend_from_slice(&request.len_bytes.to_be_bytes());
    } else {
        bytes.extend_from_slice(&(request.len_bytes as u32).to_be_bytes());
    }
    bytes
}

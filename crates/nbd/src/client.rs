//! A client that reads an export: size, bytes, and which ranges are zeroes. `quintet import` calls
//! this, for servers of the network and for `qemu-nbd`.
//!
//! Invariant: nothing that a server sends causes a panic, a larger allocation than the limits here
//! allow, or an answer without end. A byte counts as read only if the server sent it once, in reply
//! to this request. How long a reply may take is up to the stream. Source: doc/proto.md of the NBD
//! project.

mod handshake;
#[cfg(test)]
mod tests;

use crate::wire::constants::{SIMPLE_REPLY_MAGIC, STATE_ZERO, STRUCTURED_REPLY_MAGIC, chunk};
use crate::wire::cursor::Cursor;
use crate::wire::requests::{Command, NbdRequest, encode};
use std::io::{self, ErrorKind, Read, Write};

/// Bit of the type of chunks that are errors.
const CHUNK_IS_ERROR: u16 = 1 << 15;
/// Chunks of one reply.
const CHUNKS_MAX: usize = 1 << 16;
/// Longest reply with errors or extents, bytes: as many extents as qemu sends, and more than any
/// message.
const PAYLOAD_BYTES_MAX: u32 = 4 + 8 * (1 << 20);
/// Largest range of one question about zeroes, bytes.
const STATUS_BYTES_MAX: u64 = 1 << 31;

/// Reason why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed: the system's error, or the end of the stream.
    #[error("{}", units::reason(.0))]
    Stream(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server broke the protocol.
    #[error("the server breaks the NBD protocol: {0}")]
    Protocol(String),
    /// The server does not let this client read the export.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The server could not carry out one request: the number of a system error. The next request
    /// may succeed.
    #[error("{}", units::reason(&io::Error::from_raw_os_error(*.0)))]
    Request(i32),
}

type Result<T> = std::result::Result<T, ClientError>;

fn broken<T>(why: impl Into<String>) -> Result<T> {
    Err(ClientError::Protocol(why.into()))
}

/// A run of bytes of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportExtent {
    /// Length, bytes; never 0.
    pub len: u64,
    /// It reads as zeroes.
    pub zero: bool,
}

/// A connection to one export.
pub struct Client<S> {
    stream: S,
    size: u64,
    /// Replies come in chunks.
    structured: bool,
    /// Flags of reads. With DF a reply has one chunk: qemu (7.2) ends the connection if it cannot
    /// read the data of one of several.
    read_flags: u16,
    /// Number of base:allocation, if the server has it.
    allocation: Option<u32>,
    /// Offsets and lengths of requests are multiples of it, bytes.
    block_bytes: u32,
    /// Longest read, bytes: a multiple of a block.
    read_bytes_max: u32,
    cookie: u64,
}

/// Head of a reply, or of one chunk of it.
enum Head {
    Simple { errno: u32 },
    Chunk { flags: u16, kind: u16, len: u32 },
}

impl<S: Read + Write> Client<S> {
    /// Opens an export at the other end of a new connection.
    pub fn connect(stream: S, export: &str) -> Result<Self> {
        handshake::run(stream, export)
    }

    /// Returns the size of the export, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if the server can say which ranges are zeroes.
    pub fn knows_zeroes(&self) -> bool {
        self.allocation.is_some()
    }

    /// Fills `into` from `offset`; the range is inside of the export.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        let (block, most) = (u64::from(self.block_bytes), u64::from(self.read_bytes_max));
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            // A piece crosses no multiple of the longest read, so that whole blocks of it fit.
            let len = (most - at % most).min(rest.len() as u64);
            let Some((piece, later)) = rest.split_at_mut_checked(len as usize) else {
                return Ok(());
            };
            let from = at / block * block;
            let to = (at + len).next_multiple_of(block).min(self.size);
            if (from, to) == (at, at + len) {
                self.read_blocks(at, piece)?;
            } else {
                let mut blocks = vec![0; (to - from) as usize];
                self.read_blocks(from, &mut blocks)?;
                let skipped = (at - from) as usize;
                match blocks.get(skipped..skipped + piece.len()) {
                    Some(bytes) => piece.copy_from_slice(bytes),
                    None => return broken("the range is outside of the export"),
                }
            }
            (at, rest) = (at + len, later);
        }
        Ok(())
    }

    /// Returns extents from `offset` on, in order: at least one, none behind the end.
    pub fn extents(&mut self, offset: u64) -> Result<Vec<ExportExtent>> {
        let len = self.size.saturating_sub(offset).min(STATUS_BYTES_MAX);
        let Some(context) = self.allocation.filter(|_| len > 0) else {
            return Ok(vec![ExportExtent { len, zero: false }]);
        };
        self.ask(Command::BlockStatus, 0, offset, len)?;
        let (mut extents, mut failed) = (Vec::new(), None);
        for _ in 0..CHUNKS_MAX {
            let (flags, kind, payload) = match self.head()? {
                Head::Simple { errno } if errno != 0 => return Err(request_failed(errno)),
                Head::Simple { .. } => return broken("a reply about zeroes has no chunks"),
                Head::Chunk { flags, kind, len } => (flags, kind, self.payload(len)?),
            };
            match kind {
                chunk::NONE if payload.is_empty() => {}
                chunk::BLOCK_STATUS if extents.is_empty() => {
                    extents = decode_extents(&payload, context, len)?;
                }
                kind if kind & CHUNK_IS_ERROR != 0 => failed = Some(decode_error(&payload)?),
                _ => return broken(format!("a reply about zeroes has a chunk of type {kind}")),
            }
            if flags & chunk::FLAG_DONE != 0 {
                return match failed {
                    Some(errno) => Err(request_failed(errno)),
                    None if extents.is_empty() => broken("a reply about zeroes is empty"),
                    None => Ok(extents),
                };
            }
        }
        broken("a reply has no end")
    }

    /// Says that no more requests come. The server may have ended already.
    pub fn disconnect(&mut self) {
        let _ = self.ask(Command::Disconnect, 0, 0, 0);
    }

    fn ask(&mut self, command: Command, flags: u16, offset: u64, len: u64) -> Result<()> {
        self.cookie += 1;
        let request = NbdRequest {
            flags,
            command: command as u16,
            cookie: self.cookie,
            offset_bytes: offset,
            len_bytes: len,
        };
        Ok(self.stream.write_all(&encode(&request, false))?)
    }

    /// Reads the head of a reply to the last request.
    fn head(&mut self) -> Result<Head> {
        let magic = u32::from_be_bytes(self.receive()?);
        let is_chunk = match magic {
            SIMPLE_REPLY_MAGIC => false,
            STRUCTURED_REPLY_MAGIC if self.structured => true,
            _ => return broken("a reply does not begin with its magic number"),
        };
        let first = u32::from_be_bytes(self.receive()?);
        let cookie = u64::from_be_bytes(self.receive()?);
        if cookie != self.cookie {
            return broken("a reply is of another request");
        }
        Ok(match is_chunk {
            false => Head::Simple { errno: first },
            true => Head::Chunk {
                flags: (first >> 16) as u16,
                kind: first as u16,
                len: u32::from_be_bytes(self.receive()?),
            },
        })
    }

    /// Reads one range of whole blocks.
    fn read_blocks(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.ask(Command::Read, self.read_flags, offset, into.len() as u64)?;
        let mut seen: Vec<(u64, u64)> = Vec::new();
        let mut failed = None;
        for _ in 0..CHUNKS_MAX {
            let (flags, kind, len) = match self.head()? {
                Head::Simple { errno } if errno != 0 => return Err(request_failed(errno)),
                Head::Simple { .. } => return self.fill(into),
                Head::Chunk { flags, kind, len } => (flags, kind, len),
            };
            match kind {
                chunk::NONE if len == 0 => {}
                chunk::OFFSET_DATA | chunk::OFFSET_HOLE if len > 8 => {
                    let at = u64::from_be_bytes(self.receive()?);
                    let bytes = match kind {
                        chunk::OFFSET_DATA => u64::from(len - 8),
                        _ if len != 12 => return broken("a hole has a wrong length"),
                        _ => u32::from_be_bytes(self.receive()?).into(),
                    };
                    let place = place_of(at, bytes, offset, into)?;
                    seen.push((at, bytes));
                    match kind {
                        chunk::OFFSET_DATA => self.fill(place)?,
                        _ => place.fill(0),
                    }
                }
                kind if kind & CHUNK_IS_ERROR != 0 => {
                    let payload = self.payload(len)?;
                    failed = Some(decode_error(&payload)?);
                }
                _ => return broken(format!("a reply to a read has a chunk of type {kind}")),
            }
            if flags & chunk::FLAG_DONE != 0 {
                return match failed {
                    Some(errno) => Err(request_failed(errno)),
                    None => expect_all(seen, offset, into.len() as u64),
                };
            }
        }
        broken("a reply has no end")
    }

    fn payload(&mut self, len: u32) -> Result<Vec<u8>> {
        if len > PAYLOAD_BYTES_MAX {
            return broken(format!("a chunk has {len} bytes"));
        }
        let mut payload = vec![0; len as usize];
        self.fill(&mut payload)?;
        Ok(payload)
    }

    fn receive<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        self.stream.read_exact(into).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => ClientError::Closed,
            _ => e.into(),
        })
    }
}

/// Returns the part of `into`, which is of `offset`, for a chunk.
fn place_of(at: u64, bytes: u64, offset: u64, into: &mut [u8]) -> Result<&mut [u8]> {
    let from = at
        .checked_sub(offset)
        .and_then(|from| usize::try_from(from).ok());
    let place = from.and_then(|from| into.get_mut(from..from.checked_add(bytes as usize)?));
    match place {
        Some(place) if !place.is_empty() => Ok(place),
        _ => broken("a reply has bytes that were not asked for"),
    }
}

/// Fails unless the chunks have each byte of the range once.
fn expect_all(mut seen: Vec<(u64, u64)>, offset: u64, len: u64) -> Result<()> {
    seen.sort_unstable();
    let mut next = offset;
    for (at, bytes) in seen {
        if at != next {
            return broken("a reply leaves bytes out, or sends them twice");
        }
        next += bytes;
    }
    match next == offset + len {
        true => Ok(()),
        false => broken("a reply is too short"),
    }
}

fn decode_extents(payload: &[u8], context: u32, len: u64) -> Result<Vec<ExportExtent>> {
    let mut cursor = Cursor::new(payload);
    if cursor.u32() != Some(context) {
        return broken("a reply about zeroes is of another context");
    }
    let (mut extents, mut rest) = (Vec::new(), len);
    while !cursor.is_empty() {
        let (Some(len), Some(state)) = (cursor.u32(), cursor.u32()) else {
            return broken("a reply about zeroes ends in the middle of an extent");
        };
        // The last extent may go on behind the range.
        let len = u64::from(len).min(rest);
        if len == 0 {
            return broken("a reply about zeroes has an extent without bytes");
        }
        rest -= len;
        extents.push(ExportExtent {
            len,
            zero: state & STATE_ZERO != 0,
        });
    }
    Ok(extents)
}

/// Returns the number in a chunk that is an error.
fn decode_error(payload: &[u8]) -> Result<u32> {
    match Cursor::new(payload).u32() {
        Some(0) | None => broken("an error has no number"),
        Some(errno) => Ok(errno),
    }
}

/// Numbers of errors are those of Linux.
fn request_failed(errno: u32) -> ClientError {
    i32::try_from(errno).map_or_else(
        |_| ClientError::Protocol(format!("an error has the number {errno}")),
        ClientError::Request,
    )
}

//! Decodes requests of the kernel. Sessions call this.
//!
//! Invariant: a decoded request is well-formed, but not necessarily allowed. Longer requests than
//! this crate knows are accepted, because newer kernels append fields.

use super::constants::{init, opcode};
use super::cursor::Cursor;
use super::{Handle, NodeId};
use rustix::fs::OFlags;

/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 40;
/// Length of the fields of a write before its data, bytes.
pub const WRITE_BYTES: usize = 40;

/// First part of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Code of the request, see [`opcode`].
    pub opcode: u32,
    /// Number that the reply repeats.
    pub unique: u64,
    /// Node of the request.
    pub node: NodeId,
    /// User of the calling process.
    pub uid: u32,
    /// Group of the calling process.
    pub gid: u32,
    /// The calling process.
    pub pid: u32,
}

/// Offer of the kernel at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Major version of the protocol.
    pub major: u32,
    /// Minor version of the protocol.
    pub minor: u32,
    /// Maximum read-ahead of the kernel, bytes.
    pub readahead_bytes_max: u32,
    /// Features of the kernel, see [`init`].
    pub flags: u64,
}

/// A range of an opened file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Handle from the reply to the open.
    pub handle: Handle,
    /// First byte, or the position at which the listing continues.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
    /// The file was opened with `O_DIRECT`.
    pub is_direct: bool,
}

/// The specific part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Begins the session.
    Init(Offer),
    /// Ends the session.
    Destroy,
    /// Finds `name` in the directory.
    Lookup {
        /// Any bytes but NUL.
        name: &'a [u8],
    },
    /// Subtracts lookups; wants no reply.
    Forget {
        /// Number of lookups.
        lookups: u64,
    },
    /// Subtracts lookups of several nodes; wants no reply.
    BatchForget(Forgets<'a>),
    /// Returns attributes.
    GetAttributes,
    /// Changes attributes.
    SetAttributes {
        /// Attributes to set, see [`super::constants::set_attribute`].
        valid: u32,
        /// New length, bytes.
        size: u64,
    },
    /// Returns the target of a symbolic link.
    ReadLink,
    /// Opens a file or directory.
    Open {
        /// Flags as in open(2).
        flags: u32,
        /// The node is a directory.
        directory: bool,
    },
    /// Reads a file.
    Read(Range),
    /// Writes a file.
    Write {
        /// Range to write; its length is that of the data.
        range: Range,
        /// Bytes to write.
        data: &'a [u8],
        /// The reply must wait until they are durable (O_SYNC, O_DSYNC, RWF_DSYNC).
        is_synchronous: bool,
    },
    /// Lists a directory.
    ReadDirectory {
        /// Position, and length of the reply.
        range: Range,
        /// With attributes.
        plus: bool,
    },
    /// Closes a file or directory for the last time.
    Release {
        /// Handle from the reply to the open.
        handle: Handle,
        /// The node is a directory.
        directory: bool,
    },
    /// Makes a file durable.
    Sync {
        /// Handle from the reply to the open.
        handle: Handle,
        /// The node is a directory.
        directory: bool,
    },
    /// Returns an extended attribute's value.
    GetXattr {
        /// Name of the attribute.
        name: &'a [u8],
        /// Buffer size for the value, bytes; 0 asks for its length.
        room: u32,
    },
    /// Returns the names of the extended attributes.
    ListXattrs {
        /// Buffer size for them, bytes; 0 asks for their length.
        room: u32,
    },
    /// Returns the numbers of the whole file system.
    Statistics,
    /// Changes a range of a file.
    Allocate {
        /// Handle from the reply to the open.
        handle: Handle,
        /// First byte.
        offset: u64,
        /// Length, bytes.
        len: u64,
        /// Kind of change, see [`super::constants::allocate`].
        mode: u32,
    },
    /// Finds data or a hole.
    Seek {
        /// Handle from the reply to the open.
        handle: Handle,
        /// First byte to examine.
        offset: u64,
        /// Target, see [`super::constants::seek`].
        whence: u32,
    },
    /// Any other request: refused.
    Other,
}

/// The list of a batch of forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [u8]);

impl Forgets<'_> {
    /// Yields nodes, and the number of lookups to subtract from each.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.0.chunks_exact(16).filter_map(|one| {
            let mut cursor = Cursor::new(one);
            Some((NodeId(cursor.u64()?), cursor.u64()?))
        })
    }
}

/// Decodes only the header, so that a malformed request can be refused by its number.
pub fn decode_header(bytes: &[u8]) -> Option<RequestHeader> {
    let mut cursor = Cursor::new(bytes);
    cursor.u32()?;
    let header = RequestHeader {
        opcode: cursor.u32()?,
        unique: cursor.u64()?,
        node: NodeId(cursor.u64()?),
        uid: cursor.u32()?,
        gid: cursor.u32()?,
        pid: cursor.u32()?,
    };
    cursor.u32()?;
    Some(header)
}

/// Decodes a whole request; `None` if it is shorter than its layout.
pub fn decode(bytes: &[u8]) -> Option<(RequestHeader, Operation<'_>)> {
    let header = decode_header(bytes)?;
    let body = bytes.get(HEADER_BYTES..)?;
    Some((header, decode_body(header.opcode, body)?))
}

fn decode_body(code: u32, body: &[u8]) -> Option<Operation<'_>> {
    let mut cursor = Cursor::new(body);
    Some(match code {
        opcode::INIT => Operation::Init(offer(&mut cursor)?),
        opcode::DESTROY => Operation::Destroy,
        opcode::LOOKUP => Operation::Lookup {
            name: cursor.name()?,
        },
        opcode::FORGET => Operation::Forget {
            lookups: cursor.u64()?,
        },
        opcode::BATCH_FORGET => {
            let count = cursor.u32()? as usize;
            cursor.u32()?;
            Operation::BatchForget(Forgets(cursor.take(count.checked_mul(16)?)?))
        }
        opcode::GETATTR => Operation::GetAttributes,
        opcode::SETATTR => set_attributes(&mut cursor)?,
        opcode::READLINK => Operation::ReadLink,
        opcode::OPEN | opcode::OPENDIR => Operation::Open {
            flags: cursor.u32()?,
            directory: code == opcode::OPENDIR,
        },
        opcode::READ => Operation::Read(range(&mut cursor)?.0),
        opcode::WRITE => {
            let (range, flags) = range(&mut cursor)?;
            // O_SYNC has the bit of O_DSYNC too.
            let is_synchronous = flags & OFlags::DSYNC.bits() != 0;
            let data = cursor.take(range.len as usize)?;
            Operation::Write {
                range,
                data,
                is_synchronous,
            }
        }
        opcode::READDIR | opcode::READDIRPLUS => Operation::ReadDirectory {
            range: range(&mut cursor)?.0,
            plus: code == opcode::READDIRPLUS,
        },
        opcode::RELEASE | opcode::RELEASEDIR => Operation::Release {
            handle: Handle(cursor.u64()?),
            directory: code == opcode::RELEASEDIR,
        },
        opcode::FSYNC | opcode::FSYNCDIR => Operation::Sync {
            handle: Handle(cursor.u64()?),
            directory: code == opcode::FSYNCDIR,
        },
        opcode::GETXATTR => {
            let room = cursor.u32()?;
            cursor.u32()?;
            let name = cursor.name()?;
            Operation::GetXattr { name, room }
        }
        opcode::LISTXATTR => Operation::ListXattrs {
            room: cursor.u32()?,
        },
        opcode::STATFS => Operation::Statistics,
        opcode::FALLOCATE => Operation::Allocate {
            handle: Handle(cursor.u64()?),
            offset: cursor.u64()?,
            len: cursor.u64()?,
            mode: cursor.u32()?,
        },
        opcode::LSEEK => Operation::Seek {
            handle: Handle(cursor.u64()?),
            offset: cursor.u64()?,
            whence: cursor.u32()?,
        },
        _ => Operation::Other,
    })
}

fn offer(cursor: &mut Cursor<'_>) -> Option<Offer> {
    let mut offer = Offer {
        major: cursor.u32()?,
        minor: cursor.u32()?,
        readahead_bytes_max: cursor.u32()?,
        flags: u64::from(cursor.u32()?),
    };
    if offer.flags & init::INIT_EXT != 0 {
        offer.flags |= u64::from(cursor.u32()?) << 32;
    }
    Some(offer)
}

fn set_attributes<'a>(cursor: &mut Cursor<'_>) -> Option<Operation<'a>> {
    let valid = cursor.u32()?;
    cursor.take(12)?;
    let size = cursor.u64()?;
    cursor.take(64)?;
    Some(Operation::SetAttributes { valid, size })
}

/// Decodes the fields of READ, WRITE and READDIR: the range, and the flags of the open file.
fn range(cursor: &mut Cursor<'_>) -> Option<(Range, u32)> {
    let (handle, offset, len) = (Handle(cursor.u64()?), cursor.u64()?, cursor.u32()?);
    // How the kernel made the request, and the owner of locks.
    cursor.take(12)?;
    let flags = cursor.u32()?;
    cursor.u32()?;
    let range = Range {
        handle,
        offset,
        len,
        is_direct: flags & OFlags::DIRECT.bits() != 0,
    };
    Some((range, flags))
}

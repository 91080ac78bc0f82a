//! Layouts of what the kernel sends.
//!
//! Invariant: a decoded request is only well-formed, not allowed; what is longer than this room
//! knows is accepted, as newer kernels append fields. Sessions call this.

use super::constants::{init, opcode};
use super::cursor::Cursor;
use super::{Handle, NodeId};

/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 40;
/// Length of the fields of a write before its data, bytes.
pub const WRITE_BYTES: usize = 40;

/// What every request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What is asked for, see [`opcode`].
    pub opcode: u32,
    /// Given back in the reply.
    pub unique: u64,
    /// Which node it is about.
    pub node: NodeId,
    /// Who asks.
    pub uid: u32,
    /// The asker's group.
    pub gid: u32,
    /// The asker's process.
    pub pid: u32,
}

/// What the kernel offers at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Version of the protocol.
    pub major: u32,
    /// Version of the protocol.
    pub minor: u32,
    /// Most that it reads ahead, bytes.
    pub readahead_bytes_max: u32,
    /// What it can do, see [`init`].
    pub flags: u64,
}

/// A range of an opened file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// From the reply to the open.
    pub handle: Handle,
    /// First byte, or where the listing goes on.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
}

/// A request's own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Begins the session.
    Init(Offer),
    /// Ends it.
    Destroy,
    /// Finds `name` in the directory.
    Lookup {
        /// Any bytes but NUL.
        name: &'a [u8],
    },
    /// Gives lookups back; wants no reply.
    Forget {
        /// How many.
        lookups: u64,
    },
    /// Gives lookups of several nodes back; wants no reply.
    BatchForget(Forgets<'a>),
    /// Attributes.
    GetAttributes,
    /// Changes attributes.
    SetAttributes {
        /// Which, see [`super::constants::set_attribute`].
        valid: u32,
        /// New length, bytes.
        size: u64,
    },
    /// Target of a symbolic link.
    ReadLink,
    /// Opens a file or directory.
    Open {
        /// As in open(2).
        flags: u32,
        /// It is a directory.
        directory: bool,
    },
    /// Reads a file.
    Read(Range),
    /// Writes a file.
    Write {
        /// Where; its length is that of the data.
        range: Range,
        /// What.
        data: &'a [u8],
    },
    /// Lists a directory.
    ReadDirectory {
        /// Where, and how much.
        range: Range,
        /// With attributes.
        plus: bool,
    },
    /// Closes a file or directory for the last time.
    Release {
        /// From the reply to the open.
        handle: Handle,
        /// It is a directory.
        directory: bool,
    },
    /// Makes a file durable.
    Sync {
        /// From the reply to the open.
        handle: Handle,
        /// It is a directory.
        directory: bool,
    },
    /// An extended attribute's value.
    GetXattr {
        /// Its name.
        name: &'a [u8],
        /// Room for the value, bytes; 0 asks for its length.
        room: u32,
    },
    /// Names of the extended attributes.
    ListXattrs {
        /// Room for them, bytes; 0 asks for their length.
        room: u32,
    },
    /// Numbers of the whole file system.
    Statistics,
    /// Changes a range of a file.
    Allocate {
        /// From the reply to the open.
        handle: Handle,
        /// First byte.
        offset: u64,
        /// Length, bytes.
        len: u64,
        /// How, see [`super::constants::allocate`].
        mode: u32,
    },
    /// Finds data or a hole.
    Seek {
        /// From the reply to the open.
        handle: Handle,
        /// Where to begin.
        offset: u64,
        /// What for, see [`super::constants::seek`].
        whence: u32,
    },
    /// Bytes of the page cache that a notice asked for; wants no reply.
    Retrieved {
        /// First byte.
        offset: u64,
        /// What was in memory, from there on.
        data: &'a [u8],
    },
    /// Anything else: refused.
    Other,
}

/// The list of a batch of forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [u8]);

impl Forgets<'_> {
    /// Nodes, and how many lookups of each are given back.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.0.chunks_exact(16).filter_map(|one| {
            let mut cursor = Cursor::new(one);
            Some((NodeId(cursor.u64()?), cursor.u64()?))
        })
    }
}

/// Decodes the header alone, so that what follows can be refused by name.
pub fn decode_header(bytes: &[u8]) -> Option<Header> {
    let mut cursor = Cursor::new(bytes);
    cursor.u32()?;
    let header = Header {
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
pub fn decode(bytes: &[u8]) -> Option<(Header, Operation<'_>)> {
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
        opcode::READ => Operation::Read(range(&mut cursor)?),
        opcode::WRITE => {
            let range = range(&mut cursor)?;
            let data = cursor.take(range.len as usize)?;
            Operation::Write { range, data }
        }
        opcode::READDIR | opcode::READDIRPLUS => Operation::ReadDirectory {
            range: range(&mut cursor)?,
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
        opcode::NOTIFY_REPLY => {
            cursor.u64()?;
            let offset = cursor.u64()?;
            let len = cursor.u32()? as usize;
            cursor.take(20)?;
            let data = cursor.take(len)?;
            Operation::Retrieved { offset, data }
        }
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

/// The first fields of READ, WRITE and READDIR.
fn range(cursor: &mut Cursor<'_>) -> Option<Range> {
    let range = Range {
        handle: Handle(cursor.u64()?),
        offset: cursor.u64()?,
        len: cursor.u32()?,
    };
    cursor.take(20)?;
    Some(range)
}

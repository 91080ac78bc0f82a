//! Encodes replies to the kernel. Sessions and dispatch call this.
//!
//! Invariant: every encoded structure has the length that the kernel's header gives it. The caller
//! refuses lengths that do not fit beforehand.

use super::constants::{NAME_BYTES_MAX, VERSION_MAJOR};
use super::{Handle, NodeId};
use std::time::Duration;

/// Length of the header of a reply, bytes.
pub const HEADER_BYTES: usize = 16;
/// Length of attributes, bytes.
const ATTRIBUTES_BYTES: usize = 88;
/// Length of a found node, bytes.
pub const NODE_BYTES: usize = 40 + ATTRIBUTES_BYTES;
/// Length of a directory entry before its name, bytes.
const ENTRY_BYTES: usize = 24;

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Whole seconds, negative before 1970.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

/// Types of files, as in the upper bits of a mode.
pub mod file_type {
    /// Named pipe.
    pub const FIFO: u32 = 0o010_000;
    /// Character device.
    pub const CHAR_DEVICE: u32 = 0o020_000;
    /// Directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// Block device.
    pub const BLOCK_DEVICE: u32 = 0o060_000;
    /// Regular file.
    pub const REGULAR: u32 = 0o100_000;
    /// Symbolic link.
    pub const SYMLINK: u32 = 0o120_000;
    /// Unix socket.
    pub const SOCKET: u32 = 0o140_000;
}

/// Attributes for stat(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Number that users see. All names of one file share it.
    pub inode: u64,
    /// Length, bytes.
    pub size_bytes: u64,
    /// Space taken, units of 512 bytes.
    pub blocks: u64,
    /// Time of the last change of content.
    pub modified: Time,
    /// Time of the last change of content or attributes.
    pub changed: Time,
    /// Type (see [`file_type`]) and permission bits.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of a device.
    pub device: u32,
    /// Request size at which the file is fastest, bytes.
    pub block_bytes: u32,
}

/// A node and the properties that the kernel may cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Identifies the node in requests; 0 for a name that does not exist.
    pub node: NodeId,
    /// Attributes for stat(2).
    pub attributes: Attributes,
    /// Time for which name and attributes are valid.
    pub valid: Duration,
}

/// Numbers of the whole file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Size, units of `block_bytes`.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Unit, bytes.
    pub block_bytes: u32,
}

/// Agreement of session and kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Version that both speak.
    pub minor: u32,
    /// Maximum read-ahead of the kernel, bytes.
    pub readahead_bytes_max: u32,
    /// See [`super::constants::init`].
    pub flags: u64,
    /// Maximum number of read-ahead and direct I/O requests in flight.
    pub background_max: u16,
    /// Number of requests at which the kernel slows down.
    pub congestion_threshold: u16,
    /// Largest write, bytes.
    pub write_bytes_max: u32,
    /// Maximum number of pages of a request.
    pub pages_max: u16,
}

/// Appends numbers in the machine's byte order.
trait Put {
    fn put16(&mut self, value: u16);
    fn put32(&mut self, value: u32);
    fn put64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_ne_bytes());
    }
    fn put32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_ne_bytes());
    }
    fn put64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_ne_bytes());
    }
}

/// Returns the header of a reply with `body_bytes` after it. `error` is 0 or an error number,
/// negative.
pub fn header(unique: u64, error: i32, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let len = HEADER_BYTES.saturating_add(body_bytes) as u32;
    let [a, b, c, d] = len.to_ne_bytes();
    let [e, f, g, h] = error.to_ne_bytes();
    let (head, tail) = bytes.split_at_mut(8);
    head.copy_from_slice(&[a, b, c, d, e, f, g, h]);
    tail.copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// Appends the agreement for a session.
pub fn agreement(to: &mut Vec<u8>, agreed: &Agreement) {
    to.put32(VERSION_MAJOR);
    to.put32(agreed.minor);
    to.put32(agreed.readahead_bytes_max);
    to.put32(agreed.flags as u32);
    to.put16(agreed.background_max);
    to.put16(agreed.congestion_threshold);
    to.put32(agreed.write_bytes_max);
    to.put32(1);
    to.put16(agreed.pages_max);
    to.put16(0);
    to.put32((agreed.flags >> 32) as u32);
    to.extend_from_slice(&[0; 28]);
}

fn put_attributes(to: &mut Vec<u8>, attributes: &Attributes) {
    let Attributes {
        modified, changed, ..
    } = attributes;
    to.put64(attributes.inode);
    to.put64(attributes.size_bytes);
    to.put64(attributes.blocks);
    // Access times are not kept, so the modification time stands for them.
    for time in [modified, modified, changed] {
        to.put64(time.seconds as u64);
    }
    for time in [modified, modified, changed] {
        to.put32(time.nanos);
    }
    to.put32(attributes.mode);
    to.put32(attributes.links);
    to.put32(attributes.uid);
    to.put32(attributes.gid);
    to.put32(attributes.device);
    to.put32(attributes.block_bytes);
    to.put32(0);
}

/// Appends attributes, and how long they are valid.
pub fn attributes(to: &mut Vec<u8>, attributes: &Attributes, valid: Duration) {
    to.put64(valid.as_secs());
    to.put32(valid.subsec_nanos());
    to.put32(0);
    put_attributes(to, attributes);
}

/// Appends a node that was found.
pub fn node(to: &mut Vec<u8>, node: &Node) {
    to.put64(node.node.0);
    to.put64(0);
    for seconds in [node.valid.as_secs(); 2] {
        to.put64(seconds);
    }
    for nanos in [node.valid.subsec_nanos(); 2] {
        to.put32(nanos);
    }
    put_attributes(to, &node.attributes);
}

/// Appends an opened file, with flags of [`super::constants::open`].
pub fn opened(to: &mut Vec<u8>, handle: Handle, flags: u32) {
    to.put64(handle.0);
    to.put32(flags);
    to.put32(0);
}

/// Appends the number of written bytes, or the length of extended attributes.
pub fn length(to: &mut Vec<u8>, bytes: u32) {
    to.put32(bytes);
    to.put32(0);
}

/// Appends the position of data or of a hole.
pub fn position(to: &mut Vec<u8>, offset: u64) {
    to.put64(offset);
}

/// Appends the numbers of the whole file system.
pub fn statistics(to: &mut Vec<u8>, statistics: &Statistics) {
    to.put64(statistics.blocks);
    to.put64(statistics.blocks_free);
    to.put64(statistics.blocks_free);
    to.put64(0);
    to.put64(0);
    to.put32(statistics.block_bytes);
    to.put32(NAME_BYTES_MAX as u32);
    to.put32(statistics.block_bytes);
    to.extend_from_slice(&[0; 28]);
}

/// A line of a directory's listing.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryLine<'a> {
    /// Name: any bytes but `/` and NUL.
    pub name: &'a [u8],
    /// Number that users see.
    pub inode: u64,
    /// Mode, or only its type; see [`file_type`].
    pub mode: u32,
    /// Position at which the listing continues after this line.
    pub next: u64,
}

/// Returns the length of a line with a name of `name_bytes`, bytes.
pub fn line_bytes(name_bytes: usize, plus: bool) -> usize {
    let node = if plus { NODE_BYTES } else { 0 };
    node.saturating_add((ENTRY_BYTES.saturating_add(name_bytes)).next_multiple_of(8))
}

/// Appends a line. Listings with attributes pass `node`.
pub fn directory_line(to: &mut Vec<u8>, line: &DirectoryLine<'_>, with: Option<&Node>) {
    if let Some(with) = with {
        node(to, with);
    }
    to.put64(line.inode);
    to.put64(line.next);
    to.put32(line.name.len() as u32);
    to.put32(line.mode >> 12 & 0o17);
    to.extend_from_slice(line.name);
    to.resize(to.len().next_multiple_of(8), 0);
}

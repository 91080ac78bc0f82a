//! Holds what is known of a request before any policy: from its wire, from the file system inside
//! the volume, from its own shape. `policy` reads this; front ends and `layout` fill it in.
//!
//! Invariant: `Unknown` and `None` are always correct answers, only less useful ones.

use units::Origin;

/// Contents of the addressed blocks, as the file system uses them (SOSP'11, classes of ext3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Contents {
    /// Nobody knows.
    #[default]
    Unknown,
    /// Metadata of a file system: superblocks, bitmaps, inode tables, trees of extents.
    Metadata,
    /// The journal or log of a file system.
    Journal,
    /// Entries of a directory.
    Directory,
    /// Bytes of a regular file.
    File {
        /// Size of the file, bytes.
        size_bytes: u64,
        /// Offset of the first addressed byte in the file, bytes.
        offset_bytes: u64,
    },
    /// Blocks that the file system does not use.
    Free,
}

/// One request, and everything known of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Facts<'a> {
    /// Contents of the blocks.
    pub contents: Contents,
    /// Class that the client sent with the request (GROUP NUMBER of SCSI); 0 is none.
    pub wire_class: u8,
    /// Origin of the request.
    pub origin: Origin,
    /// Name of the volume.
    pub volume: &'a str,
    /// Offset in the volume, bytes.
    pub offset_bytes: u64,
    /// Length of the request, bytes.
    pub len_bytes: u64,
    /// The request writes.
    pub is_write: bool,
}

//! Names the purpose of blocks of a volume: the answer of a lookup.
//!
//! Invariant: `Unknown` is always a correct answer, only a less useful one.

/// Contents of blocks, as the file system uses them (SOSP'11, classes of ext3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Contents {
    /// Not known.
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

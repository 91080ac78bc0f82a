//! Holds what is known of a request before any policy: from its wire, from the file system inside
//! the volume, from its own shape. `policy` reads this; front ends and `disk_layout` fill it in.
//!
//! Invariant: `Unknown` and `None` are always correct answers, only less useful ones.

pub use disk_layout::Contents;
use units::Origin;
pub use units::Pattern;

/// One request, and everything known of it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
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
    /// Access pattern, if it was judged.
    pub pattern: Option<Pattern>,
    /// Path of the file from the root of its file system (`/a/b.txt`), if the front end knows it:
    /// FUSE does, block devices do not.
    pub file_path: Option<&'a [u8]>,
    /// The file was opened with `O_DIRECT`, if the front end knows that.
    pub is_direct: Option<bool>,
}

//! A piece of a stream or a tree: the unit in which its chunks are copied, in any order. The walker
//! fills it; the assembly takes it when its turn comes.
//!
//! Invariant: memory is bounded, whatever the object: a piece has at most [`CHUNKS_MAX`] chunks and
//! [`MARKS_MAX`] marks, and it costs at most [`DIRECTORIES_MAX`] directories to fill.

use format::recipe::{Layout, ObjectRoot};
use format::tree::Entry;
use store::RegionKind;
use units::Fingerprint;

/// Maximum number of chunks: 48 bytes each.
pub(super) const CHUNKS_MAX: usize = 512;
/// Maximum number of marks: an entry of a directory each.
pub(super) const MARKS_MAX: usize = 128;
/// Maximum number of directories that are read for one piece.
const DIRECTORIES_MAX: usize = 16;

/// One chunk of an object, or a hole.
pub(super) struct Chunk {
    /// Its fingerprint: in the receiving pool if `is_sent`, otherwise in this one.
    pub name: Fingerprint,
    pub is_sent: bool,
    pub layout: Layout,
    /// Of its region in the receiving pool.
    pub kind: RegionKind,
    /// Bytes that it stands for.
    pub len: u64,
}

/// Structure between chunks.
pub(super) enum Mark {
    /// A directory begins; `None` for the topmost one. Its object in this pool.
    Enter(ObjectRoot, Option<Box<Entry>>),
    /// The directory is complete.
    Leave,
    /// An entry that needs no more: its content, if it has any, is in the receiving pool.
    Entry(Box<Entry>),
    /// An entry whose content is copied earlier in the same tree.
    Again(Box<Entry>),
    /// The chunks since the last mark are this file.
    File(Box<Entry>),
    /// All chunks are the stream with this layout.
    Stream(Layout),
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Piece {
    pub chunks: Vec<Chunk>,
    /// Each with the number of chunks before it.
    pub marks: Vec<(usize, Mark)>,
    /// Chunks before this one are sent.
    pub next: usize,
    /// Number of chunks that are not sent.
    pub left: u64,
    bytes: u64,
    directories: usize,
}

impl Piece {
    /// Adds a chunk. `there`: its fingerprint in the receiving pool, if that is known.
    pub fn push(
        &mut self,
        name: Fingerprint,
        there: Option<Fingerprint>,
        (layout, kind): (Layout, RegionKind),
        len: u64,
    ) {
        // A hole in variable layout costs nothing, however long it is.
        if !(name.is_hole() && layout == Layout::Variable) {
            self.bytes = self.bytes.saturating_add(len);
        }
        self.left += u64::from(there.is_none());
        self.chunks.push(Chunk {
            name: there.unwrap_or(name),
            is_sent: there.is_some(),
            layout,
            kind,
            len,
        });
    }

    pub fn mark(&mut self, mark: Mark) {
        self.directories += usize::from(matches!(mark, Mark::Enter(..)));
        self.marks.push((self.chunks.len(), mark));
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.marks.is_empty()
    }

    pub fn is_full(&self, bytes_max: u64) -> bool {
        self.bytes_free(bytes_max) == 0
            || self.chunks.len() >= CHUNKS_MAX
            || self.marks.len() >= MARKS_MAX
            || self.directories >= DIRECTORIES_MAX
    }

    pub fn bytes_free(&self, bytes_max: u64) -> u64 {
        bytes_max.saturating_sub(self.bytes)
    }

    /// Returns true if all of its chunks are in the receiving pool.
    pub fn is_sent(&self) -> bool {
        self.next >= self.chunks.len()
    }
}

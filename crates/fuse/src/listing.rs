//! Fills the reply to a directory listing. Dispatch makes it, file systems fill it.
//!
//! Invariant: the reply is never longer than the kernel's buffer. It contains whole lines only.

use crate::wire::constants::NAME_BYTES_MAX;
use crate::wire::replies::{DirectoryLine, Node, directory_line, file_type, line_bytes};

/// Number of lines before the entries: `.` and `..`.
const DOTS: u64 = 2;

/// Lines of a directory, as many as fit.
pub struct Listing<'a> {
    bytes: &'a mut Vec<u8>,
    room_bytes: usize,
    plus: bool,
}

/// A line did not fit. The kernel asks again from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<'a> Listing<'a> {
    pub(crate) fn new(bytes: &'a mut Vec<u8>, room_bytes: usize, plus: bool) -> Self {
        Self {
            bytes,
            room_bytes,
            plus,
        }
    }

    /// Returns true if lines must have nodes: listing and look-ups in one.
    pub fn with_nodes(&self) -> bool {
        self.plus
    }

    /// Adds `.` and `..` at the start of the listing, and returns the next entry. An entry's
    /// position is [`Listing::position_after`] the previous one.
    pub fn add_dots(&mut self, from: u64, own: u64, parent: u64) -> Result<usize, Full> {
        for (position, (name, inode)) in (0..).zip([(&b"."[..], own), (b"..", parent)]) {
            if from <= position {
                self.add(name, inode, file_type::DIRECTORY, position + 1)?;
            }
        }
        Ok(usize::try_from(from.saturating_sub(DOTS)).unwrap_or(usize::MAX))
    }

    /// Returns the position at which a listing continues after entry `number`, counted from 0.
    pub fn position_after(number: usize) -> u64 {
        (number as u64).saturating_add(DOTS + 1)
    }

    /// Adds a name without a node. `next` is the position at which the listing continues, not 0.
    pub fn add(&mut self, name: &[u8], inode: u64, mode: u32, next: u64) -> Result<(), Full> {
        self.add_line(name, inode, mode, next, &Node::default())
    }

    /// Adds a name with its node, which counts as looked up if [`Listing::with_nodes`].
    pub fn add_node(&mut self, name: &[u8], node: &Node, next: u64) -> Result<(), Full> {
        let Node { attributes, .. } = node;
        self.add_line(name, attributes.inode, attributes.mode, next, node)
    }

    fn add_line(
        &mut self,
        name: &[u8],
        inode: u64,
        mode: u32,
        next: u64,
        node: &Node,
    ) -> Result<(), Full> {
        let len = line_bytes(name.len(), self.plus);
        if name.len() > NAME_BYTES_MAX || self.bytes.len().saturating_add(len) > self.room_bytes {
            return Err(Full);
        }
        let line = DirectoryLine {
            name,
            inode,
            mode,
            next,
        };
        directory_line(self.bytes, &line, self.plus.then_some(node));
        Ok(())
    }
}

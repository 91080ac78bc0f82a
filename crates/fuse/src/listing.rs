//! The reply to a listing while it is filled.
//!
//! Invariant: never longer than the kernel has room for; a line is in it whole or not at all.
//! Dispatch makes it, file systems fill it.

use crate::wire::constants::NAME_BYTES_MAX;
use crate::wire::replies::{DirectoryLine, Node, directory_line, file_type, line_bytes};

/// Lines before the entries: `.` and `..`.
const DOTS: u64 = 2;

/// Lines of a directory, as many as fit.
pub struct Listing<'a> {
    bytes: &'a mut Vec<u8>,
    room_bytes: usize,
    plus: bool,
}

/// A line did not fit: the kernel asks again from there.
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

    /// Lines shall have nodes: listing and look-ups in one.
    pub fn with_nodes(&self) -> bool {
        self.plus
    }

    /// Adds `.` and `..` where the listing begins, and says which entry comes next. Positions of
    /// entries are [`Listing::position_after`] the one before.
    pub fn add_dots(&mut self, from: u64, own: u64, parent: u64) -> Result<usize, Full> {
        for (position, (name, inode)) in (0..).zip([(&b"."[..], own), (b"..", parent)]) {
            if from <= position {
                self.add(name, inode, file_type::DIRECTORY, position + 1)?;
            }
        }
        Ok(usize::try_from(from.saturating_sub(DOTS)).unwrap_or(usize::MAX))
    }

    /// Where a listing goes on after entry `number`, counted from 0.
    pub fn position_after(number: usize) -> u64 {
        (number as u64).saturating_add(DOTS + 1)
    }

    /// Adds a name without a node. `next` is where the listing goes on after it, not 0.
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

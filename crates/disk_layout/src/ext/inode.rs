//! An inode of ext4: what its blocks are for, and the root of its map. `tables` decodes them,
//! `walk` follows the root.
//!
//! Invariant: any bytes decode to something; a damaged inode owns nothing.

use super::geometry::Geometry;
use crate::bytes::{array, fingerprint, le16, le32, wide};

const EXTENTS: u32 = 0x8_0000;
const EA_INODE: u32 = 0x20_0000;
const INLINE_DATA: u32 = 0x1000_0000;
const RESIZE_INODE: u32 = 7;
const ROOT_INODE: u32 = 2;
/// Bytes of `i_block`.
pub const ROOT_BYTES: usize = 60;

/// Purpose of the blocks of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Bytes of a file.
    File,
    /// Entries of a directory.
    Directory,
    /// Long symbolic links, quota files, reserved inodes, values of extended attributes.
    Metadata,
    /// The journal.
    Journal,
}

/// How the root maps blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// No blocks.
    Nothing,
    /// A tree of extents.
    Extents,
    /// Direct and indirect blocks.
    Indirect,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Purpose of its blocks.
    pub used_for: Use,
    /// Size, bytes.
    pub size_bytes: u64,
    /// How `root` maps blocks.
    pub mapping: Mapping,
    /// `i_block`.
    pub root: [u8; ROOT_BYTES],
    /// Block of extended attributes; 0 is none.
    pub attributes_block: u64,
    /// Changes when the owned blocks do, except in blocks below the root.
    pub fingerprint: u32,
}

impl Inode {
    /// Decodes inode `number`. `None` if it is not in use.
    pub fn decode(bytes: &[u8], number: u32, geometry: &Geometry) -> Option<Self> {
        let mode = le16(bytes, 0)?;
        let is_reserved = number < geometry.first_inode && number != ROOT_INODE;
        let (links, blocks) = (le16(bytes, 0x1a)?, le32(bytes, 0x1c)?);
        let blocks = wide(le16(bytes, 0x74)?, blocks);
        if (mode == 0 && !is_reserved) || (links == 0 && blocks == 0) {
            return None;
        }
        let flags = le32(bytes, 0x20)?;
        let is_hidden = geometry.hidden_inodes.contains(&number) || flags & EA_INODE != 0;
        let used_for = match mode & 0xf000 {
            _ if number == geometry.journal_inode => Use::Journal,
            _ if is_reserved || is_hidden => Use::Metadata,
            0x4000 => Use::Directory,
            0x8000 => Use::File,
            _ => Use::Metadata,
        };
        let size_bytes = wide(le32(bytes, 0x6c)?, le32(bytes, 4)?);
        let attributes_block = wide(le16(bytes, 0x76)?, le32(bytes, 0x68)?);
        let has_data = match mode & 0xf000 {
            0x4000 | 0x8000 => true,
            // A short target is in the inode itself.
            0xa000 => flags & EXTENTS != 0 || size_bytes >= ROOT_BYTES as u64,
            _ => is_reserved || number == RESIZE_INODE,
        };
        let mapping = if !has_data || flags & INLINE_DATA != 0 {
            Mapping::Nothing
        } else if flags & EXTENTS != 0 {
            Mapping::Extents
        } else {
            Mapping::Indirect
        };
        let root: [u8; ROOT_BYTES] = array(bytes, 0x28)?;
        let parts = [
            &mode.to_le_bytes()[..],
            &(flags & (EXTENTS | INLINE_DATA | EA_INODE)).to_le_bytes(),
            &attributes_block.to_le_bytes(),
            &root,
        ];
        let fingerprint = fingerprint(&parts);
        Some(Self {
            used_for,
            size_bytes,
            mapping,
            root,
            attributes_block,
            fingerprint,
        })
    }
}

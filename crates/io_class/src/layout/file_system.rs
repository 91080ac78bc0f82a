//! The file system in one part of a volume, of whatever kind. `volume` keeps these and passes them
//! steps, writes and lookups.
//!
//! Invariant: a part without a file system that we know is unknown, and is looked at again when
//! its first bytes are written.

use super::btrfs::Btrfs;
use super::ext::{Ext, Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Step};
use super::ntfs::Ntfs;
use super::source::Meter;
use super::xfs::Xfs;
use crate::facts::Contents;

/// A write to these first bytes of an unknown part may have made a file system.
const HEAD_BYTES: u64 = 128 << 10;

/// See the module.
pub enum FileSystem {
    /// Nothing that we know.
    Unknown,
    /// ext2, ext3 or ext4.
    Ext(Box<Ext>),
    /// btrfs.
    Btrfs(Box<Btrfs>),
    /// NTFS.
    Ntfs(Box<Ntfs>),
    /// XFS.
    Xfs(Box<Xfs>),
}

impl FileSystem {
    /// Looks at the superblocks of a part of `len_bytes`.
    pub fn probe(meter: &mut Meter<'_>, len_bytes: u64, memory_max: u64) -> Self {
        let head = meter.read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES);
        if let Some(geometry) = head.and_then(|head| Geometry::decode(&head, len_bytes))
            && let Some(ext) = Ext::new(geometry, memory_max)
        {
            return Self::Ext(Box::new(ext));
        }
        if let Some(btrfs) = Btrfs::probe(meter) {
            return Self::Btrfs(Box::new(btrfs));
        }
        if let Some(ntfs) = Ntfs::probe(meter, len_bytes, memory_max) {
            return Self::Ntfs(Box::new(ntfs));
        }
        match Xfs::probe(meter, len_bytes, memory_max) {
            Some(xfs) => Self::Xfs(Box::new(xfs)),
            None => Self::Unknown,
        }
    }

    /// Returns false for [`FileSystem::Unknown`].
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Contents at an offset, and the bytes from there that are alike.
    pub fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        match self {
            Self::Unknown => (Contents::Unknown, u64::MAX - offset_bytes),
            Self::Ext(ext) => ext.at(offset_bytes),
            Self::Xfs(xfs) => xfs.at(offset_bytes),
            Self::Ntfs(ntfs) => ntfs.at(offset_bytes),
            Self::Btrfs(btrfs) => btrfs.at(offset_bytes),
        }
    }

    /// Notes a write; `None` if its bytes are not known. Returns true if the part has to be looked
    /// at anew.
    pub fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) -> bool {
        match self {
            Self::Unknown => offset_bytes < HEAD_BYTES,
            Self::Ext(ext) => {
                ext.wrote(offset_bytes, len_bytes, bytes);
                false
            }
            Self::Btrfs(btrfs) => {
                btrfs.wrote(offset_bytes, len_bytes);
                false
            }
            Self::Ntfs(ntfs) => {
                ntfs.wrote(offset_bytes, len_bytes);
                false
            }
            Self::Xfs(xfs) => {
                xfs.wrote(offset_bytes, len_bytes);
                false
            }
        }
    }

    /// Reads a little; see [`Step`].
    pub fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        match self {
            Self::Unknown => Step::Idle,
            Self::Ext(ext) => ext.step(meter),
            Self::Xfs(xfs) => xfs.step(meter),
            Self::Ntfs(ntfs) => ntfs.step(meter),
            Self::Btrfs(btrfs) => btrfs.step(meter),
        }
    }

    /// Memory of the map, bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Ext(ext) => ext.memory_bytes(),
            Self::Xfs(xfs) => xfs.memory_bytes(),
            Self::Ntfs(ntfs) => ntfs.memory_bytes(),
            Self::Btrfs(btrfs) => btrfs.memory_bytes(),
        }
    }

    /// Times that the map was made coarser.
    pub fn sheds(&self) -> u64 {
        match self {
            Self::Unknown | Self::Btrfs(_) => 0,
            Self::Ext(ext) => ext.sheds,
            Self::Xfs(xfs) => xfs.sheds,
            Self::Ntfs(ntfs) => ntfs.sheds,
        }
    }
}

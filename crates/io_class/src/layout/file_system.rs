//! The file system in one part of a volume, of whatever kind. `volume` keeps these and passes them
//! steps, writes and lookups.
//!
//! Invariant: a part without a file system that we know is unknown, and is looked at again when
//! its first bytes are written.

use super::btrfs::Btrfs;
use super::budget::Shed;
use super::ext::{Ext, Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Step};
use super::ntfs::Ntfs;
use super::source::Meter;
use super::xfs::Xfs;
use crate::facts::Contents;

/// A write to these first bytes of an unknown part may have made a file system.
pub const HEAD_BYTES: u64 = 128 << 10;

/// Whether a write changes what is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interest {
    /// No.
    None,
    /// The range matters; its bytes do not.
    Changed,
    /// A journal was written: what its own blocks say matters.
    Journal {
        /// Length of a block, bytes.
        block_bytes: u32,
        /// Bytes of the write before its first whole block.
        skip_bytes: u64,
    },
}

/// Result of [`FileSystem::probe`].
pub enum Probe {
    /// A file system, or nothing that we know.
    Found(FileSystem),
    /// A file system whose least map takes this many bytes: more than there are.
    TooLarge(u64),
}

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
    /// Returns true if there is a superblock that we know.
    pub fn is_here(meter: &mut Meter<'_>, len_bytes: u64) -> bool {
        // The least map of any is above no bytes.
        !matches!(Self::probe(meter, len_bytes, 0), Probe::Found(_))
    }

    /// Looks at the superblocks of a part of `len_bytes`.
    pub fn probe(meter: &mut Meter<'_>, len_bytes: u64, memory_max: u64) -> Probe {
        let head = meter.read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES);
        if let Some(geometry) = head.and_then(|head| Geometry::decode(&head, len_bytes)) {
            return match Ext::new(geometry, memory_max) {
                Ok(ext) => Probe::Found(Self::Ext(Box::new(ext))),
                Err(needed) => Probe::TooLarge(needed),
            };
        }
        let found = Btrfs::probe(meter, memory_max).map(|of| of.map(|of| Self::Btrfs(of.into())));
        let found = found.or_else(|| {
            let found = Ntfs::probe(meter, len_bytes, memory_max);
            found.map(|of| of.map(|of| Self::Ntfs(of.into())))
        });
        let found = found.or_else(|| {
            let found = Xfs::probe(meter, len_bytes, memory_max);
            found.map(|of| of.map(|of| Self::Xfs(of.into())))
        });
        match found {
            Some(Ok(system)) => Probe::Found(system),
            Some(Err(needed)) => Probe::TooLarge(needed),
            None => Probe::Found(Self::Unknown),
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

    /// Returns whether [`Self::wrote`] would change anything. Takes little time.
    pub fn interest(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) -> Interest {
        let is_changed = match self {
            Self::Unknown => offset_bytes < HEAD_BYTES,
            Self::Ext(ext) => return ext.interest(offset_bytes, len_bytes, bytes),
            Self::Btrfs(btrfs) => btrfs.minds(offset_bytes, len_bytes),
            Self::Ntfs(ntfs) => ntfs.minds(offset_bytes, len_bytes),
            Self::Xfs(xfs) => xfs.minds(offset_bytes, len_bytes),
        };
        match is_changed {
            true => Interest::Changed,
            false => Interest::None,
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

    /// Sets the memory for the map; it has no more than that now.
    pub fn set_memory(&mut self, memory_max: u64) {
        match self {
            Self::Unknown => {}
            Self::Ext(ext) => ext.set_memory(memory_max),
            Self::Xfs(xfs) => xfs.memory_max = memory_max,
            Self::Ntfs(ntfs) => ntfs.memory_max = memory_max,
            Self::Btrfs(btrfs) => btrfs.memory_max = memory_max,
        }
    }

    /// Memory of the map, bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Ext(ext) => ext.memory_bytes() + size_of::<Ext>() as u64,
            Self::Xfs(xfs) => xfs.memory_bytes() + size_of::<Xfs>() as u64,
            Self::Ntfs(ntfs) => ntfs.memory_bytes() + size_of::<Ntfs>() as u64,
            Self::Btrfs(btrfs) => btrfs.memory_bytes() + size_of::<Btrfs>() as u64,
        }
    }

    fn shed(&self) -> Shed {
        match self {
            Self::Unknown => Shed::default(),
            Self::Ext(ext) => ext.shed,
            Self::Xfs(xfs) => xfs.shed,
            Self::Ntfs(ntfs) => ntfs.shed,
            Self::Btrfs(btrfs) => btrfs.shed,
        }
    }

    /// Memory that the map would take if nothing were left out, bytes; an estimate.
    pub fn needed_bytes(&self) -> u64 {
        self.memory_bytes().saturating_add(self.shed().bytes)
    }

    /// Times that something was left out or forgotten.
    pub fn sheds(&self) -> u64 {
        self.shed().times
    }

    /// Bytes whose contents are known.
    pub fn known_bytes(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Ext(ext) => ext.known_bytes(),
            Self::Xfs(xfs) => xfs.known_bytes(),
            Self::Ntfs(ntfs) => ntfs.known_bytes(),
            Self::Btrfs(btrfs) => btrfs.known_bytes(),
        }
    }
}

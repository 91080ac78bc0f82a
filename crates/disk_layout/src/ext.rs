//! The map of ext2, ext3 and ext4. `volume` attaches it and hands it writes.
//!
//! Cheap parts first: superblock, descriptors and fixed metadata, the journal and its log; then
//! bitmaps and inode tables group by group. Metadata is learned from the journal as soon as it is
//! committed, data of files when their inodes are.

mod committed;
mod descriptors;
mod geometry;
mod groups;
mod inode;
mod log;
mod pending;
mod records;
mod recovery;
mod state;
mod steps;
mod tables;
mod walk;
mod writes;

use super::budget::Shed;
use super::contents::Contents;
use super::file_system::{FileSystem, Interest, Probed, Step};
use super::source::Meter;
use geometry::{Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
pub use log::MAGIC as JOURNAL_MAGIC;
pub use state::Ext;

impl Ext {
    /// Looks at the superblock of a part of `len_bytes`. Fails with the least memory that a map
    /// takes.
    pub fn probe(meter: &mut Meter<'_>, len_bytes: u64, memory_max: u64) -> Probed<Self> {
        let head = meter.read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)?;
        Some(Self::new(Geometry::decode(&head, len_bytes)?, memory_max))
    }
}

// The methods of these names are beside what they change.
impl FileSystem for Ext {
    fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        self.at(offset_bytes)
    }

    fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        self.wrote(offset_bytes, len_bytes, bytes);
    }

    fn interest(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) -> Interest {
        self.interest(offset_bytes, len_bytes, bytes)
    }

    fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        self.step(meter)
    }

    fn set_memory(&mut self, memory_max: u64) {
        self.set_memory(memory_max);
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes()
    }

    fn shed(&self) -> Shed {
        self.shed
    }

    fn known_bytes(&self) -> u64 {
        self.known_bytes()
    }
}

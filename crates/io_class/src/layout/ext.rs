//! The classifier for ext2, ext3 and ext4. `volume` attaches it and hands it writes.
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

pub use geometry::{Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
pub use log::MAGIC as JOURNAL_MAGIC;
pub use state::Ext;
pub use steps::Step;

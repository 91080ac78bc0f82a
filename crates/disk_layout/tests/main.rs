//! The integration tests of this crate in one binary, which is linked once.

mod btrfs_images;
mod ext_images;
mod hostile;
mod ntfs_images;
mod partitions;
mod truth;
mod xfs_images;

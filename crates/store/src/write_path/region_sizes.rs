//! How large the regions are into which chunks are packed. Backups and copies know the object that
//! owns the chunks. Garbage collection and repair know only the container that has them now.
//!
//! Invariant: chunks that are read randomly get small regions: those of images, volumes and long
//! files, and those that have small ones now. Regions that do not compress say nothing: a lane
//! makes them small wherever they come from.

use chunk_store::container::Contents;
use format::container::{ContainerClass, DirectoryRegion};
use format::recipe::Layout;
use format::volume::VOLUME_CHUNK_LOG2;
use std::collections::BTreeMap;

/// Raw size of a data region of images and long files, bytes: machines run from them and read them
/// at random (`docs/decisions/`, small regions).
pub const IMAGE_REGION_BYTES: usize = 128 << 10;
/// Raw size of the regions of volumes, bytes. Smaller ones exist only after commits of a few pages.
pub(crate) const FINE_REGION_BYTES: usize = 16 << 10;

/// Compressed regions with fewer raw bytes are those of data that is read randomly: volumes.
const FINE_BYTES_MAX: u64 = 64 << 10;
/// Those with fewer raw bytes are those of data that is read randomly and sequentially: images.
const MIDDLE_BYTES_MAX: u64 = 256 << 10;

/// Files of trees from this length on are read at random: they are disk images, databases, videos.
const RANDOM_FILE_BYTES: u64 = 64 << 20;

/// Size of the regions into which chunks are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// As the lane's options say.
    Large,
    /// Middle-sized: images, long files.
    Middle,
    /// Small: data that is read randomly.
    Fine,
}

impl RegionKind {
    /// Returns the kind for the chunks of an object with this layout. Volumes are packed like
    /// images here: their own lanes have smaller regions.
    pub fn of_layout(layout: Layout) -> Self {
        match layout {
            Layout::Fixed(_) => Self::Middle,
            Layout::Variable => Self::Large,
        }
    }

    /// Returns the kind for the chunks of a file of a tree, of this length in bytes.
    pub fn of_file(len: u64) -> Self {
        match len >= RANDOM_FILE_BYTES {
            true => Self::Middle,
            false => Self::Large,
        }
    }

    /// Returns the kind for the contents of this container.
    pub(crate) fn of(contents: &Contents) -> Self {
        if contents.class != ContainerClass::Data {
            return Self::Large;
        }
        let (mut bytes, mut fine, mut middle) = (0, 0, 0);
        for region in &contents.directory.regions {
            let raw_bytes = raw_bytes(region);
            if u64::from(region.stored_bytes) < raw_bytes {
                bytes += raw_bytes;
                match raw_bytes {
                    ..FINE_BYTES_MAX => fine += raw_bytes,
                    FINE_BYTES_MAX..MIDDLE_BYTES_MAX => middle += raw_bytes,
                    _ => {}
                }
            }
        }
        match bytes / 2 {
            0 => Self::Middle,
            half if fine > half => Self::Fine,
            half if fine + middle > half => Self::Middle,
            _ if is_in_fixed_layout(contents) => Self::Middle,
            _ => Self::Large,
        }
    }

    /// Returns the raw size of the regions, bytes, for a lane whose options say `large`.
    pub(crate) fn region_bytes(self, large: usize) -> usize {
        match self {
            Self::Large => large,
            Self::Middle => large.min(IMAGE_REGION_BYTES),
            Self::Fine => large.min(FINE_REGION_BYTES),
        }
    }
}

/// Returns true if the chunks are those of images or volumes: at least three quarters of the bytes
/// are in chunks of one length that a fixed layout can have. Chunks that are cut by their contents
/// rarely have the same length.
fn is_in_fixed_layout(contents: &Contents) -> bool {
    let mut bytes_by_len = BTreeMap::<u32, u64>::new();
    let chunks = contents.directory.regions.iter().flat_map(|r| &r.chunks);
    for (_, len) in chunks {
        *bytes_by_len.entry(*len).or_default() += u64::from(*len);
    }
    let all: u64 = bytes_by_len.values().sum();
    let may_be = |len: &u32| {
        let log2 = len.trailing_zeros() as u8;
        len.is_power_of_two() && VOLUME_CHUNK_LOG2.contains(&log2)
    };
    let fixed = bytes_by_len.into_iter().filter(|(len, _)| may_be(len));
    let most = fixed.map(|(_, bytes)| bytes).max().unwrap_or(0);
    most >= all / 4 * 3
}

fn raw_bytes(region: &DirectoryRegion) -> u64 {
    region.chunks.iter().map(|(_, len)| u64::from(*len)).sum()
}

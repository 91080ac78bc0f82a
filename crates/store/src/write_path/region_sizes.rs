//! How large the regions are into which stored chunks are packed again. Garbage collection and
//! repair call this: they know containers, and not the objects that own the chunks.
//!
//! Invariant: chunks that are read randomly get small regions: those that have them now, and those
//! of images and volumes, whatever they have. Regions that do not compress say nothing: a lane
//! makes them small wherever they come from.

use chunk_store::container::Contents;
use format::container::{ContainerClass, DirectoryRegion};
use format::volume::VOLUME_CHUNK_LOG2;
use std::collections::BTreeMap;

/// Raw size of a data region of images, bytes: machines run from them and read them at random
/// (`docs/decisions/`, small regions).
pub const IMAGE_REGION_BYTES: usize = 128 << 10;
/// Raw size of the regions of volumes, bytes. Smaller ones exist only after commits of a few pages.
pub(crate) const FINE_REGION_BYTES: usize = 16 << 10;

/// Data whose compressed regions have fewer raw bytes on average counts as randomly read: volumes.
const FINE_BYTES_MAX: u64 = 64 << 10;
/// Data whose compressed regions have fewer raw bytes on average counts as read randomly and
/// sequentially: images.
const MIDDLE_BYTES_MAX: u64 = 256 << 10;

/// Size of the regions into which the contents of a container are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionKind {
    /// As the lane's options say.
    Large,
    /// Middle-sized: images.
    Middle,
    /// Small: data that is read randomly.
    Fine,
}

impl RegionKind {
    /// Returns the kind for the contents of this container.
    pub fn of(contents: &Contents) -> Self {
        if contents.class != ContainerClass::Data {
            return Self::Large;
        }
        let raw_bytes = contents.directory.regions.iter().filter_map(|region| {
            let raw_bytes = raw_bytes(region);
            (u64::from(region.stored_bytes) < raw_bytes).then_some(raw_bytes)
        });
        let (regions, bytes) = raw_bytes.fold((0, 0), |(n, sum), bytes| (n + 1, sum + bytes));
        match regions {
            0 => Self::Middle,
            _ if bytes < FINE_BYTES_MAX.saturating_mul(regions) => Self::Fine,
            _ if bytes < MIDDLE_BYTES_MAX.saturating_mul(regions) => Self::Middle,
            _ if is_in_fixed_layout(contents) => Self::Middle,
            _ => Self::Large,
        }
    }

    /// Returns the raw size of the regions, bytes, for a lane whose options say `large`.
    pub fn region_bytes(self, large: usize) -> usize {
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

//! Sizes, devices and memory of the experiment.
//!
//! All modules of this directory use this.
//! Invariant: nothing is fitted to the ladder. [`DISKS`] follows from the published rate of the
//! array; the other numbers are stated on the page, the free ones with what they matter.

use crate::disk::{DiskModel, MILLISECOND, Ns};
use crate::rooms::array::ArrayModel;
use crate::rooms::ssd::SsdModel;

/// Size of a request, and of a chunk, bytes.
pub const REQUEST_BYTES: u64 = 8 << 10;
/// log2 of [`REQUEST_BYTES`].
pub const CHUNK_LOG2: u8 = 13;
/// Number of requests that an image has in flight.
pub const IN_FLIGHT: u64 = 8;
/// Size of a request of a stream, bytes.
pub const STREAM_BYTES: u64 = 1 << 20;
/// Time of a processor for each of them: a GB/s to verify, or to split and to name.
pub const STREAM_WORK: Ns = MILLISECOND;
/// Number of images whose data the flash device has room for.
pub const FITTING: u64 = 24;
/// Number of disks: 24,000 random reads a second in all, one at a time on each (6.8 ms).
pub const DISKS: u64 = 165;
/// Size of a stripe, bytes.
pub const STRIPE_BYTES: u64 = 256 << 10;

/// Eight SAS SSDs of 2016, each with 16 reads at once.
pub const FLASH: SsdModel = SsdModel {
    channels: 128,
    read: 120_000,
    write: 40_000,
    read_rate: 4_000_000_000,
    write_rate: 3_000_000_000,
};

/// The machine and the data.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of images.
    pub images: u64,
    /// Number of further images, which were written in order.
    pub ordered: u64,
    /// Size of an image, bytes.
    pub image_bytes: u64,
    /// How often each image is written as a whole, before pieces of it are written again.
    pub rounds: u64,
    /// Disks.
    pub disks: u64,
    /// Size of a stripe, bytes.
    pub stripe_bytes: u64,
    /// The flash device.
    pub flash: SsdModel,
    /// Memory of the pool: index, directories, recipes, bytes.
    pub pool_memory: usize,
    /// Memory of the volumes: nearly all is the page cache, bytes.
    pub page_memory: u64,
    /// Processors of the server.
    pub processors: usize,
    /// Time of a processor for a request.
    pub work: Ns,
    /// Requests before the measuring, for each image.
    pub warm: u64,
    /// Requests that are measured.
    pub measured: u64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Settings {
    /// The parameters of the page.
    pub const FULL: Self = Self {
        images: 32,
        ordered: 0,
        image_bytes: 32 << 20,
        rounds: 2,
        disks: DISKS,
        stripe_bytes: STRIPE_BYTES,
        flash: FLASH,
        pool_memory: 1 << 20,
        page_memory: 2 << 20,
        processors: 16,
        work: 95_000,
        warm: 4_000,
        measured: 20_000,
        seed: 2018,
    };

    /// Seconds instead of minutes.
    pub const SHORT: Self = Self {
        images: 4,
        image_bytes: 8 << 20,
        pool_memory: 64 << 10,
        warm: 2_000,
        measured: 4_000,
        ..Self::FULL
    };

    /// Disks in an array without copies.
    pub fn array(&self) -> ArrayModel {
        ArrayModel {
            disks: self.disks,
            copies: 1,
            stripe_bytes: self.stripe_bytes,
            disk: DiskModel::SERVER,
        }
    }

    /// Size of the flash device at full scale, bytes: one percent of the disks.
    pub fn full_flash_bytes(&self) -> u64 {
        self.disks * DiskModel::SERVER.capacity / 100
    }

    /// Size of the flash device, bytes: the data of so many images fit beside the index and the
    /// recipes, which take a twentyfifth.
    pub fn flash_bytes(&self, index_bytes: u64) -> u64 {
        let fitting = FITTING * self.images / 32;
        index_bytes + fitting * self.image_bytes * 104 / 100
    }
}

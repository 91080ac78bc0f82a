//! Parameters of the experiment: sizes, times, what is fragmented.
//!
//! The pool, the world and the page use this.
//! Invariant: sizes and times are the published ones in one ratio. Nothing here is fitted, except
//! what its comment says.

use crate::disk::{DiskModel, Ns, SECOND};
use crate::maintenance::settings::{Order, Settings as Model};
use chunking::Compression;
use store::LaneOptions;

/// Size of a file, bytes.
pub const FILE_BYTES: u64 = 1 << 20;
/// Bytes that the web server appends to its log for each file.
pub const LOG_BYTES: u64 = 128 << 10;
/// log2 of the size of a chunk.
pub const CHUNK_LOG2: u8 = 12;
/// How a server packs chunks of volumes, with little memory.
pub const LANE: LaneOptions = LaneOptions {
    compression: Compression::None,
    region_bytes: 16 << 10,
    container_bytes: 4 << 20,
};

/// The machine and the data.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of files.
    pub files: u64,
    /// The published number of files, divided by this one.
    pub scale: u64,
    /// Time before maintenance begins.
    pub warm_up: Ns,
    /// Percentage of files in fragments.
    pub fragmented_percent: u64,
    /// Percentage of files whose containers are half garbage.
    pub sparse_percent: u64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Settings {
    /// The parameters of the page.
    pub const FULL: Self = Self {
        files: 500,
        scale: 86,
        warm_up: 20 * SECOND,
        fragmented_percent: 10,
        sparse_percent: 20,
        seed: 2015,
    };

    /// Seconds instead of minutes.
    pub const SHORT: Self = Self {
        files: 100,
        scale: 430,
        warm_up: 6 * SECOND,
        ..Self::FULL
    };

    /// Time that maintenance has.
    pub fn run(&self) -> Ns {
        Model::PUBLISHED.run / self.scale
    }

    /// Memory of volumes: as much of the data as on the page's first table.
    pub fn memory_bytes(&self) -> u64 {
        Model::PUBLISHED.cache_bytes / self.scale
    }

    /// The disk, so much smaller that seeks take as long.
    pub fn disk(&self) -> DiskModel {
        DiskModel {
            capacity: DiskModel::SERVER.capacity / self.scale,
            ..DiskModel::SERVER
        }
    }

    /// Parameters of the files of the first table, for as many files.
    pub fn model(&self) -> Model {
        Model {
            files: self.files,
            fragmented_percent: self.fragmented_percent,
            sparse_percent: self.sparse_percent,
            order: Order::Product,
            seed: self.seed,
            ..Model::PUBLISHED
        }
    }
}

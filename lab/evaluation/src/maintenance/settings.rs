//! Parameters of an experiment: sizes, times, tasks.
//!
//! The grid and the page use this.
//! Invariant: each calibrated value is marked as such; no other value was fitted.

use crate::disk::{DiskModel, MILLISECOND, Ns, SECOND};

/// Size of a chunk, bytes: the unit of reads at idle priority, and of the page cache.
pub const CHUNK_BYTES: u64 = 128 << 10;
/// Size of a file, bytes.
pub const FILE_BYTES: u64 = 1 << 20;
/// Chunks of a file.
pub const CHUNKS: u64 = FILE_BYTES / CHUNK_BYTES;
/// Bytes that the web server appends to its log for each served file.
pub const LOG_BYTES: u64 = 128 << 10;
/// Size of a chunk in the page cache, bytes. Frames, tables and eviction are real; the bytes are a
/// 32nd.
pub const FRAME_BYTES: usize = 4096;

/// The machine and the data.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The disk.
    pub disk: DiskModel,
    /// Number of files of a mebibyte.
    pub files: u64,
    /// Files of a directory. They lie side by side in random order.
    pub directory_files: u64,
    /// Size of the page cache, bytes of files.
    pub cache_bytes: u64,
    /// Time before maintenance begins.
    pub warm_up: Ns,
    /// Time that maintenance has.
    pub run: Ns,
    /// Interval at which the log is written back.
    pub write_back: Ns,
    /// Interval at which drivers fetch events.
    pub fetch: Ns,
    /// Calibrated: time that maintenance waits after the web server's last request.
    pub grace: Ns,
    /// Calibrated: a task's own work between two files that it has read.
    pub between_files: Ns,
    /// Calibrated: percentage of fragmented files.
    pub fragmented_percent: u64,
    /// Percentage of sparse files: half of each is garbage.
    pub sparse_percent: u64,
    /// Scheduler of the disk.
    pub order: Order,
    /// Seed of everything random.
    pub seed: u64,
}

/// Scheduler of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Idle priority after a calibrated grace time, like the paper's kernel (CFQ).
    IdlePriority,
    /// The product's scheduler (`crates/qos`) with its defaults for a disk.
    Product,
}

impl Settings {
    /// The published experiment.
    pub const PUBLISHED: Self = Self {
        disk: DiskModel::SERVER,
        files: 43_000,
        directory_files: 20,
        cache_bytes: 2 << 30,
        warm_up: 120 * SECOND,
        run: 1800 * SECOND,
        write_back: 5 * SECOND,
        fetch: 50 * MILLISECOND,
        grace: 12 * MILLISECOND,
        between_files: 2 * MILLISECOND,
        fragmented_percent: 60,
        sparse_percent: 30,
        order: Order::IdlePriority,
        seed: 2015,
    };

    /// A fiftieth of the published experiment: files, memory, time, and the disk, so that seeks
    /// take as long.
    pub const SMALL: Self = Self {
        disk: DiskModel {
            capacity: DiskModel::SERVER.capacity / 50,
            ..DiskModel::SERVER
        },
        files: 860,
        cache_bytes: 40 << 20,
        warm_up: 3 * SECOND,
        run: 36 * SECOND,
        ..Self::PUBLISHED
    };
}

/// How the web server picks files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Picks {
    /// One after another, repeatedly, like Filebench. Their places are random.
    InRotation,
    /// A random file each time.
    AtRandom,
}

/// Load of the web server.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Percentage of time in which it keeps the disk busy when alone; 100: always.
    pub utilisation: u64,
    /// Percentage of the files that it serves.
    pub overlap: u64,
    /// How it picks files.
    pub picks: Picks,
}

/// A maintenance task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads every file for a receiver that takes files in any order: the store's replication.
    Backup,
    /// Reads every file for a receiver that takes files nearly in order: one at a time, 100 ahead.
    HostBackup,
    /// Verifies every file. A file that others have read counts as verified.
    Scrub,
    /// Reads and rewrites every fragmented file, the hottest first.
    Defragment,
    /// Garbage collection: reads every sparse file, and writes half of it.
    Collect,
}

/// The paper's three tasks.
pub const THREE: [Kind; 3] = [Kind::Scrub, Kind::Backup, Kind::Defragment];

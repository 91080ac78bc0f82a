//! What an experiment is made of: sizes, times, tasks.
//!
//! Invariant: what was calibrated is marked so, and nothing else was fitted. Called by the grid and the page.

use crate::disk::{DiskModel, MILLISECOND, Ns, SECOND};

/// A chunk of a file: the unit of reads at idle priority, and of the page cache.
pub const CHUNK_BYTES: u64 = 128 << 10;
/// A file.
pub const FILE_BYTES: u64 = 1 << 20;
/// Chunks of a file.
pub const CHUNKS: u64 = FILE_BYTES / CHUNK_BYTES;
/// What the web server appends to its log for each file that it serves.
pub const LOG_BYTES: u64 = 128 << 10;
/// A chunk in the page cache is this many bytes: frames, tables and eviction are real, bytes are a 32nd.
pub const FRAME_BYTES: usize = 4096;

/// The machine and the data.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The disk.
    pub disk: DiskModel,
    /// Files of a megabyte.
    pub files: u64,
    /// Files of a directory, which lie side by side in any order.
    pub directory_files: u64,
    /// Page cache, bytes of files.
    pub cache_bytes: u64,
    /// Before maintenance begins.
    pub warm_up: Ns,
    /// Time that maintenance has.
    pub run: Ns,
    /// The log is written back so often.
    pub write_back: Ns,
    /// Drivers fetch events so often.
    pub fetch: Ns,
    /// Calibrated: maintenance waits so long after the web server's last request.
    pub grace: Ns,
    /// Calibrated: a task's own work between two files that it has read.
    pub between_files: Ns,
    /// Calibrated: of a hundred files, how many are in fragments.
    pub fragmented_percent: u64,
    /// Who gives the disk to maintenance.
    pub order: Order,
    /// Everything random.
    pub seed: u64,
}

/// Who gives the disk to maintenance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Idle priority after a calibrated grace, as the paper's kernel has it (CFQ).
    IdlePriority,
    /// The scheduler that ships (`crates/qos`), with its defaults for a disk.
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
        order: Order::IdlePriority,
        seed: 2015,
    };

    /// A fiftieth of it: files, memory, time, and the disk, so that seeks are as long.
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
    /// One after another, round and round, as Filebench does; where they lie is random.
    InRotation,
    /// Any, each time.
    AtRandom,
}

/// What the web server does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How much of the time it keeps the disk busy when it is alone, percent; 100: always.
    pub utilisation: u64,
    /// The share of the files that it serves, percent.
    pub overlap: u64,
    /// See there.
    pub picks: Picks,
}

/// A maintenance task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads every file for a receiver that takes them in any order: the store's replication.
    Backup,
    /// Reads every file for a receiver that takes them nearly in order: one at a time, 100 ahead.
    HostBackup,
    /// Verifies every file; what others have read is verified.
    Scrub,
    /// Reads and writes every file that is in fragments, the hottest first.
    Defragment,
}

/// The paper's three tasks.
pub const THREE: [Kind; 3] = [Kind::Scrub, Kind::Backup, Kind::Defragment];

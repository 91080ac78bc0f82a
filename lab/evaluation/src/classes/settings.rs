//! Sizes, devices and free parameters of the page of classes.
//!
//! Invariant: sizes are the published ones divided by one number, which keeps their ratios, except
//! memory, which has a smallest size. Nothing is calibrated.

use crate::disk::{DiskModel, Ns};
use crate::rooms::array::ArrayModel;
use crate::rooms::ssd::SsdModel;

/// Published: flash, and memory of the machine.
const FLASH_BYTES: u64 = 3 << 30;
const MEMORY_BYTES: u64 = 1 << 30;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The published sizes are divided by this.
    pub divide: u64,
    /// Rounds before the measured one.
    pub rounds: u64,
    /// Memory of the server, a part of all, 256ths. The host has the rest; beside a conventional
    /// cache it has all.
    pub server_memory: u64,
    /// Share of the disks that the file system spans, %.
    pub spans_percent: u64,
    /// Largest write with which the conventional cache cleans neighbours, blocks.
    pub granule: u64,
    /// Number of such writes in flight.
    pub destages: usize,
    /// Requests in flight of the loads that have several clients.
    pub clients: u64,
    /// The disks' times, hundredths of those of the data sheet.
    pub slowness: u64,
    /// Time of a client for an operation.
    pub work: Ns,
    /// Idle time between two rounds at full scale.
    pub rest: Ns,
    /// The flash device.
    pub ssd: SsdModel,
    /// Only a row of each kind.
    pub has_few_rows: bool,
}

impl Settings {
    /// The parameters of the page.
    pub const FULL: Self = Self {
        divide: 8,
        rounds: 7,
        server_memory: 160,
        spans_percent: 20,
        granule: 128,
        destages: 8,
        clients: 8,
        slowness: 100,
        work: 100_000,
        rest: 3_600_000_000_000,
        ssd: SsdModel::OF_2008,
        has_few_rows: false,
    };

    /// Seconds instead of minutes.
    pub const SHORT: Self = Self {
        divide: 64,
        rounds: 1,
        has_few_rows: true,
        ..Self::FULL
    };

    /// Size of the flash, bytes.
    pub fn flash_bytes(&self) -> u64 {
        FLASH_BYTES / self.divide
    }

    /// Memory of all, bytes.
    pub fn memory_bytes(&self) -> u64 {
        // No server of ours starts with less than 32 MiB, and its tier needs some more.
        (MEMORY_BYTES / self.divide).max(96 << 20)
    }

    /// Memory of the server, bytes.
    pub fn server_bytes(&self) -> u64 {
        self.memory_bytes() * self.server_memory / 256
    }

    /// Five SATA disks as RAID 1E, of which a file system of that size spans the stated share.
    pub fn array(&self, bytes: u64) -> ArrayModel {
        let disk = DiskModel {
            capacity: bytes * 2 / 5 * 100 / self.spans_percent,
            ..DiskModel::SATA
        };
        let slower = |time: Ns| time * self.slowness / 100;
        ArrayModel {
            disks: 5,
            copies: 2,
            stripe_bytes: 64 << 10,
            disk: DiskModel {
                rotation: slower(disk.rotation),
                seek_settle: slower(disk.seek_settle),
                seek_curve: slower(disk.seek_curve),
                outer_rate: disk.outer_rate * 100 / self.slowness,
                ..disk
            },
        }
    }
}

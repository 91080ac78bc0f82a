//! Sizes, devices and free parameters of the page of classes.
//!
//! Invariant: sizes are the published ones divided by one number, which keeps their ratios, except
//! memory, which has a smallest size. Nothing is calibrated.

use super::files::GROUP;
use super::storage::BLOCK;
use crate::disk::{DiskModel, Ns, SECOND};
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
    /// Capacities of the flash that are written before the measured round.
    pub before: u64,
    /// Memory of the server, a part of all, 256ths. The host has the rest; beside a conventional
    /// cache it has all.
    pub server_memory: u64,
    /// Size of the file system, % of the disks: a pool without gc has room.
    pub spans_percent: u64,
    /// Without a server, the block groups are spread over the disks. A file system as large as the
    /// disks has more groups; ext3 gives each directory the one that has most room.
    pub spreads_groups: bool,
    /// Largest write with which the conventional cache cleans neighbours, blocks.
    pub granule: u64,
    /// Number of such writes in flight.
    pub destages: usize,
    /// Processes that read the file pool at random.
    pub pool_clients: u64,
    /// Processes of the mail server.
    pub mail_clients: u64,
    /// Time between two commits of the file system's journal at full scale.
    pub commit: Ns,
    /// Reads update access times.
    pub updates_atime: bool,
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
        before: 5,
        server_memory: 160,
        spans_percent: 20,
        spreads_groups: true,
        granule: 128,
        destages: 8,
        pool_clients: 1,
        mail_clients: 8,
        commit: 5 * SECOND,
        updates_atime: true,
        slowness: 217,
        work: 100_000,
        rest: 3_600_000_000_000,
        ssd: SsdModel::OF_2008,
        has_few_rows: false,
    };

    /// Seconds instead of minutes.
    pub const SHORT: Self = Self {
        divide: 64,
        before: 1,
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

    /// Returns the address of a block of the file system on the disks, bytes.
    pub fn place(&self, block: u64) -> u64 {
        let (group, nth) = (block / GROUP, block % GROUP);
        let apart = match self.spreads_groups {
            true => GROUP * 100 / self.spans_percent.max(1),
            false => GROUP,
        };
        (group * apart + nth) * BLOCK
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

//! Runs a load over a storage, and says what it took.
//!
//! The page calls this; so does a test.
//! Invariant: the measured part follows rounds that have written [`Settings::before`] capacities of
//! the flash, the same number for all storages.

use super::loads::{Load, Run};
use super::settings::Settings;
use super::storage::{BLOCK, Counts};
use super::stored::Stored;
use crate::disk::Ns;
use crate::rooms::recorder::{DeviceName, FileUse};
use store::Result;

/// Nanoseconds of a day.
const DAY: u64 = 86_400_000_000_000;

/// Requests to the disks of the measured part, of one direction, by use of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskRequests {
    /// All of them.
    pub all: u64,
    /// The fingerprint index.
    pub index: u64,
    /// Containers; blocks of a conventional storage count here.
    pub containers: u64,
    /// The journal of volumes.
    pub journal: u64,
}

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// Time of the measured part.
    pub time: Ns,
    /// Time until all that is dirty is on the disks, after it.
    pub drain: Ns,
    /// Requests of the measured part.
    pub counts: Counts,
    /// Operations of clients in it.
    pub operations: u64,
    /// Reads of the disks in it.
    pub disk_reads: DiskRequests,
    /// Writes to the disks in it.
    pub disk_writes: DiskRequests,
    /// Time in it that clients waited for checkpoints.
    pub waited: Ns,
    /// Size of the files, bytes.
    pub data_bytes: u64,
    /// Bytes written to the storage before the measured part, in capacities of the flash.
    pub before: f64,
    /// Capacities of flash that would be written a day if the load ran all the time.
    pub drive_writes: f64,
    /// False if there was too little evidence for the advice that was asked for, or no gain.
    pub was_advised: bool,
}

impl Outcome {
    /// Returns the share of requested blocks that were written, %.
    pub fn writes(&self) -> f64 {
        let all = self.counts.read + self.counts.written;
        self.counts.written as f64 / all.max(1) as f64 * 100.0
    }

    /// Returns the share of journal, directories and metadata in all blocks, %.
    pub fn special(&self) -> f64 {
        let all = self.counts.read + self.counts.written;
        self.counts.special as f64 / all.max(1) as f64 * 100.0
    }

    /// Returns the share of requests to read that waited for no disk, %.
    pub fn hits(&self) -> f64 {
        100.0 - self.counts.disk_reads as f64 / self.counts.reads.max(1) as f64 * 100.0
    }

    /// Returns a number for each thousand operations.
    pub fn per_thousand(&self, requests: u64) -> f64 {
        requests as f64 * 1000.0 / self.operations.max(1) as f64
    }

    /// Returns the share of the time in which clients waited for checkpoints, %.
    pub fn waits(&self) -> f64 {
        self.waited as f64 * 100.0 / self.time.max(1) as f64
    }
}

/// Runs a load.
pub fn measure(load: Load, settings: &Settings, stored: &Stored) -> Result<Outcome> {
    let mut run = Run::new(load, *settings, stored)?;
    run.prepare()?;
    let flash_bytes = settings.flash_bytes() as f64;
    let rounds = run.rounds();
    let takes_advice = matches!(stored, Stored::Quintet(serving) if serving.takes_advice);
    let mut was_advised = !takes_advice;
    for nth in 0..rounds {
        let archive = run.measured()?;
        if takes_advice && nth + 1 == rounds {
            was_advised = run.storage.take_advice();
        }
        run.between(archive.as_ref())?;
    }
    let (begun, before) = (run.storage.world().now(), run.storage.counts());
    let (waited, operations) = (run.storage.waited(), run.operations());
    run.storage.world().take_traffic();
    run.measured()?;
    let time = run.storage.world().now() - begun;
    let counts = run.storage.counts().since(&before);
    let waited = run.storage.waited() - waited;
    let traffic = run.storage.world().take_traffic();
    let of = |device: DeviceName, is_write: bool| {
        let of = move |key: &(DeviceName, FileUse, bool)| key.0 == device && key.2 == is_write;
        traffic.iter().filter(move |(key, _)| of(key))
    };
    let requests = |is_write: bool| {
        let mut requests = DiskRequests::default();
        for ((_, of, _), traffic) in of(DeviceName::Pool, is_write) {
            requests.all += traffic.requests;
            match of {
                FileUse::Index => requests.index += traffic.requests,
                FileUse::Container => requests.containers += traffic.requests,
                FileUse::Journal => requests.journal += traffic.requests,
                FileUse::Tier | FileUse::Other => {}
            }
        }
        requests
    };
    let to_flash = of(DeviceName::Fast, true).map(|(_, traffic)| traffic.bytes);
    let written = to_flash.sum::<u64>() as f64;
    let drain = run.storage.drain()?;
    Ok(Outcome {
        time,
        drain,
        counts,
        operations: run.operations() - operations,
        disk_reads: requests(false),
        disk_writes: requests(true),
        waited,
        data_bytes: run.data_bytes(),
        before: (before.written * BLOCK) as f64 / flash_bytes,
        drive_writes: written / flash_bytes * DAY as f64 / (time * settings.divide).max(1) as f64,
        was_advised,
    })
}

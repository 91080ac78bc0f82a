//! The stand-in for the root: the durable position from which records are needed. `process` and
//! `examine` use it.
//!
//! Invariant: a checkpoint counts if it is complete; the one with the highest number is the newest.
//! Its barriers are not the journal's, so leaving out one of those affects only the journal.

use crate::SimDisk;
use media::{Barrier, Disk};
use std::sync::Arc;
use units::JournalPosition;
use xxhash_rust::xxh3::xxh3_64;

const DIR: &str = "checkpoints";

/// The part of a root that concerns the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checkpoint {
    /// Number of the checkpoint.
    pub generation: u64,
    /// Records below are not needed.
    pub from: JournalPosition,
    /// Number of the first needed record.
    pub first: u64,
}

impl Checkpoint {
    /// Creates the directory, durably.
    pub fn prepare(disk: &Arc<SimDisk>) -> Result<(), String> {
        disk.make_dir(DIR).map_err(text)?;
        disk.sync_dir("", Barrier::ContainersBeforeRoot)
            .map_err(text)
    }

    /// Returns the newest one.
    pub fn newest(disk: &Arc<SimDisk>) -> Result<Self, String> {
        let entries = disk.list(DIR).map_err(text)?;
        let mut newest = Self::default();
        for entry in entries {
            let bytes = disk.image().contents(&format!("{DIR}/{}", entry.name));
            let found = Self::decode(&bytes.unwrap_or_default()).unwrap_or_default();
            if found.generation > newest.generation {
                newest = found;
            }
        }
        Ok(newest)
    }

    /// Stores it; durable on return.
    pub fn store(&self, disk: &Arc<SimDisk>) -> Result<(), String> {
        let name = format!("{DIR}/{}", self.generation);
        let file = disk.open(&name, true).map_err(text)?;
        file.write_at(0, &self.encode()).map_err(text)?;
        file.sync(Barrier::RootBeforeAck).map_err(text)?;
        disk.sync_dir(DIR, Barrier::RootBeforeAck).map_err(text)
    }

    fn encode(&self) -> Vec<u8> {
        let numbers = [self.generation, self.from.0, self.first];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [generation, from, first, _] = *words else {
            return None;
        };
        let [generation, from, first] = [generation, from, first].map(u64::from_le_bytes);
        let found = Self {
            generation,
            from: JournalPosition(from),
            first,
        };
        (rest.is_empty() && found.encode() == bytes).then_some(found)
    }
}

pub(super) fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

//! The storages of the rows: the disks, a conventional cache, and servers.
//!
//! `loads` starts one; `rows` names them.
//! Invariant: all have the same devices.

use super::conventional::Conventional;
use super::served::Served;
use super::settings::Settings;
use super::storage::{BLOCK, Storage};
use crate::rooms::machine::{FastSettings, MachineSettings};
use crate::rooms::world::World;
use chunking::Compression;
use classes::Policy;
use server::state::JOURNAL_BYTES_DEFAULT;
use std::sync::Arc;
use store::Result;
use volumes::Switches;

/// The storage between the host and the disks.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Nothing.
    Disks,
    /// A conventional write-back LRU cache on the flash.
    Cache,
    /// Quintet, with the fast tier or without.
    Quintet(Serving),
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Serving {
    /// It has the flash as a fast tier.
    pub has_tier: bool,
    /// `--journal-on fast`.
    pub journal_on_fast: bool,
    /// `--policy`.
    pub policy: Option<Arc<Policy>>,
    /// Before the measured round, what `quintet policy advise` says is put in force.
    pub takes_advice: bool,
    /// Capacities of flash that may be written a day, hundredths.
    pub daily_writes_hundredths: u32,
}

/// Starts the storage of a row over disks with so many bytes of data.
pub fn storage(settings: &Settings, stored: &Stored, bytes: u64) -> Result<Box<dyn Storage>> {
    let world = World::new(settings.array(bytes), settings.ssd);
    let flash = settings.flash_bytes();
    let serving = match stored {
        Stored::Disks => return Ok(Box::new(Conventional::new(world, *settings, 0))),
        Stored::Cache => {
            return Ok(Box::new(Conventional::new(world, *settings, flash / BLOCK)));
        }
        Stored::Quintet(serving) => serving,
    };
    let limit = serving.daily_writes_hundredths;
    let fast = FastSettings {
        // A day is so much shorter, too.
        daily_writes_hundredths: limit.saturating_mul(settings.divide as u32),
        has_journal: serving.journal_on_fast,
        ..FastSettings::of(flash)
    };
    let machine = MachineSettings {
        memory_bytes: settings.server_bytes() as usize,
        journal_bytes: JOURNAL_BYTES_DEFAULT / settings.divide,
        fast: serving.has_tier.then_some(fast),
        policy: serving.policy.clone(),
        switches: Switches::default(),
        compression: Compression::None,
    };
    Ok(Box::new(Served::new(world, &machine, bytes, 12)?))
}

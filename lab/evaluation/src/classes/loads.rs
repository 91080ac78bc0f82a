//! The three loads: file pool, mail server, untar and tar; as `mechanisms` of the sources describe
//! them, divided by a number that keeps the ratios.
//!
//! The page calls this; so does a test.
//! Invariant: the same load asks for the same operations, whatever the storage is. A load runs in
//! rounds, so that what is measured is a steady state: blocks have been freed and used again.

use super::conventional::Conventional;
use super::files::{File, ModelFileSystem};
use super::host::{Host, Io};
use super::served::Served;
use super::settings::Settings;
use super::storage::{BLOCK, Counts, Storage, run};
use crate::disk::Ns;
use crate::rooms::machine::{FastSettings, MachineSettings};
use crate::rooms::recorder::DeviceName;
use crate::rooms::world::World;
use chunking::Compression;
use classes::Policy;
use server::state::JOURNAL_BYTES_DEFAULT;
use sim::Seed;
use std::cell::RefCell;
use std::sync::Arc;
use store::Result;
use volumes::Switches;

/// Operations between commits where no operation asks for one, and between writes of metadata in
/// place.
const COMMIT: u64 = 64;
/// Part of the pool's files that are replaced between two rounds, 256ths.
const REPLACED: u64 = 26;
/// Nanoseconds of a day.
const DAY: u64 = 86_400_000_000_000;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// 32,000 files of 1 to 128 KiB in 181 directories: archive them, then read all at random.
    FilePool,
    /// 50,000 files of 1 KiB to 1 MiB in 100 directories: 4 KiB requests, each change is synced.
    Mail,
    /// 90,000 files up to 77 MB in 7,000 directories: write them, then read all in order.
    Untar,
}

/// The storage between the host and the disks.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Nothing.
    Disks,
    /// A conventional write-back LRU cache on the flash.
    Cache,
    /// Quintet, with the fast tier or without.
    Quintet {
        /// It has the flash as a fast tier.
        has_tier: bool,
        /// `--journal-on fast`.
        journal_on_fast: bool,
        /// `--policy`.
        policy: Option<Arc<Policy>>,
        /// Capacities of flash that may be written a day, hundredths.
        daily_writes_hundredths: u32,
    },
}

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Time of the measured part.
    pub time: Ns,
    /// Time until all that is dirty is on the disks, after it.
    pub drain: Ns,
    /// Requests of the measured part.
    pub counts: Counts,
    /// Size of the files, bytes.
    pub data_bytes: u64,
    /// Bytes written to the storage before the measured part, in capacities of the flash.
    pub before: f64,
    /// Capacities of flash that would be written a day if the load ran all the time.
    pub drive_writes: f64,
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
}

/// Returns a size between `1 << from` and `1 << to`, each power of two as likely as the others.
fn log_uniform(seed: &mut Seed, from: u64, to: u64) -> u64 {
    let power = 1 << (from + seed.below(to - from));
    power + seed.below(power)
}

/// Returns the size of a file of a `/usr`: the median is 1 to 2 KiB, few have most of the bytes.
fn usr(seed: &mut Seed) -> u64 {
    let mut power = 256;
    while seed.chance(159) && power < 64 << 20 {
        power *= 2;
    }
    (power + seed.below(power)).min(77_000_000)
}

struct Guest {
    seed: Seed,
    host: Host,
    system: ModelFileSystem,
    files: Vec<File>,
    operations: u64,
}

struct Run {
    load: Load,
    settings: Settings,
    state: RefCell<Guest>,
    storage: Box<dyn Storage>,
    sizes: Vec<u64>,
}

impl Guest {
    fn io<'a>(
        &'a mut self,
        storage: &'a mut dyn Storage,
    ) -> (&'a mut ModelFileSystem, Io<'a>, &'a mut Vec<File>) {
        let io = Io {
            host: &mut self.host,
            storage,
        };
        (&mut self.system, io, &mut self.files)
    }

    fn settle(&mut self, storage: &mut dyn Storage) -> Result<()> {
        let (system, mut io, _) = self.io(storage);
        system.commit(&mut io)?;
        system.write_back(&mut io)
    }

    /// Commits now and then.
    fn pause(&mut self, storage: &mut dyn Storage) -> Result<()> {
        self.operations += 1;
        match self.operations % COMMIT {
            0 => self.settle(storage),
            _ => Ok(()),
        }
    }

    fn create(&mut self, storage: &mut dyn Storage, directory: u64, size: u64) -> Result<File> {
        let (system, mut io, _) = self.io(storage);
        system.create(&mut io, directory as usize, size)
    }

    fn delete(&mut self, storage: &mut dyn Storage, file: &File) -> Result<()> {
        let (system, mut io, _) = self.io(storage);
        system.delete(&mut io, file)
    }

    fn read(&mut self, storage: &mut dyn Storage, nth: usize) -> Result<()> {
        let (system, mut io, files) = self.io(storage);
        match files.get(nth) {
            Some(file) => system.read(&mut io, file),
            None => Ok(()),
        }
    }
}

impl Run {
    fn new(load: Load, settings: Settings, stored: &Stored) -> Result<Self> {
        let mut seed = Seed::new(2011);
        let (files, directories) = match load {
            Load::FilePool => (32_000, 181),
            Load::Mail => (50_000, 100),
            Load::Untar => (90_000, 7000),
        };
        let mut of = seed.part(1);
        let size = |_| match load {
            Load::FilePool => 1024 + of.below(127 << 10),
            Load::Mail => log_uniform(&mut of, 10, 20),
            Load::Untar => usr(&mut of),
        };
        let sizes: Vec<u64> = (0..files / settings.divide).map(size).collect();
        let directories = (directories / settings.divide).max(2);
        let space = sizes.iter().map(|size| size + 4096).sum::<u64>() * 5 / 2;
        let request = if load == Load::Mail { 1 } else { 32 };
        seed.draw();
        let system = ModelFileSystem::new(space, directories, request);
        let has_server = matches!(stored, Stored::Quintet { .. });
        let of_server = if has_server {
            settings.server_bytes()
        } else {
            0
        };
        let host_blocks = (settings.memory_bytes() - of_server) / BLOCK;
        let storage = storage(&settings, stored, system.bytes())?;
        Ok(Self {
            load,
            settings,
            state: RefCell::new(Guest {
                seed,
                host: Host::new(host_blocks),
                system,
                files: Vec::new(),
                operations: 0,
            }),
            storage,
            sizes,
        })
    }

    /// Runs operations, `clients` at a time, until `next` has no more.
    fn each(
        &mut self,
        clients: u64,
        mut next: impl FnMut(&mut Guest, &mut dyn Storage, u64) -> Result<bool>,
    ) -> Result<()> {
        let (state, mut nth) = (&self.state, 0);
        run(&mut *self.storage, clients, self.settings.work, |storage| {
            nth += 1;
            next(&mut state.borrow_mut(), storage, nth - 1)
        })
    }

    fn settle(&mut self) -> Result<()> {
        self.each(1, |state, storage, nth| match nth {
            0 => state.settle(storage).map(|()| true),
            _ => Ok(false),
        })
    }

    /// Makes all files, directory by directory.
    fn create_all(&mut self) -> Result<()> {
        let sizes = self.sizes.clone();
        let count = sizes.len() as u64;
        self.each(1, |state, storage, nth| {
            let Some(size) = sizes.get(nth as usize) else {
                return Ok(false);
            };
            let directory = nth * state.system.directories() / count;
            let made = state.create(storage, directory, *size)?;
            state.files.push(made);
            state.pause(storage)?;
            Ok(true)
        })?;
        self.settle()
    }

    fn delete_all(&mut self) -> Result<()> {
        self.each(1, |state, storage, _| {
            let Some(file) = state.files.pop() else {
                return Ok(false);
            };
            state.delete(storage, &file)?;
            state.pause(storage)?;
            Ok(true)
        })?;
        self.settle()
    }

    /// Reads all files in order into one archive, which is returned.
    fn archive(&mut self) -> Result<File> {
        let packed = |file: &File| file.size_bytes().next_multiple_of(512) + 512;
        let state = self.state.get_mut();
        let bytes: u64 = state.files.iter().map(packed).sum();
        let archive = state.system.prepare(0, bytes);
        let (mut written, mut done) = (0, 0);
        self.each(1, |state, storage, nth| {
            let (system, mut io, files) = state.io(storage);
            let Some(file) = files.get(nth as usize) else {
                return Ok(false);
            };
            if nth == 0 {
                system.enter(&mut io, &archive)?;
            }
            system.read(&mut io, file)?;
            done += packed(file);
            let whole = if nth as usize + 1 == files.len() {
                archive.blocks()
            } else {
                done / BLOCK / 32 * 32
            };
            ModelFileSystem::write_part(&mut io, &archive, written, whole - written)?;
            written = whole;
            state.pause(storage)?;
            Ok(true)
        })?;
        self.settle()?;
        Ok(archive)
    }

    fn read_at_random(&mut self) -> Result<()> {
        let state = self.state.get_mut();
        let mut order: Vec<usize> = (0..state.files.len()).collect();
        state.seed.shuffle(&mut order);
        self.each(self.settings.clients, |state, storage, nth| {
            let Some(file) = order.get(nth as usize) else {
                return Ok(false);
            };
            state.read(storage, *file)?;
            Ok(true)
        })
    }

    /// Replaces some files by others of the same size.
    fn replace_some(&mut self, archive: &File) -> Result<()> {
        let mut nth_file = 0;
        self.each(1, |state, storage, nth| {
            if nth == 0 {
                state.delete(storage, archive)?;
            }
            while nth_file < state.files.len() && !state.seed.chance(REPLACED) {
                nth_file += 1;
            }
            if nth_file >= state.files.len() {
                return Ok(nth == 0);
            }
            let old = state.files[nth_file].clone();
            state.delete(storage, &old)?;
            let made = state.create(storage, old.directory() as u64, old.size_bytes())?;
            state.files[nth_file] = made;
            nth_file += 1;
            state.pause(storage)?;
            Ok(true)
        })?;
        self.settle()
    }

    /// As many transactions as there are files: a delivery, a removal or a changed block, each
    /// synced; before one of sixteen a message is read.
    fn mail(&mut self) -> Result<()> {
        let count = self.sizes.len() as u64;
        self.each(self.settings.clients, |state, storage, nth| {
            if nth == count {
                return Ok(false);
            }
            let any = state.seed.below(state.files.len() as u64) as usize;
            if state.seed.chance(16) {
                state.read(storage, any)?;
            }
            match state.seed.below(10) {
                0..4 => {
                    let file = state.files[any].clone();
                    let block = state.seed.below(file.blocks());
                    let (system, mut io, _) = state.io(storage);
                    system.overwrite(&mut io, &file, block)?;
                }
                4..7 => {
                    let size = log_uniform(&mut state.seed, 10, 20);
                    let directory = state.seed.below(state.system.directories());
                    let made = state.create(storage, directory, size)?;
                    state.files.push(made);
                }
                _ => {
                    let file = state.files.swap_remove(any);
                    state.delete(storage, &file)?;
                }
            }
            let (system, mut io, _) = state.io(storage);
            system.commit(&mut io)?;
            state.pause(storage)?;
            Ok(true)
        })?;
        self.settle()
    }

    /// Runs the measured part; returns what follows it before the next round.
    fn measured(&mut self) -> Result<Option<File>> {
        match self.load {
            Load::FilePool => {
                let archive = self.archive()?;
                self.read_at_random()?;
                Ok(Some(archive))
            }
            Load::Mail => self.mail().map(|()| None),
            Load::Untar => {
                self.create_all()?;
                let count = self.sizes.len() as u64;
                self.each(1, |state, storage, nth| {
                    state.read(storage, nth as usize)?;
                    Ok(nth + 1 < count)
                })?;
                Ok(None)
            }
        }
    }

    fn between(&mut self, archive: Option<&File>) -> Result<()> {
        match (self.load, archive) {
            (Load::FilePool, Some(archive)) => self.replace_some(archive)?,
            (Load::Untar, _) => self.delete_all()?,
            _ => {}
        }
        // Dirty data stays so: the next round begins in a steady state.
        let rest = self.settings.rest / self.settings.divide;
        self.storage.rest(rest)
    }
}

fn storage(settings: &Settings, stored: &Stored, bytes: u64) -> Result<Box<dyn Storage>> {
    let world = World::new(settings.array(bytes), settings.ssd);
    let flash = settings.flash_bytes();
    Ok(match stored {
        Stored::Disks => Box::new(Conventional::new(world, *settings, 0)),
        Stored::Cache => Box::new(Conventional::new(world, *settings, flash / BLOCK)),
        Stored::Quintet {
            has_tier,
            journal_on_fast,
            policy,
            daily_writes_hundredths,
        } => {
            let fast = FastSettings {
                // A day is so much shorter, too.
                daily_writes_hundredths: daily_writes_hundredths
                    .saturating_mul(settings.divide as u32),
                has_journal: *journal_on_fast,
                ..FastSettings::of(flash)
            };
            let machine = MachineSettings {
                memory_bytes: settings.server_bytes() as usize,
                journal_bytes: JOURNAL_BYTES_DEFAULT / settings.divide,
                fast: has_tier.then_some(fast),
                policy: policy.clone(),
                switches: Switches::default(),
                compression: Compression::None,
            };
            Box::new(Served::new(world, &machine, bytes, 12)?)
        }
    })
}

/// Runs a load.
pub fn measure(load: Load, settings: &Settings, stored: &Stored) -> Result<Outcome> {
    let mut run = Run::new(load, *settings, stored)?;
    if load != Load::Untar {
        run.create_all()?;
    }
    for _ in 0..settings.rounds {
        let archive = run.measured()?;
        run.between(archive.as_ref())?;
    }
    let (begun, before) = (run.storage.world().now(), run.storage.counts());
    run.storage.world().take_traffic();
    run.measured()?;
    let time = run.storage.world().now() - begun;
    let after = run.storage.counts();
    let traffic = run.storage.world().take_traffic();
    let to_flash = traffic
        .iter()
        .filter(|((device, _, is_write), _)| *device == DeviceName::Fast && *is_write);
    let flash_bytes = settings.flash_bytes() as f64;
    let written = to_flash.map(|(_, traffic)| traffic.bytes).sum::<u64>() as f64;
    let drain = run.storage.drain()?;
    Ok(Outcome {
        time,
        drain,
        counts: Counts {
            read: after.read - before.read,
            written: after.written - before.written,
            special: after.special - before.special,
            reads: after.reads - before.reads,
            disk_reads: after.disk_reads - before.disk_reads,
        },
        data_bytes: run.sizes.iter().sum(),
        before: (before.written * BLOCK) as f64 / flash_bytes,
        drive_writes: written / flash_bytes * DAY as f64 / (time * settings.divide).max(1) as f64,
    })
}

//! The three loads: file pool, mail server, untar and tar; as `mechanisms` of the sources describe
//! them, divided by a number that keeps the ratios.
//!
//! `outcome` calls this.
//! Invariant: the same load asks for the same operations, whatever the storage is; commits come by
//! time. A load runs in rounds, so that what is measured is a steady state: blocks have been freed
//! and used again.

use super::files::{File, ModelFileSystem};
use super::guest::{Guest, LoadPart};
use super::host::Host;
use super::settings::Settings;
use super::storage::{BLOCK, Storage, run};
use super::stored::{Stored, storage};
use sim::Seed;
use std::cell::RefCell;
use store::Result;

/// Part of the pool's files that are replaced between two rounds, 256ths.
const REPLACED: u64 = 26;
/// Journal of the file system at full size, blocks: 128 MiB.
const JOURNAL: u64 = 32_768;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// 32,000 files of 1 to 128 KiB in 181 directories: archive them, then read all at random. One
    /// process, as Postmark is.
    FilePool,
    /// Postmark with 50,000 files of 1 KiB to 1 MiB in 100 directories, in requests of 4 KiB: make
    /// all files, run half as many transactions, delete all.
    Mail,
    /// 90,000 files up to 77 MB in 7,000 directories: unpack them from an archive of half the size,
    /// then read all.
    Untar,
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

/// A load on a storage.
pub struct Run {
    load: Load,
    settings: Settings,
    state: RefCell<Guest>,
    /// The storage.
    pub storage: Box<dyn Storage>,
    sizes: Vec<u64>,
    /// The archive that is unpacked.
    source: Option<File>,
}

impl Run {
    /// Starts with an empty file system.
    pub fn new(load: Load, settings: Settings, stored: &Stored) -> Result<Self> {
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
        seed.draw();
        let journal = JOURNAL / settings.divide;
        let mut system = ModelFileSystem::new(space, directories, journal);
        system.updates_atime = settings.updates_atime;
        let has_server = matches!(stored, Stored::Quintet(_));
        let of_server = if has_server {
            settings.server_bytes()
        } else {
            0
        };
        let host = Host::new((settings.memory_bytes() - of_server) / BLOCK);
        let storage = storage(&settings, stored, system.bytes())?;
        Ok(Self {
            load,
            settings,
            state: RefCell::new(Guest::new(seed, host, system, &settings)),
            storage,
            sizes,
            source: None,
        })
    }

    /// Returns the size of the files, bytes.
    pub fn data_bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state.borrow().operations
    }

    /// Returns how many rounds write the capacities that come before the measured one.
    pub fn rounds(&self) -> u64 {
        let percent = match self.load {
            // The archive, and files that are replaced.
            Load::FilePool => 110,
            // All files, and a quarter of them again.
            Load::Mail => 125,
            Load::Untar => 100,
        };
        let wanted = self.settings.before * self.settings.flash_bytes();
        wanted.div_ceil(self.data_bytes() * percent / 100)
    }

    fn clients(&self) -> u64 {
        match self.load {
            Load::FilePool => self.settings.pool_clients,
            Load::Mail => self.settings.mail_clients,
            Load::Untar => 1,
        }
    }

    /// Runs operations, `clients` at a time, until `code` has no more.
    fn each(
        &mut self,
        clients: u64,
        code: impl FnMut(&mut Guest, &mut dyn Storage, u64) -> Result<bool>,
    ) -> Result<()> {
        let mut part = LoadPart::new(&self.state, code);
        run(&mut *self.storage, clients, self.settings.work, &mut part)
    }

    fn settle(&mut self) -> Result<()> {
        self.each(1, |state, storage, nth| match nth {
            0 => state.settle(storage).map(|()| true),
            _ => Ok(false),
        })
    }

    /// Makes what the rounds find: the pool's files, or the archive that is unpacked.
    pub fn prepare(&mut self) -> Result<()> {
        match self.load {
            Load::FilePool => self.create_all()?,
            Load::Mail => {}
            Load::Untar => {
                let bytes = self.data_bytes() / 2;
                let source = self.state.get_mut().system.prepare(0, bytes);
                self.each(1, |state, storage, nth| {
                    let (system, mut io, _) = state.io(storage);
                    if nth == 0 {
                        system.enter(&mut io, &source)?;
                    }
                    let at = nth * 32;
                    ModelFileSystem::part(&mut io, &source, (at, 32), true)?;
                    Ok(at + 32 < source.blocks())
                })?;
                self.source = Some(source);
            }
        }
        self.settle()
    }

    /// Makes all files: in order when they come from an archive, which is read meanwhile, else in
    /// any directory.
    fn create_all(&mut self) -> Result<()> {
        let (sizes, source) = (self.sizes.clone(), self.source.clone());
        let count = sizes.len() as u64;
        let (mut unpacked, mut read) = (0, 0);
        self.each(self.clients(), |state, storage, nth| {
            let Some(size) = sizes.get(nth as usize) else {
                return Ok(false);
            };
            unpacked += size;
            let directory = match &source {
                None => state.any_directory(),
                Some(source) => {
                    let upto = (unpacked / 2 / BLOCK).next_multiple_of(32);
                    let upto = upto.min(source.blocks());
                    let (system, mut io, _) = state.io(storage);
                    while read < upto {
                        ModelFileSystem::part(&mut io, source, (read, 32), false)?;
                        system.accessed(source);
                        read += 32;
                    }
                    nth * state.system.directories() / count
                }
            };
            state.create(storage, directory, *size)?;
            Ok(true)
        })
    }

    fn delete_all(&mut self) -> Result<()> {
        self.each(self.clients(), |state, storage, _| {
            let Some(file) = state.files.pop() else {
                return Ok(false);
            };
            state.delete(storage, &file)?;
            Ok(true)
        })
    }

    /// Reads all files in the order of the directories into one archive, which is returned.
    fn archive(&mut self) -> Result<File> {
        let packed = |file: &File| file.size_bytes().next_multiple_of(512) + 512;
        let state = self.state.get_mut();
        let bytes: u64 = state.files.iter().map(packed).sum();
        let archive = state.system.prepare(0, bytes);
        let order = ModelFileSystem::listing(&state.files);
        let (mut written, mut done) = (0, 0);
        self.each(1, |state, storage, nth| {
            let (system, mut io, files) = state.io(storage);
            let file = order.get(nth as usize).and_then(|nth| files.get(*nth));
            let Some(file) = file else {
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
            let part = (written, whole - written);
            ModelFileSystem::part(&mut io, &archive, part, true)?;
            written = whole;
            Ok(true)
        })?;
        Ok(archive)
    }

    fn read_in_order(&mut self, order: &[usize], clients: u64) -> Result<()> {
        self.each(clients, |state, storage, nth| {
            let Some(file) = order.get(nth as usize) else {
                return Ok(false);
            };
            state.read(storage, *file)?;
            Ok(true)
        })
    }

    fn read_at_random(&mut self) -> Result<()> {
        let state = self.state.get_mut();
        let mut order: Vec<usize> = (0..state.files.len()).collect();
        state.seed.shuffle(&mut order);
        self.read_in_order(&order, self.clients())
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
            let old = state.files.swap_remove(nth_file);
            state.delete(storage, &old)?;
            state.create(storage, old.directory() as u64, old.size_bytes())?;
            nth_file += 1;
            Ok(true)
        })
    }

    /// Half as many transactions as there are files. Each makes or deletes a file, and reads one or
    /// appends to it.
    fn transactions(&mut self) -> Result<()> {
        let count = self.sizes.len() as u64 / 2;
        self.each(self.clients(), |state, storage, nth| {
            if nth == count || state.files.is_empty() {
                return Ok(false);
            }
            match state.seed.chance(128) {
                true => {
                    let size = log_uniform(&mut state.seed, 10, 20);
                    let directory = state.any_directory();
                    state.create(storage, directory, size)?;
                }
                false => {
                    let any = state.any_file();
                    let file = state.files.swap_remove(any);
                    state.delete(storage, &file)?;
                }
            }
            let any = state.any_file();
            match state.seed.chance(128) {
                true => state.read(storage, any)?,
                false => {
                    let bytes = log_uniform(&mut state.seed, 10, 16);
                    state.append(storage, any, bytes)?;
                }
            }
            Ok(true)
        })
    }

    /// Runs the measured part; returns what follows it before the next round.
    pub fn measured(&mut self) -> Result<Option<File>> {
        match self.load {
            Load::FilePool => {
                let archive = self.archive()?;
                self.read_at_random()?;
                Ok(Some(archive))
            }
            Load::Mail => {
                self.create_all()?;
                self.transactions()?;
                self.delete_all()?;
                Ok(None)
            }
            Load::Untar => {
                self.create_all()?;
                let order = ModelFileSystem::listing(&self.state.get_mut().files);
                self.read_in_order(&order, 1)?;
                Ok(None)
            }
        }
    }

    /// Runs what comes between two rounds, and idle time.
    pub fn between(&mut self, archive: Option<&File>) -> Result<()> {
        match (self.load, archive) {
            (Load::FilePool, Some(archive)) => self.replace_some(archive)?,
            (Load::Untar, _) => self.delete_all()?,
            _ => {}
        }
        // Dirty data of the storage stays so: the next round begins in a steady state.
        self.settle()?;
        let rest = self.settings.rest / self.settings.divide;
        self.storage.rest(rest)
    }
}

//! The three loads: file pool, mail server, untar and tar; as `mechanisms` of the sources describe
//! them, divided by a number that keeps the ratios.
//!
//! The page calls this; so does a small test.
//! Invariant: the same load asks for the same blocks, whatever is between host and disk.

use super::files::{File, ModelFileSystem};
use super::machine::{BLOCK, Cache, Counts, Machine};
use crate::disk::Ns;
use sim::Seed;

/// Published sizes: cache, and the host's memory (assumed), bytes.
const CACHE_BYTES: u64 = 3 << 30;
const HOST_BYTES: u64 = 256 << 20;
/// Operations between commits where nobody asks for one, and between writes of metadata in place.
const COMMIT: u64 = 64;

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

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Time of the measured part, until everything that it wrote is on the disk.
    pub time: Ns,
    /// Blocks in the measured part.
    pub counts: Counts,
    /// Size of the files, bytes.
    pub data_bytes: u64,
}

impl Outcome {
    /// Returns the share of requested blocks that were written, %.
    pub fn writes(&self) -> f64 {
        let all = self.counts.read + self.counts.written;
        self.counts.written as f64 / all.max(1) as f64 * 100.0
    }

    /// Returns the share of read blocks that the cache had, %.
    pub fn hits(&self) -> f64 {
        self.counts.hits as f64 / self.counts.read.max(1) as f64 * 100.0
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

struct Run {
    seed: Seed,
    machine: Machine,
    system: ModelFileSystem,
    files: Vec<File>,
    sizes: Vec<u64>,
}

impl Run {
    fn new(load: Load, divide: u64, cache: Cache) -> Self {
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
        let sizes: Vec<u64> = (0..files / divide).map(size).collect();
        let directories = (directories / divide).max(2);
        let space = sizes.iter().map(|size| size + 4096).sum::<u64>() * 3;
        let request = if load == Load::Mail { 1 } else { 32 };
        seed.draw();
        Self {
            seed,
            machine: Machine::new(
                cache,
                HOST_BYTES / BLOCK / divide,
                CACHE_BYTES / BLOCK / divide,
            ),
            system: ModelFileSystem::new(space, directories, request),
            files: Vec::new(),
            sizes,
        }
    }

    /// Makes all files, directory by directory.
    fn create_all(&mut self) {
        let directories = self.system.directories();
        for (nth, size) in (0..).zip(self.sizes.clone()) {
            let directory = nth * directories / self.sizes.len() as u64;
            let made = self
                .system
                .create(&mut self.machine, directory as usize, size);
            self.files.push(made);
            self.pause(nth);
        }
        self.settle();
    }

    fn pause(&mut self, nth: u64) {
        if nth % COMMIT == COMMIT - 1 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.system.commit(&mut self.machine);
        self.system.write_back(&mut self.machine);
    }

    /// Reads all files in order into one archive.
    fn archive(&mut self) {
        let bytes: u64 = self
            .sizes
            .iter()
            .map(|size| size.next_multiple_of(512) + 512)
            .sum();
        let archive = self.system.prepare(0, bytes);
        let mut written = 0;
        let mut done = 0;
        for (file, size) in self.files.iter().zip(&self.sizes) {
            self.system.read(&mut self.machine, file);
            done += size.next_multiple_of(512) + 512;
            while done / BLOCK >= written + 32 {
                ModelFileSystem::write_part(&mut self.machine, &archive, written, 32);
                written += 32;
            }
        }
        let rest = archive.blocks() - written;
        ModelFileSystem::write_part(&mut self.machine, &archive, written, rest);
        self.settle();
    }

    fn read_at_random(&mut self) {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        self.seed.shuffle(&mut order);
        for nth in order {
            self.system.read(&mut self.machine, &self.files[nth]);
        }
    }

    /// As many transactions as there are files: a delivery, a removal or a changed block, each
    /// synced; before one of sixteen a message is read.
    fn mail(&mut self) {
        let directories = self.system.directories();
        for nth in 0..self.files.len() as u64 {
            let any = self.seed.below(self.files.len() as u64) as usize;
            if self.seed.chance(16) {
                self.system.read(&mut self.machine, &self.files[any]);
            }
            match self.seed.below(10) {
                0..4 => {
                    let block = self.seed.below(self.files[any].blocks());
                    self.system
                        .overwrite(&mut self.machine, &self.files[any], block);
                }
                4..7 => {
                    let size = log_uniform(&mut self.seed, 10, 20);
                    let directory = self.seed.below(directories) as usize;
                    let made = self.system.create(&mut self.machine, directory, size);
                    self.files.push(made);
                }
                _ => {
                    let file = self.files.swap_remove(any);
                    self.system.delete(&mut self.machine, &file);
                }
            }
            self.system.commit(&mut self.machine);
            self.pause(nth);
        }
        self.settle();
    }
}

/// Runs a load, 1 `divide`-th of its published size.
pub fn run(load: Load, divide: u64, cache: Cache) -> Outcome {
    let mut run = Run::new(load, divide, cache);
    if load != Load::Untar {
        run.create_all();
    }
    run.machine.drain();
    let (begun, before) = (run.machine.now(), run.machine.counts);
    match load {
        Load::FilePool => {
            run.archive();
            run.read_at_random();
        }
        Load::Mail => run.mail(),
        Load::Untar => {
            run.create_all();
            for file in &run.files {
                run.system.read(&mut run.machine, file);
            }
        }
    }
    run.machine.drain();
    let after = run.machine.counts;
    Outcome {
        time: run.machine.now() - begun,
        counts: Counts {
            read: after.read - before.read,
            hits: after.hits - before.hits,
            written: after.written - before.written,
        },
        data_bytes: run.sizes.iter().sum(),
    }
}

//! Loads for policies: which block is asked for, what it is for, and how.

use classes::Contents;
use sim::Seed;

/// Bytes of a block.
pub const BLOCK: u64 = 1024;

/// A request for one block.
#[derive(Clone, Copy)]
pub struct Request {
    pub address: u64,
    pub contents: Contents,
    pub is_random: bool,
    pub is_write: bool,
    /// Class that the client claims.
    pub wire: u8,
}

/// Files of equal size, one after another.
#[derive(Clone, Copy)]
pub struct Files {
    pub from: u64,
    pub count: u64,
    pub blocks: u64,
}

impl Files {
    /// A read of a block of a file.
    pub fn read(&self, file: u64, block: u64, is_random: bool) -> Request {
        Request {
            address: self.from + file % self.count * self.blocks + block % self.blocks,
            contents: Contents::File {
                size_bytes: self.blocks * BLOCK,
                offset_bytes: block % self.blocks * BLOCK,
            },
            is_random,
            is_write: false,
            wire: 0,
        }
    }

    fn any(&self, seed: &mut Seed) -> Request {
        let (file, block) = (seed.below(self.count), seed.below(self.blocks));
        self.read(file, block, true)
    }

    /// The block after the one before, without end.
    fn next(&self, at: &mut u64) -> Request {
        let block = *at % (self.count * self.blocks);
        *at += 1;
        self.read(block / self.blocks, block, false)
    }
}

/// A read of metadata.
pub fn metadata(address: u64) -> Request {
    Request {
        address,
        contents: Contents::Metadata,
        is_random: true,
        is_write: false,
        wire: 0,
    }
}

/// A number below `end`; the small ones are asked for most.
pub fn skewed(seed: &mut Seed, end: u64) -> u64 {
    let (a, b) = (seed.below(end), seed.below(end));
    a.min(b).min(seed.below(end))
}

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Metadata and small files, beside a stream that reads all files once.
    MetadataAndScan,
    /// Many files of 1 to 128 KiB: read in order, then at random.
    FilePool,
    /// Small files that are written, read and written again, and few large ones.
    Mail,
    /// All files are written, then read in order, again and again.
    Untar,
    /// Metadata and small files; from the middle on a database in large files.
    Shifting,
    /// Random reads of a disk that is ten times the tier.
    Uniform,
    /// Three databases of which one is a thousandth of the disk and has a third of the reads.
    Databases,
}

impl Load {
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::MetadataAndScan, "metadata and a scan"),
        (Self::FilePool, "file pool"),
        (Self::Mail, "mail server"),
        (Self::Untar, "untar, tar"),
        (Self::Shifting, "shifting hot set"),
        (Self::Uniform, "uniform"),
        (Self::Databases, "databases"),
    ];

    /// Calls `visit` with the requests of a run, the same each time.
    pub fn run(self, requests: u64, visit: &mut dyn FnMut(Request)) {
        let mut seed = Seed::new(17);
        let tiny = Files {
            from: 1 << 20,
            count: 4000,
            blocks: 3,
        };
        let small = Files {
            from: 2 << 20,
            count: 1500,
            blocks: 12,
        };
        let middle = Files {
            from: 3 << 20,
            count: 1000,
            blocks: 100,
        };
        let large = Files {
            from: 1 << 30,
            count: 8,
            blocks: 20_000,
        };
        let mut scan = 0;
        for nth in 0..requests {
            let lot = seed.below(100);
            visit(match self {
                Self::MetadataAndScan => match lot {
                    0..30 => metadata(skewed(&mut seed, 6000)),
                    30..50 => {
                        let file = skewed(&mut seed, small.count);
                        small.read(file, seed.below(small.blocks), true)
                    }
                    _ => middle.next(&mut scan),
                },
                Self::FilePool => {
                    let is_archiving = nth * 5 % requests < requests / 2;
                    let of = [tiny, small, middle][seed.below(3) as usize];
                    match (lot, is_archiving) {
                        (0..10, _) => metadata(skewed(&mut seed, 4000)),
                        (_, true) => middle.next(&mut scan),
                        (_, false) => of.read(skewed(&mut seed, of.count), lot, true),
                    }
                }
                Self::Mail => {
                    let of = if lot.is_multiple_of(2) { tiny } else { small };
                    match lot {
                        0..10 => metadata(skewed(&mut seed, 3000)),
                        10..30 => middle.any(&mut seed),
                        _ => Request {
                            is_write: lot >= 60,
                            ..of.read(skewed(&mut seed, of.count), lot, true)
                        },
                    }
                }
                Self::Untar => {
                    let is_write = scan / 20_000 % 2 == 0;
                    let at = scan % 20_000;
                    scan += 1;
                    match lot {
                        0..10 => metadata(seed.below(3000)),
                        _ => Request {
                            is_write,
                            ..small.read(at / 12, at, false)
                        },
                    }
                }
                Self::Shifting => match (nth * 2 < requests, lot) {
                    (_, 0..5) => middle.next(&mut scan),
                    (true, 5..50) => metadata(skewed(&mut seed, 8000)),
                    (true, _) => small.read(skewed(&mut seed, small.count), lot, true),
                    (false, 5..10) => metadata(skewed(&mut seed, 8000)),
                    (false, _) => large.read(0, skewed(&mut seed, 18_000), true),
                },
                Self::Uniform => large.any(&mut seed),
                Self::Databases => match lot {
                    0..33 => middle.read(0, skewed(&mut seed, 100), true),
                    33..66 => small.any(&mut seed),
                    _ => large.any(&mut seed),
                },
            });
        }
    }
}

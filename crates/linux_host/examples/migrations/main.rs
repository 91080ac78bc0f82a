//! Migrations of file extents against writers and crashes: what `tests/host/migrations.sh` runs on
//! real file systems. Every byte is compared with what the writers wrote.
//!
//!     migrations fragment FILE MIB
//!     migrations run DIRECTORY COUNT [SEED]
//!     migrations careless DIRECTORY COUNT
//!     migrations loop FILE
//!     migrations hold FILE
//!     migrations odd DIRECTORY
//!
//! `fragment` makes a file of pieces of 4 KiB. `run` does COUNT migrations beside three writers; it
//! leaves the file `migrated`, and in the file that the variable MODEL names the bytes that it has
//! to hold. `careless` does the same by punching and writing back, and must find damage. `loop`
//! migrates at random until it is killed; `hold` has the file open for that and does nothing. `odd`
//! is about holes, preallocated ranges and a tail.
//!
//! Invariant: exits with 1 if a byte is wrong.

mod dice;
mod fragment;
mod odd;
mod writers;

use dice::Dice;
use linux_host::{Migrated, MigrationError, Target};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use writers::{Kind, Writer, ZONE_BYTES};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let is_right = match texts[..] {
        ["fragment", file, mib] => {
            fragment::make(Path::new(file), number(mib) << 20).expect("a fragmented file");
            true
        }
        ["run", directory, count] => run(Path::new(directory), number(count), 1, false),
        ["run", directory, count, seed] => {
            run(Path::new(directory), number(count), number(seed), false)
        }
        ["careless", directory, count] => run(Path::new(directory), number(count), 1, true),
        ["loop", file] => endless(Path::new(file)),
        ["hold", file] => hold(Path::new(file)),
        ["odd", directory] => odd::run(Path::new(directory)),
        _ => panic!("see the head of main.rs"),
    };
    match is_right {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Migrations between two comparisons of the whole file.
const ROUND: u64 = 100;
/// A zone for each kind of writer. Folios never cross zones, so that direct and mapped writes do
/// not meet in one, which no file system promises to keep right.
const KINDS: [Kind; 3] = [Kind::Buffered, Kind::Direct, Kind::Mapped];
const FILE_BYTES: u64 = ZONE_BYTES * KINDS.len() as u64;

#[derive(Default)]
struct Counts {
    moved: u64,
    changed: u64,
    no_room: u64,
    writes: u64,
    wrong_blocks: u64,
    migrated: Migrated,
}

fn run(directory: &Path, count: u64, seed: u64, is_careless: bool) -> bool {
    let path = directory.join("migrated");
    fragment::make(&path, FILE_BYTES).expect("a fragmented file");
    let mut model = fs::read(&path).expect("the file");
    let mut counts = Counts::default();
    let mut dice = Dice::new(seed);
    while counts.moved < count {
        let until = count.min(counts.moved + ROUND);
        round(
            &path,
            &mut model,
            until,
            is_careless,
            &mut dice,
            &mut counts,
        );
        counts.wrong_blocks += wrong_blocks(&path, &model);
        if counts.wrong_blocks > 0 || counts.changed + counts.no_room > 20 * count + 1000 {
            break;
        }
    }
    if let Ok(path) = std::env::var("MODEL") {
        fs::write(path, &model).expect("the model");
    }
    println!(
        "{} migrations ({} MiB; {} given up for writers, {} for free space, {} parts retried) beside \
         {} writes: {} blocks wrong",
        counts.moved,
        counts.migrated.bytes >> 20,
        counts.changed,
        counts.no_room,
        counts.migrated.retries,
        counts.writes,
        counts.wrong_blocks
    );
    counts.wrong_blocks == 0 && counts.moved >= count
}

fn round(
    path: &Path,
    model: &mut [u8],
    until: u64,
    is_careless: bool,
    dice: &mut Dice,
    counts: &mut Counts,
) {
    let stop = AtomicBool::new(false);
    let mut writers: Vec<Writer> = KINDS
        .into_iter()
        .zip((0..).step_by(ZONE_BYTES as usize))
        .zip(model.chunks_mut(ZONE_BYTES as usize))
        .map(|((kind, offset), zone)| {
            Writer::new(path, kind, offset, zone, dice.below(u64::MAX)).expect("a writer")
        })
        .collect();
    std::thread::scope(|scope| {
        for writer in &mut writers {
            let stop = &stop;
            scope.spawn(move || writer.write_until(stop));
        }
        while counts.moved < until {
            migrate(path, is_careless, dice, counts);
            if counts.changed + counts.no_room > 20 * until + 1000 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for writer in &writers {
        counts.writes += writer.writes;
        counts.wrong_blocks += writer.wrong_reads;
    }
}

/// Returns a range of up to 1 MiB, of 64 KiB on average.
fn any_range(dice: &mut Dice, size: u64) -> std::ops::Range<u64> {
    let bits = dice.below(9);
    let blocks = 1 + dice.below(1 << bits);
    let start = dice.below(size / 4096) * 4096;
    start..size.min(start + blocks * 4096)
}

/// Returns one range, or up to four that are ascending and disjoint, to be moved together.
fn any_ranges(dice: &mut Dice, size: u64) -> Vec<std::ops::Range<u64>> {
    let mut ranges: Vec<_> = (0..=dice.below(4)).map(|_| any_range(dice, size)).collect();
    ranges.sort_by_key(|range| range.start);
    let mut end = 0;
    ranges.retain(|range| {
        let is_disjoint = range.start >= end;
        end = end.max(range.end);
        is_disjoint
    });
    ranges
}

fn migrate(path: &Path, is_careless: bool, dice: &mut Dice, counts: &mut Counts) {
    if is_careless {
        let range = any_range(dice, FILE_BYTES);
        fragment::punch_and_write_back(path, range).expect("written back");
        counts.moved += 1;
        return;
    }
    let target = Target::open(path).expect("the file may be migrated");
    match target.relocate(&any_ranges(dice, FILE_BYTES), false, &mut counts.migrated) {
        Ok(()) => counts.moved += 1,
        Err(MigrationError::Changed) => counts.changed += 1,
        Err(MigrationError::FreeSpaceFragmented | MigrationError::NoSpace) => counts.no_room += 1,
        // btrfs tells of shared extents until a donor's last reference is deleted.
        Err(MigrationError::Shared | MigrationError::NothingToGain) => counts.changed += 1,
        Err(e) => panic!("{e}"),
    }
}

/// Compares what is in memory, and what is on the device, with the model.
fn wrong_blocks(path: &Path, model: &[u8]) -> u64 {
    let differ = |found: &[u8]| {
        let blocks = found.chunks(4096).zip(model.chunks(4096));
        blocks.filter(|(a, b)| a != b).count() as u64
    };
    let in_memory = differ(&fs::read(path).expect("the file"));
    let file = File::open(path).expect("the file");
    file.sync_all().expect("synced");
    let mut buffer = fragment::Aligned::new(model.len());
    let direct = fragment::open_direct(path).expect("the file");
    direct.read_exact_at(buffer.bytes(), 0).expect("read");
    in_memory + differ(buffer.bytes())
}

fn hold(path: &Path) -> bool {
    let _target = Target::open(path).expect("the file may be migrated");
    println!("began");
    loop {
        std::thread::park();
    }
}

fn endless(path: &Path) -> bool {
    let size = fs::metadata(path).expect("the file").len();
    let mut dice = Dice::new(u64::from(std::process::id()));
    let mut migrated = Migrated::default();
    println!("began");
    loop {
        let ranges = any_ranges(&mut dice, size);
        let target = match Target::open(path) {
            Ok(target) => target,
            Err(e) => panic!("{e}"),
        };
        if let Err(e) = target.relocate(&ranges, false, &mut migrated) {
            // A file system that was shut down answers with errors.
            assert!(
                e.is_of_range() || matches!(e, MigrationError::Io { .. }),
                "{e}"
            );
        }
    }
}

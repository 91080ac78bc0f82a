//! Power cuts of file systems, block by block: what `tests/host/power-cuts.sh` runs.
//!
//!     power_cuts record DIRECTORY IMAGE LOG
//!     power_cuts write FILE LOG JOURNAL fsync|fdatasync
//!     power_cuts careless FILE
//!     power_cuts flushes LOG
//!     power_cuts replay IMAGE LOG CUT SEED UNIT AFTER [IGNORED]
//!     power_cuts check FILE JOURNAL POSITION UNIT
//!
//! `record` serves the file `disk`, which holds the bytes of IMAGE, and logs every write and flush.
//! While a file `LOG.fails` exists, writes fail with EIO. `write` changes a file at random, some of
//! it synced, until it is killed. JOURNAL says which version of a block was written and synced at
//! which length of the log. `careless` migrates by punching and writing back, until it is killed.
//! `flushes` counts. `replay` makes AFTER: IMAGE with all writes up to flush CUT, and of those up
//! to the next flush a subset that SEED chooses (0: none), torn in units of UNIT bytes. IGNORED is
//! a number of flushes before the cut that a lying disk ignored. It prints the POSITION in the log
//! with which `check` compares every sector of the file.
//!
//! Invariant: exits with 1 if a byte is wrong.

#[path = "../migrations/dice.rs"]
mod dice;
mod disk;
#[path = "../migrations/fragment.rs"]
#[allow(dead_code, reason = "only direct I/O is used of it")]
mod fragment;
mod log;
mod replay;
mod writer;

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let is_right = match texts[..] {
        ["record", directory, image, log] => {
            disk::serve(Path::new(directory), Path::new(image), Path::new(log)).expect("served");
            true
        }
        ["write", file, log, journal, sync] => {
            let [file, log, journal] = [file, log, journal].map(Path::new);
            writer::write(file, log, journal, sync == "fdatasync").expect("written");
            true
        }
        ["careless", file] => careless(Path::new(file)),
        ["flushes", log] => {
            println!("{}", log::flushes(Path::new(log)).expect("the log").len());
            true
        }
        [
            "replay",
            image,
            log,
            cut,
            seed,
            unit,
            after,
            ref ignored @ ..,
        ] => {
            let cut = replay::Cut {
                flush: number(cut) as usize,
                seed: number(seed),
                unit: number(unit) as usize,
                ignored: ignored.first().map_or(0, |text| number(text) as usize),
            };
            let paths = [image, log, after].map(Path::new);
            println!("{}", replay::replay(paths, &cut).expect("replayed"));
            true
        }
        ["check", file, journal, position, unit] => {
            let wrong = writer::wrong_sectors(
                Path::new(file),
                Path::new(journal),
                number(position),
                number(unit) as usize,
            );
            let wrong = wrong.expect("the file and the journal");
            for line in wrong.iter().take(5) {
                println!("{line}");
            }
            wrong.is_empty()
        }
        _ => panic!("see the head of main.rs"),
    };
    match is_right {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The journal may commit between the two steps; here it always does.
fn careless(path: &Path) -> ! {
    let size = std::fs::metadata(path).expect("the file").len();
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("the file");
    let mut dice = dice::Dice::new(u64::from(std::process::id()));
    let mut copy = vec![0; 128 << 10];
    loop {
        let start = dice.below((size - copy.len() as u64) / 4096) * 4096;
        file.read_exact_at(&mut copy, start).expect("read");
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, start, copy.len() as u64).expect("punched");
        file.sync_all().expect("synced");
        file.write_all_at(&copy, start).expect("written back");
        file.sync_all().expect("synced");
    }
}

//! A writer beside migrations whose every sector tells its version, and the comparison of its file
//! with what was written and synced until a power cut. `main` calls both.
//!
//! Invariant: the journal has a write before the write begins, and a sync after it ended.

use crate::dice::Dice;
use crate::fragment::{Aligned, open_direct};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const BLOCK: usize = 4096;
const SECTOR: usize = 512;

/// Fills a block with its number and version in each sector.
fn fill(block: &mut [u8], number: u64, version: u64) {
    for (n, sector) in block.chunks_mut(SECTOR).enumerate() {
        sector.fill((number ^ version.wrapping_mul(29) ^ n as u64) as u8);
        sector[..8].copy_from_slice(&number.to_le_bytes());
        sector[8..16].copy_from_slice(&version.to_le_bytes());
    }
}

/// Writes versions of blocks until it is killed. A new journal begins with version 0 everywhere,
/// synced, and ends there: call it again when there is a log.
pub fn write(path: &Path, log: &Path, journal: &Path, only_data: bool) -> io::Result<()> {
    let buffered = File::options().read(true).write(true).open(path)?;
    let direct = open_direct(path)?;
    let blocks = buffered.metadata()?.len() / BLOCK as u64;
    let mut block = Aligned::new(BLOCK);
    if !journal.exists() {
        for number in 0..blocks {
            fill(block.bytes(), number, 0);
            buffered.write_all_at(block.bytes(), number * BLOCK as u64)?;
        }
        buffered.sync_all()?;
        File::create(journal)?;
        return Ok(());
    }
    let mut journal = File::options().append(true).open(journal)?;
    let mut dice = Dice::new(u64::from(std::process::id()));
    println!("began");
    for version in 1.. {
        let number = dice.below(blocks);
        fill(block.bytes(), number, version);
        let begun = fs::metadata(log)?.len();
        journal.write_all(format!("{begun} {number} {version}\n").as_bytes())?;
        // Each kind has a half, so that they do not meet in a folio.
        let file = if number < blocks / 2 {
            &buffered
        } else {
            &direct
        };
        file.write_all_at(block.bytes(), number * BLOCK as u64)?;
        if dice.below(24) == 0 {
            match only_data {
                true => buffered.sync_data()?,
                false => buffered.sync_all()?,
            }
            let synced = fs::metadata(log)?.len();
            journal.write_all(format!("{synced} synced {version}\n").as_bytes())?;
        }
        // Migrations need the disk too.
        std::thread::sleep(Duration::from_micros(dice.below(2000)));
    }
    Ok(())
}

/// Versions that a block may have.
#[derive(Default)]
struct Versions {
    durable: u64,
    since: Vec<u64>,
}

/// Returns a line for each sector that has neither its last synced version nor one that was begun
/// later, but before the log had `position` bytes. Blocks are as a whole if `unit` is.
pub fn wrong_sectors(
    path: &Path,
    journal: &Path,
    position: u64,
    unit: usize,
) -> io::Result<Vec<String>> {
    let mut versions: HashMap<u64, Versions> = HashMap::new();
    for line in fs::read_to_string(journal)?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, what, version] = words[..] else {
            // Killed while it wrote.
            continue;
        };
        let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
        if number(at)? > position {
            break;
        }
        let version = number(version)?;
        if what == "synced" {
            for block in versions.values_mut() {
                block.durable = block.since.last().copied().unwrap_or(block.durable);
                block.since.clear();
            }
        } else {
            let block = versions.entry(number(what)?).or_default();
            block.since.push(version);
        }
    }
    let mut wrong = Vec::new();
    let mut expected = vec![0; BLOCK];
    for (number, found) in (0..).zip(fs::read(path)?.chunks(BLOCK)) {
        let versions = versions.entry(number).or_default();
        let first = sector_version(found, 0);
        for (n, sector) in found.chunks(SECTOR).enumerate() {
            let version = sector_version(found, n);
            fill(&mut expected, number, version);
            let is_known = version == versions.durable || versions.since.contains(&version);
            let is_whole = unit < BLOCK || version == first;
            if !is_known || !is_whole || sector != &expected[n * SECTOR..][..SECTOR] {
                let durable = versions.durable;
                let since = &versions.since;
                wrong.push(format!(
                    "block {number}, sector {n}: version {version}; {durable} was synced, {since:?} written since"
                ));
            }
        }
    }
    Ok(wrong)
}

fn sector_version(block: &[u8], sector: usize) -> u64 {
    let bytes = &block[sector * SECTOR + 8..][..8];
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

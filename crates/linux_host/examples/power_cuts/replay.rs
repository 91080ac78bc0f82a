//! Makes the image that a power cut leaves: what was flushed, and a subset of what was not. `main`
//! calls this.
//!
//! Invariant: the same cut gives the same image.

use crate::dice::Dice;
use crate::disk::data_of;
use crate::log::{Record, flushes, read};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A power cut.
pub struct Cut {
    /// All that was written before this flush survives. 0: before any.
    pub flush: usize,
    /// Chooses the subset of the writes after it; 0: none of them.
    pub seed: u64,
    /// Bytes that the disk writes as a whole.
    pub unit: usize,
    /// So many flushes before the cut did nothing.
    pub ignored: usize,
}

/// How often a write survives, in hundredths.
const SURVIVAL: [u64; 4] = [10, 50, 90, 98];

/// Makes the third file: the first one with what the log has up to the cut. Returns the length of
/// the log up to the next flush: what began later cannot be in the file.
pub fn replay([image, log, after]: [&Path; 3], cut: &Cut) -> io::Result<u64> {
    let flushes = flushes(log)?;
    let position = |flush: usize| match flush {
        0 => 0,
        _ => flushes.get(flush - 1).copied().unwrap_or(u64::MAX),
    };
    let (durable, next) = (
        position(cut.flush.saturating_sub(cut.ignored)),
        position(cut.flush + 1),
    );
    let from = File::open(image)?;
    let to = File::create(after)?;
    to.set_len(from.metadata()?.len())?;
    data_of(&from, &mut |offset, data| to.write_all_at(data, offset))?;
    let mut dice = Dice::new(cut.seed);
    let survival = SURVIVAL[dice.below(SURVIVAL.len() as u64) as usize];
    let mut end = 0;
    read(log, &mut |record, position| {
        if position >= next {
            return Ok(false);
        }
        end = position;
        let Record::Write { offset, bytes } = record else {
            return Ok(true);
        };
        if position <= durable {
            to.write_all_at(&bytes, offset)?;
        } else if cut.seed != 0 {
            let is_torn = dice.below(8) == 0;
            let mut survives = dice.below(100) < survival;
            for (n, unit) in bytes.chunks(cut.unit).enumerate() {
                if is_torn {
                    survives = dice.below(2) == 0;
                }
                if survives {
                    to.write_all_at(unit, offset + (n * cut.unit) as u64)?;
                }
            }
        }
        Ok(true)
    })?;
    Ok(end)
}

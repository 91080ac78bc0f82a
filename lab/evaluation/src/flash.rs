//! An SSD in virtual time: the cost of a read, by the pieces that it consists of.
//!
//! The worlds of this crate call this.
//! Invariant: pure arithmetic. One read at a time, like the published loads. Three models of the
//! same drive explain the loss of fragmented reads differently.

use crate::disk::{Ns, SECOND};
use std::collections::{BTreeMap, BTreeSet};

/// Why a read of many pieces takes longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Each piece is a command. The cost for each number of commands comes from the published
    /// curve.
    Commands,
    /// Pieces that were written at different times lie on random dies, and wait for each other
    /// there (FAST'24: most of the loss). Commands cost little.
    DieCollisions,
    /// The same drive, with pieces on the dies that a whole piece would use (the remedy of
    /// FAST'24).
    PlacedPieces,
}

/// Published speed of reads of 128 KiB by size of their pieces: KiB, MB/s (FragPicker, SOSP'21).
pub const CURVE: [(u64, u64); 6] = [
    (4, 724),
    (8, 894),
    (16, 1172),
    (32, 1396),
    (64, 1527),
    (128, 1728),
];

/// Size of the reads of the curve, bytes.
pub const CURVE_READ_BYTES: u64 = 128 << 10;

/// A drive.
#[derive(Clone, Copy, Debug)]
pub struct Flash {
    /// Explanation of the loss.
    pub loss: Loss,
    /// Time before the first byte.
    pub latency: Ns,
    /// Time of each command beyond the first, for models of dies.
    pub command: Ns,
    /// Time to read another page from a busy die; calibrated on the curve's 4 KiB.
    pub page_read: Ns,
    /// Number of dies.
    pub dies: u64,
    /// Size of a page on a die, bytes.
    pub page_bytes: u64,
    /// Write rate, bytes per second.
    pub write_rate: u64,
}

impl Flash {
    /// Returns the drive of the published curve.
    pub const fn published(loss: Loss) -> Self {
        Self {
            loss,
            latency: 20_000,
            command: 700,
            page_read: 31_000,
            dies: 32,
            page_bytes: 16 << 10,
            write_rate: 1_500_000_000,
        }
    }

    /// Returns the time of a read in one piece: the curve's largest piece, in proportion beyond the
    /// latency.
    fn whole(&self, bytes: u64) -> Ns {
        let at_best = curve_time(1).saturating_sub(self.latency);
        self.latency + at_best * bytes / CURVE_READ_BYTES
    }

    /// Returns the time of a read of pieces: place and size of each.
    pub fn read(&self, pieces: &[(u64, u64)]) -> Ns {
        let bytes = pieces.iter().map(|(_, bytes)| bytes).sum();
        let commands = pieces.len() as u64;
        let more = commands.saturating_sub(1);
        self.whole(bytes)
            + match self.loss {
                Loss::Commands => curve_time(commands).saturating_sub(curve_time(1)),
                Loss::PlacedPieces => more * self.command,
                Loss::DieCollisions => more * self.command + self.collisions(pieces),
            }
    }

    /// Returns the time that the busiest die needs beyond one page.
    fn collisions(&self, pieces: &[(u64, u64)]) -> Ns {
        let mut pages = BTreeSet::new();
        for (place, bytes) in pieces {
            let last = (place + bytes.max(&1) - 1) / self.page_bytes;
            pages.extend(place / self.page_bytes..=last);
        }
        let bytes: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
        // A long read visits each die several times, even in one piece.
        let at_best = bytes.div_ceil(self.page_bytes * self.dies).max(1);
        let mut loads: BTreeMap<u64, u64> = BTreeMap::new();
        for page in pages {
            *loads.entry(page % self.dies).or_default() += 1;
        }
        let most = loads.values().copied().max().unwrap_or(1);
        most.saturating_sub(at_best) * self.page_read
    }

    /// Returns the time to write this many bytes in one piece. A writer waits for the transfer, not
    /// for the flash.
    pub fn write(&self, bytes: u64) -> Ns {
        bytes * SECOND / self.write_rate
    }
}

/// Returns the published time of a read of 128 KiB in this many pieces, interpolated between the
/// points and extrapolated beyond them.
fn curve_time(pieces: u64) -> Ns {
    let time = |speed: u64| CURVE_READ_BYTES * 1000 / speed;
    let points = CURVE.map(|(kib, speed)| (CURVE_READ_BYTES / (kib << 10), time(speed)));
    let mut pairs = points.windows(2).rev();
    let last = points.windows(2).next();
    let holds = pairs.find(|pair| matches!(pair, [more, _] if pieces <= more.0));
    match holds.or(last) {
        Some([more, fewer]) => {
            let slope = more.1.saturating_sub(fewer.1) as f64 / (more.0 - fewer.0) as f64;
            let beyond = pieces.saturating_sub(fewer.0) as f64;
            fewer.1 + (slope * beyond) as Ns
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_curve_comes_out_of_the_model_that_it_made() {
        let flash = Flash::published(Loss::Commands);
        for (kib, speed) in CURVE {
            let pieces: Vec<(u64, u64)> = (0..128 / kib).map(|n| (n << 40, kib << 10)).collect();
            let found = CURVE_READ_BYTES * 1000 / flash.read(&pieces);
            assert!(
                found.abs_diff(speed) <= speed / 100,
                "{kib}: {found}, not {speed}"
            );
        }
        let more: Vec<(u64, u64)> = (0..64).map(|n| (n << 40, 2048)).collect();
        let fewer: Vec<(u64, u64)> = (0..32).map(|n| (n << 40, 4096)).collect();
        assert!(flash.read(&more) > flash.read(&fewer));
    }

    #[test]
    fn dies_collide_only_where_pieces_meet() {
        let flash = Flash::published(Loss::DieCollisions);
        let page = flash.page_bytes;
        let apart: Vec<(u64, u64)> = (0..8).map(|n| (n * page + (n << 40), 4096)).collect();
        let on_one: Vec<(u64, u64)> = (0..8).map(|n| (n << 40, 4096)).collect();
        assert_eq!(flash.collisions(&apart), 0);
        assert_eq!(flash.collisions(&on_one), 7 * flash.page_read);
        assert_eq!(flash.collisions(&[(0, 128 << 10)]), 0);
        assert_eq!(flash.collisions(&[(0, 64 << 20)]), 0);
    }
}

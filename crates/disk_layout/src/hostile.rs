//! Builds disks for attacks: well-formed where a decoder looks, hostile in their numbers. Tests and
//! the fuzz target attach them.
//!
//! Invariant: the dice decide every byte. A disk takes memory for what was written to it only,
//! whatever its size.

mod btrfs;
mod ext;
mod ntfs;
mod sparse;
mod tables;
mod xfs;

pub use ext::descriptor as log_descriptor;
pub use sparse::Sparse;
pub use tables::small_systems;

/// A seeded source of numbers.
pub struct Dice(u64);

impl Dice {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }

    /// One of some numbers; 0 if there are none.
    pub fn of(&mut self, choices: &[u64]) -> u64 {
        let n = self.below(choices.len() as u64) as usize;
        choices.get(n).copied().unwrap_or_default()
    }

    /// True once in `n` times, as a rule.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Builds a disk.
pub type Builder = fn(&mut Dice) -> Sparse;

/// All kinds of disks, by name.
pub const KINDS: [(&str, Builder); 9] = [
    ("gpt", tables::gpt),
    ("mbr", tables::mbr),
    ("lvm", tables::lvm),
    ("ext", ext::disk),
    ("ext-journal", ext::journal),
    ("xfs", xfs::disk),
    ("ntfs", ntfs::disk),
    ("btrfs", btrfs::disk),
    ("btrfs-parts", tables::btrfs_parts),
];

/// Bytes with a number at an offset, little-endian.
fn le(bytes: &mut [u8], at: usize, number: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(number) {
        *to = *from;
    }
}

/// Bytes with a number at an offset, big-endian.
fn be(bytes: &mut [u8], at: usize, number: u64, len: usize) {
    let number = number.to_be_bytes();
    le(bytes, at, number.get(8 - len.min(8)..).unwrap_or_default());
}

//! Defines the vocabulary that layers share: identifiers, sizes, origins and failures of paths as
//! types, the spelling of names in messages, and the reading of text that users write.
//!
//! Every crate may use this one; this one uses no other crate.
//! Invariant: nothing here does I/O, allocates more than a string, or knows a stored format.
#![forbid(unsafe_code)]

pub mod lines;
mod part;
mod path_error;
pub mod printable;

pub use part::{OutOfRange, Part};
pub use path_error::PathError;

use std::fmt;
use std::io;

/// Returns the cause of a system error for a message: "permission denied", without its number.
pub fn reason(error: &io::Error) -> String {
    let whole = error.to_string();
    let text = match error.raw_os_error() {
        Some(number) => whole
            .strip_suffix(&format!(" (os error {number})"))
            .unwrap_or(&whole),
        None => return whole,
    };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        // "RPC failed" stays as it is.
        (Some(first), Some(second)) if second.is_lowercase() => {
            let rest = text.get(first.len_utf8()..).unwrap_or_default();
            format!("{}{rest}", first.to_lowercase())
        }
        _ => text.to_owned(),
    }
}

/// Returns a number of things for a message: "1 file", "2 files", "3 entries".
pub fn count(number: u64, one: &str) -> String {
    match (number, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o']) => format!("{number} {stem}ies"),
        _ if ["s", "sh", "ch", "x"].iter().any(|end| one.ends_with(end)) => {
            format!("{number} {one}es")
        }
        _ => format!("{number} {one}s"),
    }
}

/// Keyed BLAKE3-256 hash of a chunk's plain bytes.
///
/// The all-zero value never names a chunk. It stands for a hole: a run of zero bytes that takes no
/// space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The value that stands for a run of zeroes.
    pub const HOLE: Self = Self([0; 32]);

    /// Returns true for the value that stands for a run of zeroes.
    pub fn is_hole(&self) -> bool {
        *self == Self::HOLE
    }

    /// Returns the first eight bytes, little-endian. They pick the bucket of the fingerprint index
    /// (DDFS section 3).
    pub fn bucket_bits(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// Returns bytes 8..12: the short fingerprint of an index entry. It is independent of the
    /// bucket bits.
    pub fn short(&self) -> u32 {
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d])
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

/// Sixteen random bytes that name a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PoolId(pub [u8; 16]);

/// Sixteen random bytes that name a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SnapshotId(pub [u8; 16]);

/// Sixteen random bytes that name a volume for its lifetime. Renaming the volume does not change
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct VolumeId(pub [u8; 16]);

macro_rules! hex_id {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(f, &self.0)
            }
        }
    };
}
hex_id!(PoolId);
hex_id!(SnapshotId);
hex_id!(VolumeId);

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
}

/// Number of the writer of a container. Several writers can share a bucket: each numbers its own
/// containers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct WriterId(pub u16);

/// Number of a container: the writer in the top 16 bits, the writer's sequence number in the low
/// 48.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContainerId(pub u64);

impl ContainerId {
    /// Largest sequence number of one writer.
    pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;

    /// Returns the `sequence`-th container of `writer`. Drops bits above 48.
    pub fn new(writer: WriterId, sequence: u64) -> Self {
        Self((u64::from(writer.0) << 48) | (sequence & Self::SEQUENCE_MAX))
    }

    /// Returns the writer of this container.
    pub fn writer(self) -> WriterId {
        WriterId((self.0 >> 48) as u16)
    }

    /// Returns the position in the writer's own sequence.
    pub fn sequence(self) -> u64 {
        self.0 & Self::SEQUENCE_MAX
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.writer().0, self.sequence())
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number of a committed root; each commit adds one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// Returns the generation after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Position of a byte in the pool's journal, counted from the first record that was ever written.
///
/// No position is used twice, so positions order writes: of two writes to one place the higher
/// position is newer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct JournalPosition(pub u64);

impl fmt::Display for JournalPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Nanoseconds since 1970-01-01 UTC; negative before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct UnixNanos(pub i64);

impl UnixNanos {
    /// Clocks of two machines may differ by this much, nanoseconds: an hour.
    pub const CLOCKS_APART_NS: i64 = 3600 * 1_000_000_000;

    /// Returns true for a time that only a wrong clock has given: it is in the future. Nothing may
    /// be decided by such a time; what has one counts as older than everything else.
    pub fn is_ahead_of(self, now: Self) -> bool {
        self.0 > now.0.saturating_add(Self::CLOCKS_APART_NS)
    }
}

/// Origin of an I/O. It reaches the scheduler, so that each origin gets its share of the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Origin {
    /// A client of a front end.
    #[default]
    Foreground,
    /// Backup stores new snapshots.
    Backup,
    /// Restore reads snapshots back.
    Restore,
    /// Replication copies snapshots to another pool.
    Replication,
    /// Scrub verifies stored data in the background.
    Scrub,
    /// Garbage collection frees space.
    Collect,
    /// Defragmentation stores data together that is read together.
    Defragment,
}

impl Origin {
    /// Returns true for background work that can wait: it keeps out of the way of clients.
    #[inline]
    pub const fn is_maintenance(self) -> bool {
        matches!(
            self,
            Self::Replication | Self::Scrub | Self::Collect | Self::Defragment
        )
    }
}

/// Class of an I/O (Differentiated Storage Services). 0 is unclassified; policy defines the other
/// values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct IoClass(pub u8);

/// Access pattern of a request: its relation to earlier ones. Crate `access_pattern` finds it out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Pattern {
    /// The request continues, or is near, earlier ones; or the history is too short to say.
    #[default]
    Sequential,
    /// The request lies at or after earlier ones, with a gap: changed blocks, strides.
    Monotonic,
    /// Neither of the two.
    Random,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_without_numbers() {
        let of_system = |number| reason(&io::Error::from_raw_os_error(number));
        assert_eq!(of_system(13), "permission denied");
        assert_eq!(of_system(28), "no space left on device");
        assert_eq!(reason(&io::Error::other("RPC: it ended")), "RPC: it ended");
        assert_eq!(
            reason(&io::Error::other("Its end (os error 1)")),
            "Its end (os error 1)"
        );
    }

    #[test]
    fn one_thing_has_no_s() {
        let counted = [
            (0, "file"),
            (1, "file"),
            (2, "file"),
            (1, "entry"),
            (2, "entry"),
            (2, "day"),
            (2, "flush"),
            (2, "class"),
        ];
        let counted = counted.map(|(number, one)| count(number, one));
        assert_eq!(
            counted,
            [
                "0 files",
                "1 file",
                "2 files",
                "1 entry",
                "2 entries",
                "2 days",
                "2 flushes",
                "2 classes"
            ]
        );
    }
}

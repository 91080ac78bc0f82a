//! Records of background work in small files below `cache`, and pairs of such files that are
//! written alternately. Scrub, defragmentation, garbage collection, damage hints and traces keep
//! state here that a restart may lose.
//!
//! Invariant: nothing is synced. A record that is torn, damaged, of another pool or of another
//! version counts as absent. Of two slots the newest readable one counts, so a torn record leaves
//! its predecessor.

use media::{Disk, MediaError};

const DIRECTORY: &str = "cache";

/// Returns the bytes of a file with at most `bytes_max` bytes, or `None` if it is longer or
/// unreadable.
pub(crate) fn read_record(disk: &dyn Disk, path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let file = disk.open_read(path).ok()?;
    let len = file.len().ok().filter(|len| *len <= bytes_max)?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_at(0, &mut bytes).ok()?;
    Some(bytes)
}

/// Writes a file below `cache`. Nothing of its old contents remains after a shorter record.
pub(crate) fn write_record(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Result<(), MediaError> {
    disk.make_dir(DIRECTORY)?;
    // This truncates the file.
    let file = disk.open(path, true)?;
    file.write_at(0, bytes)
}

/// Two files for numbered records of one kind, written alternately.
#[derive(Debug)]
pub struct RecordSlots {
    /// Paths below `cache`: of even and of odd numbers.
    paths: [&'static str; 2],
    /// Maximum size of a record, bytes.
    bytes_max: u64,
}

impl RecordSlots {
    /// Creates slots with two paths below `cache`, for even and odd numbers. Larger files are not
    /// read.
    pub const fn new(paths: [&'static str; 2], bytes_max: u64) -> Self {
        Self { paths, bytes_max }
    }

    /// Returns the record with the highest sequence number, among those that are readable and that
    /// `decode` accepts and returns with their numbers.
    pub fn newest<R>(
        &self,
        disk: &dyn Disk,
        decode: impl Fn(&[u8]) -> Option<(u64, R)>,
    ) -> Option<R> {
        let bytes = |path: &&str| read_record(disk, path, self.bytes_max);
        let records = self.paths.iter().filter_map(bytes);
        let newest = records
            .filter_map(|bytes| decode(&bytes))
            .max_by_key(|(sequence, _)| *sequence);
        newest.map(|(_, record)| record)
    }

    /// Writes the record with this number over the one two numbers before. Nothing is synced.
    pub fn write(&self, disk: &dyn Disk, sequence: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let [even, odd] = self.paths;
        let path = if sequence & 1 == 0 { even } else { odd };
        write_record(disk, path, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Damage, SimDisk};
    use std::sync::Arc;

    const BYTES_MAX: u64 = 64;
    const SLOTS: RecordSlots = RecordSlots::new(["cache/test.0", "cache/test.1"], BYTES_MAX);

    /// Encodes a record of `bytes` bytes: its length, then copies of the sequence number.
    fn encode(sequence: u8, bytes: usize) -> Vec<u8> {
        let mut record = vec![bytes as u8];
        record.resize(bytes, sequence);
        record
    }

    fn newest(disk: &Arc<SimDisk>) -> Option<u8> {
        SLOTS.newest(&**disk, |bytes| {
            let (len, rest) = bytes.split_first()?;
            let sequence = *rest.first()?;
            let is_whole = *len as usize == bytes.len() && rest.iter().all(|b| *b == sequence);
            is_whole.then_some((sequence.into(), sequence))
        })
    }

    #[test]
    fn the_newest_that_can_be_read_counts() {
        let disk = SimDisk::new();
        assert_eq!(newest(&disk), None);
        for (sequence, bytes) in [(1, 60), (2, 30), (3, 20), (4, 10), (5, 64)] {
            let record = encode(sequence, bytes);
            SLOTS.write(&*disk, sequence.into(), &record).unwrap();
            // Also over a longer one.
            assert_eq!(newest(&disk), Some(sequence));
        }
        disk.damage("cache/test.1", &Damage::FlipBit(80)).unwrap();
        assert_eq!(newest(&disk), Some(4));
        disk.damage("cache/test.0", &Damage::SetLen(9)).unwrap();
        assert_eq!(newest(&disk), None);
        SLOTS.write(&*disk, 7, &encode(7, 65)).unwrap();
        assert_eq!(newest(&disk), None, "longer than any record");
        SLOTS.write(&*disk, 8, &encode(8, 8)).unwrap();
        assert_eq!(newest(&disk), Some(8));
    }
}

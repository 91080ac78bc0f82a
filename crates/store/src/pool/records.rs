//! Records of background work in small files below `cache`, and two such files written in turn.
//!
//! Invariant: nothing is synced. A record that is torn, damaged, of another pool or of another version is
//! none; of two slots the newest that can be read counts, so a torn one leaves its predecessor. Called by
//! whoever remembers what a restart may forget: scrub, defragmentation, collections and the trace of what is read.

use media::{Disk, MediaError};

const DIRECTORY: &str = "cache";

/// The bytes of a file that has so many at most; none if it cannot be read.
pub(crate) fn read_record(disk: &dyn Disk, path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let file = disk.open_read(path).ok()?;
    let len = file.len().ok().filter(|len| *len <= bytes_max)?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_at(0, &mut bytes).ok()?;
    Some(bytes)
}

/// Writes a file below `cache`; nothing of what it held before stays behind a shorter record.
pub(crate) fn write_record(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Result<(), MediaError> {
    disk.make_dir(DIRECTORY)?;
    // Truncates.
    let file = disk.open(path, true)?;
    file.write_at(0, bytes)
}

/// Two files for the records of one kind, which are numbered and written in turn.
#[derive(Debug)]
pub struct RecordSlots {
    /// Below `cache`: of even numbers and of odd ones.
    paths: [&'static str; 2],
    /// Of a record.
    bytes_max: u64,
}

impl RecordSlots {
    /// Files below `cache`, for records of even and of odd numbers; larger files are not read.
    pub const fn new(paths: [&'static str; 2], bytes_max: u64) -> Self {
        Self { paths, bytes_max }
    }

    /// The record with the highest sequence number, of those that can be read and that `decode` accepts
    /// and gives with their numbers.
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

    /// Writes the record of this number over the one before its predecessor. Nothing is synced.
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

    /// A number, and as many bytes of it as `bytes` says, with their count before them.
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
            // Also where a longer one was.
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

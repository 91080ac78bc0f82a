//! Encodes the progress of `quintet host scrub`: a file in the user's cache directory, not in the
//! pool. The program calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 16 | id of the snapshot |
//! | 48 | 8 | hash of the options that number the files |
//! | 56 | 8 | start, nanoseconds since 1970 |
//! | 64 | 120 | [`HostScrubCounts`], eight bytes each |
//! | 184 | ... | sized: the path |
//! | | ... | number of files in progress, then the files: [`HostScrubFile`] |
//! | | ... | number of findings, then the findings: [`HostScrubFinding`] |
//! | | ... | sized: progress of the task, in the form of `duet` |
//! | ... | 8 | checksum of everything before |
//!
//! A file in progress: number, parts done, verdict, all in LEB128. A finding: number, sized path,
//! then twice (rotten, unreadable) the number of ranges, and for each the gap behind the one before
//! and the length, in bytes.
//!
//! Invariant: a record that cannot be decoded counts as missing, and the scrub begins anew. Ranges
//! are ascending and disjoint.

use crate::bytes::{Reader, Result, Writer};
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::{Stored, stored};
use std::ops::Range;
use units::{PoolId, SnapshotId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Largest record that is read, bytes.
pub const HOST_SCRUB_BYTES_MAX: u64 = 64 << 20;

const FRAME: Frame = Frame {
    what: "progress of a host scrub",
    kind: BlobKind::HostScrub,
    version: VERSION,
};

stored! {
    /// Totals of a scrub.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct HostScrubCounts with names {
        /// Files whose bytes are those of the snapshot.
        pub files_same: u64,
        /// Files that were written, or whose metadata were changed, since the snapshot.
        pub files_changed: u64,
        /// Files with other bytes than the snapshot's, and equal times and size.
        pub files_rotten: u64,
        /// Files of which the device did not return a part.
        pub files_unreadable: u64,
        /// Names of files that the snapshot does not have.
        pub files_new: u64,
        /// Names of directories that the snapshot does not have. What is in them is not counted.
        pub directories_new: u64,
        /// Files of the snapshot that no longer exist.
        pub files_deleted: u64,
        /// Files that had bytes in memory that were not on the disk yet.
        pub files_unwritten: u64,
        /// Files that could not be opened, or whose stored form is damaged.
        pub files_failed: u64,
        /// Bytes read from the medium.
        pub bytes_read: u64,
        /// Of these, bytes whose pages were dropped from memory first, without direct I/O.
        pub bytes_dropped_first: u64,
        /// Bytes that others had just read from the medium; they were compared in memory.
        pub bytes_read_by_others: u64,
        /// Bytes compared in memory although that proves nothing about a medium.
        pub bytes_unproven: u64,
        /// Bytes in holes, which need no read.
        pub bytes_in_holes: u64,
        /// Bytes found rotten or unreadable.
        pub bytes_bad: u64,
    }
}

/// State of a file that is compared in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostScrubFile {
    /// Parts that are done.
    pub parts_done: u64,
    /// Why the rest need not be compared.
    pub verdict: FileVerdict,
}

stored! {
    /// Verdict on a file without a finding.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum FileVerdict: "verdict" {
        /// No difference so far.
        #[default]
        Same = 0,
        /// Written, or its metadata were changed, since the snapshot.
        Changed = 1,
        /// It no longer exists.
        Deleted = 2,
        /// It has bytes that are not on the disk yet.
        Unwritten = 3,
        /// It could not be opened, or its stored form is damaged.
        Failed = 4,
    }
}

/// A file that is damaged on its medium.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostScrubFinding {
    /// Its path below the scrubbed one.
    pub path: Vec<u8>,
    /// Ranges with other bytes than the snapshot's.
    pub rotten: Vec<Range<u64>>,
    /// Ranges that the device did not return.
    pub unreadable: Vec<Range<u64>>,
}

/// The progress.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostScrubRecord {
    /// Pool of the snapshot.
    pub pool: PoolId,
    /// Snapshot with which the files are compared.
    pub snapshot: SnapshotId,
    /// Hash of the options that number the files.
    pub options: u64,
    /// Start.
    pub began: UnixNanos,
    /// Totals.
    pub counts: HostScrubCounts,
    /// The scrubbed path.
    pub path: Vec<u8>,
    /// Files in progress by number, ascending.
    pub files: Vec<(u64, HostScrubFile)>,
    /// Findings by number of the file, ascending.
    pub findings: Vec<(u64, HostScrubFinding)>,
    /// Progress of the task.
    pub progress: Vec<u8>,
}

impl HostScrubRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        FRAME.seal(self.pool, |w| {
            w.bytes(&self.snapshot.0)
                .u64(self.options)
                .i64(self.began.0);
            self.counts.put(w);
            w.sized(&self.path).varint(self.files.len() as u64);
            for (number, file) in &self.files {
                w.varint(*number)
                    .varint(file.parts_done)
                    .u8(file.verdict as u8);
            }
            w.varint(self.findings.len() as u64);
            for (number, finding) in &self.findings {
                w.varint(*number).sized(&finding.path);
                put_ranges(w, &finding.rotten);
                put_ranges(w, &finding.unreadable);
            }
            w.sized(&self.progress);
        })
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let mut record = Self {
            pool,
            snapshot: SnapshotId(r.array()?),
            options: r.u64()?,
            began: UnixNanos(r.i64()?),
            counts: Stored::take(&mut r)?,
            path: r.sized()?.to_vec(),
            ..Self::default()
        };
        for _ in 0..r.varint()? {
            let number = r.varint()?;
            let file = HostScrubFile {
                parts_done: r.varint()?,
                verdict: FileVerdict::decode(&mut r)?,
            };
            if record.files.last().is_some_and(|(last, _)| *last >= number) {
                return r.invalid("number");
            }
            record.files.push((number, file));
        }
        for _ in 0..r.varint()? {
            let number = r.varint()?;
            let finding = HostScrubFinding {
                path: r.sized()?.to_vec(),
                rotten: take_ranges(&mut r)?,
                unreadable: take_ranges(&mut r)?,
            };
            let last = record.findings.last();
            if last.is_some_and(|(last, _)| *last >= number) {
                return r.invalid("number");
            }
            record.findings.push((number, finding));
        }
        record.progress = r.sized()?.to_vec();
        r.finish()?;
        Ok(record)
    }
}

fn put_ranges(w: &mut Writer, ranges: &[Range<u64>]) {
    w.varint(ranges.len() as u64);
    let mut last = 0;
    for range in ranges {
        w.varint(range.start - last).varint(range.end - range.start);
        last = range.end;
    }
}

fn take_ranges(r: &mut Reader<'_>) -> Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut last = 0_u64;
    for _ in 0..r.varint()? {
        let (gap, len) = (r.varint()?, r.varint()?);
        let start = last.checked_add(gap);
        let end = start.and_then(|start| start.checked_add(len));
        let (Some(start), Some(end)) = (start, end.filter(|_| len > 0)) else {
            return r.invalid("range");
        };
        ranges.push(start..end);
        last = end;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Fault, checksum};
    use crate::record::is_read_whole_only;

    const POOL: PoolId = PoolId([3; 16]);

    fn record() -> HostScrubRecord {
        let finding = HostScrubFinding {
            path: b"a/b".to_vec(),
            rotten: vec![5..6, 6..7, 1 << 40..(1 << 40) + 9],
            unreadable: Vec::from_iter(std::iter::once(0..4096)),
        };
        let file = HostScrubFile {
            parts_done: 3,
            verdict: FileVerdict::Changed,
        };
        HostScrubRecord {
            pool: POOL,
            snapshot: SnapshotId([9; 16]),
            options: 77,
            began: UnixNanos(1),
            counts: HostScrubCounts {
                files_same: 1,
                bytes_bad: 2,
                ..HostScrubCounts::default()
            },
            path: b"/srv".to_vec(),
            files: vec![(4, HostScrubFile::default()), (7, file)],
            findings: vec![(2, finding), (3, HostScrubFinding::default())],
            progress: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_record_comes_back_and_no_torn_one_does() {
        let bytes = record().encode();
        assert_eq!(
            checksum(0, &bytes),
            6_692_402_237_749_303_900,
            "what older programs wrote"
        );
        assert_eq!(HostScrubRecord::decode(&bytes, POOL), Ok(record()));
        is_read_whole_only(&bytes, HostScrubRecord::decode);
    }

    #[test]
    fn what_no_program_writes_is_refused() {
        let refused = |record: HostScrubRecord| {
            let found = HostScrubRecord::decode(&record.encode(), POOL);
            found.unwrap_err().fault
        };
        let mut twice = record();
        twice.files[1].0 = 4;
        assert_eq!(refused(twice), Fault::Invalid("number"));
        let mut twice = record();
        twice.findings[1].0 = 2;
        assert_eq!(refused(twice), Fault::Invalid("number"));
        let mut empty = record();
        empty.findings[0].1.rotten[0] = 5..5;
        assert_eq!(refused(empty), Fault::Invalid("range"));
    }
}

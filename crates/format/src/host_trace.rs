//! Encodes the ranges of files of a Linux host that programs read and wrote: a file that the user
//! names, outside of pools. `linux_host` calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble; the pool id is zero |
//! | 32 | 8 | id of the file system |
//! | 40 | 8 | start, nanoseconds since 1970 |
//! | 48 | 8 | end |
//! | 56 | 8 | requests that were seen |
//! | 64 | 8 | requests that were lost |
//! | 72 | 1 | 1 if system calls were recorded to the byte, else 0 |
//! | 73 | ... | number of files, then the files: [`HostTraceFile`] |
//! | ... | 8 | checksum of everything before |
//!
//! A file: subvolume, inode, generation, number of ranges, then for each range the gap behind the
//! one before and the length, both in blocks of 4 KiB, and the weight. All in LEB128.
//!
//! Invariant: files have no names here: inode and generation identify them, so that a trace says
//! nothing of the names of others. Ranges are ascending and disjoint.

use crate::bytes::{Reader, Result, Writer};
use crate::preamble::BlobKind;
use crate::record::Frame;
use units::{PoolId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Largest file that is read, bytes.
pub const HOST_TRACE_BYTES_MAX: u64 = 64 << 20;
/// Ranges begin and end at multiples of this, bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// First block that no file has.
const BLOCKS_MAX: u64 = 1 << 51;

const FRAME: Frame = Frame {
    what: "trace of a host",
    kind: BlobKind::HostTrace,
    version: VERSION,
};
/// No pool.
const NOWHERE: PoolId = PoolId([0; 16]);

/// A requested range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostTraceRange {
    /// First byte, a multiple of [`BLOCK_BYTES`].
    pub start: u64,
    /// First byte after it, a multiple too.
    pub end: u64,
    /// Weight of the requests, as in `fragpicker`.
    pub weight: u64,
}

/// A file, and its requested ranges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostTraceFile {
    /// Subvolume, on btrfs; else 0.
    pub root: u64,
    /// Inode.
    pub inode: u64,
    /// Distinguishes files that had the same inode one after another.
    pub generation: u32,
    /// Ranges, ascending and disjoint.
    pub ranges: Vec<HostTraceRange>,
}

/// A trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostTrace {
    /// Id of the file system, as `statvfs` says it; without the subvolume, on btrfs.
    pub file_system: u64,
    /// Start.
    pub began: UnixNanos,
    /// End.
    pub ended: UnixNanos,
    /// Number of requests that were seen, those for other files too.
    pub requests: u64,
    /// Number of requests that were lost because nobody took them in time.
    pub lost: u64,
    /// System calls were recorded to the byte.
    pub is_exact: bool,
    /// Files.
    pub files: Vec<HostTraceFile>,
}

impl HostTrace {
    /// Encodes this trace. Ranges are as [`HostTraceFile`] says.
    pub fn encode(&self) -> Vec<u8> {
        FRAME.seal(NOWHERE, |w| {
            w.u64(self.file_system)
                .i64(self.began.0)
                .i64(self.ended.0)
                .u64(self.requests)
                .u64(self.lost)
                .u8(u8::from(self.is_exact))
                .varint(self.files.len() as u64);
            for file in &self.files {
                file.encode(w);
            }
        })
    }

    /// Verifies and decodes a trace.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = FRAME.open(bytes, NOWHERE)?;
        let mut trace = Self {
            file_system: r.u64()?,
            began: UnixNanos(r.i64()?),
            ended: UnixNanos(r.i64()?),
            requests: r.u64()?,
            lost: r.u64()?,
            is_exact: match r.u8()? {
                0 => false,
                1 => true,
                _ => return r.invalid("kind of records"),
            },
            files: Vec::new(),
        };
        for _ in 0..r.varint()? {
            trace.files.push(HostTraceFile::decode(&mut r)?);
        }
        r.finish()?;
        Ok(trace)
    }
}

impl HostTraceFile {
    fn encode(&self, w: &mut Writer) {
        w.varint(self.root)
            .varint(self.inode)
            .varint(u64::from(self.generation))
            .varint(self.ranges.len() as u64);
        let mut last = 0;
        for range in &self.ranges {
            w.varint((range.start - last) / BLOCK_BYTES)
                .varint((range.end - range.start) / BLOCK_BYTES)
                .varint(range.weight);
            last = range.end;
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut file = Self {
            root: r.varint()?,
            inode: r.varint()?,
            generation: r.varint32()?,
            ranges: Vec::new(),
        };
        let mut last = 0_u64;
        for _ in 0..r.varint()? {
            let (gap, len, weight) = (r.varint()?, r.varint()?, r.varint()?);
            let start = last.saturating_add(gap);
            let end = start.saturating_add(len);
            if len == 0 || weight == 0 || end > BLOCKS_MAX {
                return r.invalid("range");
            }
            file.ranges.push(HostTraceRange {
                start: start * BLOCK_BYTES,
                end: end * BLOCK_BYTES,
                weight,
            });
            last = end;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Fault, checksum};

    fn range(start: u64, end: u64, weight: u64) -> HostTraceRange {
        HostTraceRange {
            start: start * BLOCK_BYTES,
            end: end * BLOCK_BYTES,
            weight,
        }
    }

    fn with(ranges: Vec<HostTraceRange>) -> HostTrace {
        let file = HostTraceFile {
            root: 5,
            inode: 300,
            generation: 7,
            ranges,
        };
        HostTrace {
            file_system: 0xabcd,
            began: UnixNanos(1),
            ended: UnixNanos(2),
            requests: 9,
            lost: 1,
            is_exact: true,
            files: vec![HostTraceFile::default(), file],
        }
    }

    #[test]
    fn a_trace_comes_back_and_no_torn_one_does() {
        let trace = with(vec![range(0, 1, 256), range(1, 33, 1), range(40, 41, 9)]);
        let bytes = trace.encode();
        assert_eq!(
            checksum(0, &bytes),
            0xf0a333496882640a,
            "what older programs wrote"
        );
        // Three ranges are ten bytes: they are most of a trace.
        assert_eq!(bytes.len(), 73 + 1 + 4 + 5 + 4 + 3 + 3 + 8);
        assert_eq!(HostTrace::decode(&bytes), Ok(trace));
        for cut in 0..bytes.len() {
            assert!(HostTrace::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 0x10;
            assert!(HostTrace::decode(&torn).is_err(), "{at}");
        }
    }

    #[test]
    fn ranges_that_no_file_has_are_refused() {
        for (ranges, why) in [
            (vec![range(0, 0, 1)], "empty"),
            (vec![range(0, 1, 0)], "never requested"),
            (vec![range(BLOCKS_MAX - 1, BLOCKS_MAX + 1, 1)], "too far"),
        ] {
            let found = HostTrace::decode(&with(ranges).encode()).unwrap_err();
            assert_eq!(found.fault, Fault::Invalid("range"), "{why}");
        }
        let last = with(vec![range(BLOCKS_MAX - 1, BLOCKS_MAX, 1)]);
        assert_eq!(HostTrace::decode(&last.encode()), Ok(last));
    }
}

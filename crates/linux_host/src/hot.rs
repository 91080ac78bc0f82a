//! Hot ranges of the files of a Linux host, from a stored trace. The program plans with these.
//!
//! Invariant: ranges of a file are used only for the file with the same inode and generation on the
//! same file system.

use crate::identity::FileId;
use crate::tracing::file_system_of;
use format::bytes::FormatError;
use format::host_trace::{HOST_TRACE_BYTES_MAX, HostTrace};
use fragpicker::{HotRange, hottest};
use machine::Mount;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A trace cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum HotError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is damaged, or no trace.
    #[error("{0}; record it again with quintet host defrag trace")]
    Format(#[from] FormatError),
    /// It is larger than any trace.
    #[error("larger than a trace can be ({HOST_TRACE_BYTES_MAX} bytes)")]
    TooLarge,
    /// It says nothing of these files.
    #[error("recorded on another file system; record one with quintet host defrag trace")]
    OtherFileSystem,
}

/// Hot ranges of files.
pub struct HotRanges {
    mount: Mount,
    /// Ranges by subvolume, inode and generation.
    files: HashMap<(u64, u64, u32), Vec<HotRange>>,
    /// Requests that the trace saw.
    pub requests: u64,
}

impl HotRanges {
    /// Reads a trace for files on the mount of `top`. Of each file, `percent` of a hundred of its
    /// ranges are hot: those with the most requests.
    pub fn load(trace: &Path, top: &Path, percent: u8) -> Result<Self, HotError> {
        let mut bytes = Vec::new();
        let limit = HOST_TRACE_BYTES_MAX + 1;
        File::open(trace)?.take(limit).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == limit {
            return Err(HotError::TooLarge);
        }
        let record = HostTrace::decode(&bytes)?;
        let mount = Mount::of(top)?;
        let at = crate::identity::open(top)?;
        let root = match mount.kind == "btrfs" {
            true => crate::sys::btrfs_root(&at)?,
            false => 0,
        };
        if file_system_of(&at, root)? != record.file_system {
            return Err(HotError::OtherFileSystem);
        }
        let files = record.files.into_iter().map(|file| {
            let ranges = file.ranges.iter().map(|range| HotRange {
                start: range.start,
                end: range.end,
                weight: range.weight,
            });
            let hot = hottest(ranges.collect(), percent);
            ((file.root, file.inode, file.generation), hot)
        });
        Ok(Self {
            mount,
            files: files.collect(),
            requests: record.requests,
        })
    }

    /// Returns the hot ranges of an open file, ascending; none if it was not requested.
    pub fn of(&self, file: &File) -> io::Result<&[HotRange]> {
        let id = FileId::of(file, &self.mount)?;
        let found = self.files.get(&(id.root, id.inode, id.generation));
        Ok(found.map_or(&[], Vec::as_slice))
    }
}

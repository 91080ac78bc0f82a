//! Records which ranges of the files of a tree are requested: FragPicker's first three steps on a
//! Linux host. `quintet host defrag trace` calls this; `hot` reads the record.
//!
//! Invariant: memory is bounded by the number of ranges, not of requests. What is lost is counted.
//! Files outside of the tree are not in the record.

mod requests;

use crate::accesses::Accesses;
use crate::ebpf::EbpfError;
use crate::identity::FileId;
use crate::scan::walk;
use format::host_trace::{HostTrace, HostTraceFile, HostTraceRange};
use fragpicker::{HotRange, REQUEST_WEIGHT, TraceOptions};
use machine::Mount;
use requests::Requests;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use units::UnixNanos;

/// Requests cannot be recorded, and why.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The tree cannot be looked at.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The kernel does not report them.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// Nothing there could be moved.
    #[error("no extents of {0} can be moved; use ext4, xfs or btrfs")]
    WrongFileSystem(String),
    /// System calls are known on one kind of processor only.
    #[error("system calls are recorded on x86-64 only; leave --exact out")]
    WrongProcessor,
}

/// A trace being recorded.
pub struct Tracer {
    top: PathBuf,
    mount: Mount,
    accesses: Accesses,
    requests: Requests,
    began: UnixNanos,
}

/// A finished trace.
pub struct Traced {
    /// The record, for a file.
    pub record: HostTrace,
    /// The requested files of the tree, and the number of requests for each, the hottest first.
    /// Requests that the read-ahead of earlier ones answers are not counted.
    pub files: Vec<(PathBuf, u64)>,
    /// Requested files of the file system that are not in the tree, or deleted.
    pub elsewhere: u64,
    /// Requests for reading, and for writing, of all files.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// Different ranges that were forgotten because there were too many, and files.
    pub forgotten: u64,
    /// Files and directories that could not be looked at.
    pub failed: Vec<(PathBuf, io::Error)>,
}

impl Tracer {
    /// Starts to record requests for files on the mount of `top`. `exact` records system calls to
    /// the byte, at a cost for every system call of the machine.
    pub fn start(top: &Path, exact: bool, began: UnixNanos) -> Result<Self, TraceError> {
        let mount = Mount::of(top)?;
        if !matches!(mount.kind.as_str(), "ext4" | "xfs" | "btrfs") {
            return Err(TraceError::WrongFileSystem(mount.kind));
        }
        if exact && cfg!(not(target_arch = "x86_64")) {
            return Err(TraceError::WrongProcessor);
        }
        let accesses = Accesses::watch(mount.device, exact)?;
        Ok(Self {
            top: top.to_owned(),
            mount,
            accesses,
            requests: Requests::new(TraceOptions::default()),
            began,
        })
    }

    /// The mount of the tree.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Returns true if system calls are recorded to the byte. It can be without having been asked
    /// for, on kernels that do not report buffered reads otherwise.
    pub fn is_exact(&self) -> bool {
        self.accesses.is_exact
    }

    /// Returns which accesses this kernel does not report, and why.
    pub fn unseen(&self) -> &[(&'static str, EbpfError)] {
        &self.accesses.unseen
    }

    /// Takes what was requested since the last call. The kernel's buffer has room for 300,000
    /// requests: call this ten times a second.
    pub fn drain(&mut self) {
        let requests = &mut self.requests;
        self.accesses.drain(&mut |access| requests.record(&access));
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.reads + self.requests.writes
    }

    /// Ends the recording, and looks for the files of the tree.
    pub fn finish(mut self, ended: UnixNanos) -> Result<Traced, TraceError> {
        self.drain();
        let lost = self.accesses.lost()?;
        let Self {
            top,
            mount,
            accesses,
            requests,
            began,
        } = self;
        let is_exact = accesses.is_exact;
        // From here on the walk itself would be recorded.
        drop(accesses);
        let (mut files, mut records) = (Vec::new(), Vec::new());
        let mut seen = std::collections::HashSet::new();
        let mut file_system = 0;
        let walked = walk(&top, &mut |found| {
            let id = FileId::of(found.file, &mount)?;
            file_system = file_system_of(found.file, id.root)?;
            if !seen.insert(id) {
                return Ok(());
            }
            let ranges = requests.ranges(id, found.bytes);
            if ranges.is_empty() {
                return Ok(());
            }
            let weight: u64 = ranges.iter().map(|range| range.weight).sum();
            files.push((found.path.to_owned(), weight.div_ceil(REQUEST_WEIGHT)));
            records.push(HostTraceFile {
                root: id.root,
                inode: id.inode,
                generation: id.generation,
                ranges: ranges.iter().map(stored).collect(),
            });
            Ok(())
        })?;
        files.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
        Ok(Traced {
            elsewhere: requests.files().saturating_sub(records.len() as u64),
            reads: requests.reads,
            writes: requests.writes,
            forgotten: requests.forgotten(),
            failed: walked.failed,
            files,
            record: HostTrace {
                file_system,
                began,
                ended,
                requests: requests.reads + requests.writes,
                lost,
                is_exact,
                files: records,
            },
        })
    }
}

/// Whole blocks, as the record has them.
fn stored(range: &HotRange) -> HostTraceRange {
    HostTraceRange {
        start: range.start,
        end: range.end.next_multiple_of(fragpicker::BLOCK_BYTES),
        weight: range.weight,
    }
}

/// Returns the id of a file's file system. btrfs combines it with the number of the subvolume,
/// which is undone.
pub(crate) fn file_system_of(file: &File, root: u64) -> io::Result<u64> {
    Ok(rustix::fs::fstatvfs(file)?.f_fsid ^ root.rotate_left(32))
}

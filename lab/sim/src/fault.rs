//! Faults on demand, and counts of operations. `disk` and `file` call this before each operation.
//!
//! Invariant: a fault counts down in the order of operations, so a run with the same faults fails
//! at the same position.

use media::MediaError;
use std::io;

/// A future fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// After this many more bytes the disk is full: the write that crosses the limit keeps the part
    /// that fits and fails with `NoSpace`, and so does every later write.
    NoSpaceAfter(u64),
    /// After this many more writes, one fails with `Io` and keeps its first half.
    Write {
        /// Writes that still succeed.
        after: u64,
    },
    /// After this many more syncs, one fails with `Io`. Its changes never become durable, though
    /// they can still be read (as on Linux after a write-back error).
    Sync {
        /// Syncs that still succeed.
        after: u64,
        /// All later syncs fail as well; otherwise they succeed without the dropped changes.
        sticky: bool,
    },
    /// After this many more reads, all reads fail with `Io`.
    Read {
        /// Reads that still succeed.
        after: u64,
    },
    /// After this many more creations, renames and removals, one fails with `Io`.
    Names {
        /// Operations that still succeed.
        after: u64,
    },
    /// Nothing can be changed: `ReadOnly`.
    ReadOnly,
    /// The device is missing: everything fails with `Io`.
    Missing,
}

/// Counts of operations, for tests of cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OperationCounts {
    /// Reads of a file.
    pub reads: u64,
    /// Requested bytes.
    pub read_bytes: u64,
    /// Writes to a file.
    pub writes: u64,
    /// Written bytes.
    pub written_bytes: u64,
    /// Syncs of a file.
    pub file_syncs: u64,
    /// Syncs of a directory.
    pub dir_syncs: u64,
    /// Opened files, including new ones.
    pub opens: u64,
    /// Files and directories created, renamed or removed.
    pub names: u64,
    /// Listed directories.
    pub lists: u64,
}

/// The faults of one disk.
#[derive(Default)]
pub(crate) struct Faults {
    faults: Vec<Fault>,
}

/// Effect of a refused write.
pub(crate) struct Refused {
    /// Bytes at its start that were written all the same.
    pub(crate) written: usize,
    pub(crate) error: MediaError,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    /// Called before every operation.
    pub(crate) fn any(&self, operation: &'static str, path: &str) -> Result<(), MediaError> {
        if self.faults.contains(&Fault::Missing) {
            return Err(failed(operation, path));
        }
        Ok(())
    }

    /// Called before anything that changes the disk.
    pub(crate) fn change(&self, operation: &'static str, path: &str) -> Result<(), MediaError> {
        self.any(operation, path)?;
        if self.faults.contains(&Fault::ReadOnly) {
            let source = io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(MediaError::from_io(operation, path, source));
        }
        Ok(())
    }

    /// Called before a name is created, moved or removed.
    pub(crate) fn names(&mut self, operation: &'static str, path: &str) -> Result<(), MediaError> {
        self.change(operation, path)?;
        self.once(operation, path, |fault| match fault {
            Fault::Names { after } => Some(after),
            _ => None,
        })
    }

    pub(crate) fn write(&mut self, path: &str, len: usize) -> Result<(), Refused> {
        let nothing = |error| Refused { written: 0, error };
        self.change("write", path).map_err(nothing)?;
        for fault in &mut self.faults {
            if let Fault::NoSpaceAfter(left) = fault {
                let fits = (*left).min(len as u64);
                *left -= fits;
                if fits < len as u64 {
                    let error =
                        MediaError::from_io("write", path, io::ErrorKind::StorageFull.into());
                    return Err(Refused {
                        written: fits as usize,
                        error,
                    });
                }
            }
        }
        self.once("write", path, |fault| match fault {
            Fault::Write { after } => Some(after),
            _ => None,
        })
        .map_err(|error| Refused {
            written: len / 2,
            error,
        })
    }

    pub(crate) fn read(&mut self, path: &str) -> Result<(), MediaError> {
        self.any("read", path)?;
        for fault in &mut self.faults {
            if let Fault::Read { after } = fault {
                *after = after.checked_sub(1).ok_or_else(|| failed("read", path))?;
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self, path: &str) -> Result<(), MediaError> {
        self.change("sync", path)?;
        for at in 0..self.faults.len() {
            if let Fault::Sync { after, sticky } = &mut self.faults[at] {
                if *after > 0 {
                    *after -= 1;
                } else {
                    if !*sticky {
                        self.faults.remove(at);
                    }
                    return Err(failed("sync", path));
                }
            }
        }
        Ok(())
    }

    /// Counts down the fault that `which` selects; at zero it takes effect once and is removed.
    fn once(
        &mut self,
        operation: &'static str,
        path: &str,
        which: impl Fn(&mut Fault) -> Option<&mut u64>,
    ) -> Result<(), MediaError> {
        for at in 0..self.faults.len() {
            if let Some(after) = which(&mut self.faults[at]) {
                if *after == 0 {
                    self.faults.remove(at);
                    return Err(failed(operation, path));
                }
                *after -= 1;
            }
        }
        Ok(())
    }
}

/// The error of a failed device.
pub(crate) fn failed(operation: &'static str, path: &str) -> MediaError {
    MediaError::from_io(operation, path, io::Error::other("simulated failure"))
}

//! Writes one file's bytes and metadata to the target. Workers of a restore call this.
//!
//! Invariant: damage never replaces bytes of an intact existing file, unless that is rewritten in
//! place.

use super::pending::{FirstName, PendingDirectory};
use super::tally::Tally;
use crate::filesystem::PathError;
use crate::filesystem::apply::{Identity, TargetDirectory};
use crate::filesystem::metadata::{Privileges, Shortfalls};
use crate::filesystem::overwrite::Placement;
use crate::filesystem::target_file::TargetFile;
use crate::observer::Observer;
use crate::partial::{DAMAGED_ATTRIBUTE, DamagedRanges};
use format::recipe::ObjectRoot;
use format::tree::Entry;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{Reader, StoreError};
use units::Fingerprint;

static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// State that workers share.
pub(super) struct RestoreContext<'a> {
    pub reader: &'a Reader,
    pub observer: &'a dyn Observer,
    pub tally: &'a Tally,
    pub privileges: Privileges,
    pub placement: Placement,
    pub all_sparse: bool,
    pub partial: bool,
}

/// A file to restore.
pub(super) struct FileJob {
    pub parent: Arc<PendingDirectory>,
    pub target: Arc<TargetDirectory>,
    pub name: CString,
    pub entry: Entry,
    pub content: ObjectRoot,
    pub sparse: bool,
    /// The name belongs to another file.
    pub replaces: bool,
    /// The file has further names.
    pub first: Option<Arc<FirstName>>,
}

enum Failure {
    /// State of the name, and the cause.
    Pool(&'static str, StoreError),
    Target(PathError),
}

impl FileJob {
    /// Restores the file and completes its entry in the directory.
    pub fn run(self, shared: &RestoreContext<'_>, shortfalls: &mut Shortfalls) {
        if shared.tally.is_full() {
            shared.tally.not_tried(self.content.len);
            shared.observer.add_files(1);
            PendingDirectory::one_less(self.parent, false, shared.privileges, shortfalls);
            return;
        }
        let mut lost = DamagedRanges::default();
        let path = self.target.path_of(&self.name);
        match self.restore(&mut lost, shared, shortfalls) {
            Ok(made) => {
                if let Some(first) = &self.first {
                    // Only this job creates the name.
                    let _ = first.made.set(made);
                }
                let len = self.content.len.saturating_sub(lost.bytes());
                shared.tally.restored(len, self.replaces);
                if !lost.is_empty() {
                    shared.tally.partial(&path, &lost, shared.observer);
                }
            }
            Err(Failure::Target(e)) => {
                let len = self.content.len;
                shared.tally.failed(&e, len, shared.observer);
            }
            Err(Failure::Pool(what, e)) => shared.tally.lost(&path, what, e, shared.observer),
        }
        shared.observer.add_files(1);
        PendingDirectory::one_less(self.parent, false, shared.privileges, shortfalls);
    }

    fn restore(
        &self,
        lost: &mut DamagedRanges,
        shared: &RestoreContext<'_>,
        shortfalls: &mut Shortfalls,
    ) -> Result<Identity, Failure> {
        let file = self
            .target
            .create_file(&self.name, shared.placement)
            .map_err(Failure::Target)?;
        let what = match file.is_rewritten() {
            true => "not restored; the existing file is overwritten in part",
            false => "not restored",
        };
        let fail = |e| match e {
            Failure::Pool(_, e) => Failure::Pool(what, e),
            failure => failure,
        };
        match shared.partial {
            true => self.write_what_is_left(&file, lost, shared, &fail)?,
            false => self.write(&file, shared).map_err(fail)?,
        }
        let marked;
        let entry = match lost.is_empty() {
            true => &self.entry,
            false => {
                if let Err(e) = file.mark(DAMAGED_ATTRIBUTE, &lost.attribute()) {
                    shortfalls.warnings.push(e);
                }
                marked = lost.mark(&self.entry);
                &marked
            }
        };
        file.finish(entry, self.content.len, shared.privileges, shortfalls)
            .map_err(Failure::Target)
    }

    fn write(&self, file: &TargetFile, shared: &RestoreContext<'_>) -> Result<(), Failure> {
        let mut failed = None;
        let visited = shared.reader.visit_pieces(
            &self.content,
            0,
            self.content.len,
            &mut |offset, len, chunk| match self.piece(file, offset, len, &chunk, shared) {
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(Failure::Pool(_, e)) => Err(e),
                Err(Failure::Target(e)) => {
                    failed = Some(e);
                    Ok(ControlFlow::Break(()))
                }
            },
        );
        visited.map_err(|e| Failure::Pool("", e))?;
        failed.map_or(Ok(()), |e| Err(Failure::Target(e)))
    }

    /// Writes everything except damaged ranges, which become holes. An intact existing file is not
    /// replaced by a damaged one.
    fn write_what_is_left(
        &self,
        file: &TargetFile,
        lost: &mut DamagedRanges,
        shared: &RestoreContext<'_>,
        fail: &dyn Fn(Failure) -> Failure,
    ) -> Result<(), Failure> {
        let mut failed = None;
        let keeps_other = self.replaces && !file.is_rewritten();
        let visited =
            shared
                .reader
                .visit_pieces_past_damage(&self.content, &mut |offset, len, chunk| {
                    let written = match chunk {
                        Ok(chunk) => self.piece(file, offset, len, &chunk, shared),
                        Err(e) => Err(Failure::Pool("", e)),
                    };
                    match written {
                        Ok(()) => {}
                        Err(Failure::Pool(_, e)) if e.is_corruption() && !keeps_other => {
                            lost.add(offset, len);
                            if let Err(e) = file.zero_at(offset, len) {
                                failed = Some(e);
                                return Ok(ControlFlow::Break(()));
                            }
                        }
                        Err(Failure::Pool(_, e)) => return Err(e),
                        Err(Failure::Target(e)) => {
                            failed = Some(e);
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                });
        visited.map_err(|e| match keeps_other {
            true => Failure::Pool("not restored; the existing file is unchanged", e),
            false => fail(Failure::Pool("", e)),
        })?;
        failed.map_or(Ok(()), |e| Err(Failure::Target(e)))
    }

    fn piece(
        &self,
        file: &TargetFile,
        offset: u64,
        len: u64,
        chunk: &Fingerprint,
        shared: &RestoreContext<'_>,
    ) -> Result<(), Failure> {
        let written = if chunk.is_hole() {
            match self.sparse || shared.all_sparse {
                true => file.zero_at(offset, len),
                false => write_zeroes(file, offset, len),
            }
        } else {
            let bytes = shared.reader.piece(&self.content, chunk, len);
            let bytes = bytes.map_err(|e| Failure::Pool("", e))?;
            write_bytes(file, offset, bytes.get(..len as usize).unwrap_or(&bytes))
        };
        shared.observer.add_bytes(len);
        written.map_err(Failure::Target)
    }
}

/// A rewritten file keeps blocks that are equal already.
fn write_bytes(file: &TargetFile, offset: u64, bytes: &[u8]) -> Result<(), PathError> {
    if file.is_rewritten() {
        let mut present = vec![0; bytes.len()];
        if file.read_at(offset, &mut present)? == bytes.len() && present == bytes {
            return Ok(());
        }
    }
    file.write_at(offset, bytes)
}

fn write_zeroes(file: &TargetFile, offset: u64, len: u64) -> Result<(), PathError> {
    let mut done = 0;
    while done < len {
        let count = (len - done).min(ZEROES.len() as u64);
        file.write_at(offset + done, ZEROES.split_at(count as usize).0)?;
        done += count;
    }
    Ok(())
}

//! One file's bytes and metadata into the target.

use super::Trouble;
use super::tree::PendingDirectory;
use crate::filesystem::PathError;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::metadata::{Privileges, Shortfalls};
use crate::filesystem::overwrite::Placement;
use crate::filesystem::target_file::TargetFile;
use crate::progress::Progress;
use format::recipe::ObjectRoot;
use format::tree::Entry;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{Reader, StoreError};

static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// What workers share.
pub(super) struct Shared<'a> {
    pub reader: &'a Reader,
    pub progress: &'a Progress,
    pub trouble: &'a Trouble,
    pub privileges: Privileges,
    pub placement: Placement,
    pub all_sparse: bool,
}

/// A file to be restored.
pub(super) struct FileJob {
    pub parent: Arc<PendingDirectory>,
    pub name: CString,
    pub entry: Entry,
    pub content: ObjectRoot,
    pub sparse: bool,
}

enum Failure {
    Pool(StoreError),
    Target(PathError),
}

impl FileJob {
    /// Restores it and counts it off its directory.
    pub fn run(self, shared: &Shared<'_>, shortfalls: &mut Shortfalls) {
        let target = Arc::clone(&self.parent.target);
        match self.restore(&target, shared, shortfalls) {
            Ok(()) => {}
            Err(Failure::Target(e)) => shared.trouble.path(&e, shared.progress),
            Err(Failure::Pool(e)) => {
                shared
                    .trouble
                    .store(&target.path_of(&self.name), e, shared.progress);
            }
        }
        shared.progress.add_files(1);
        PendingDirectory::one_less(self.parent, shared.privileges, shortfalls);
    }

    fn restore(
        &self,
        target: &Arc<TargetDirectory>,
        shared: &Shared<'_>,
        shortfalls: &mut Shortfalls,
    ) -> Result<(), Failure> {
        let file = target
            .create_file(&self.name, shared.placement)
            .map_err(Failure::Target)?;
        self.write(&file, shared)?;
        file.finish(&self.entry, self.content.len, shared.privileges, shortfalls)
            .map_err(Failure::Target)
    }

    fn write(&self, file: &TargetFile, shared: &Shared<'_>) -> Result<(), Failure> {
        let mut failed = None;
        let reader = shared.reader;
        let visited = reader.visit_pieces(
            &self.content,
            0,
            self.content.len,
            &mut |offset, len, chunk| {
                let written = if chunk.is_hole() {
                    if self.sparse || shared.all_sparse {
                        file.zero_at(offset, len)
                    } else {
                        write_zeroes(file, offset, len)
                    }
                } else {
                    let bytes = reader.piece(&self.content, &chunk, len)?;
                    write_bytes(file, offset, bytes.get(..len as usize).unwrap_or(&bytes))
                };
                shared.progress.add_bytes(len);
                match written {
                    Ok(()) => Ok(ControlFlow::Continue(())),
                    Err(e) => {
                        failed = Some(e);
                        Ok(ControlFlow::Break(()))
                    }
                }
            },
        );
        visited.map_err(Failure::Pool)?;
        failed.map_or(Ok(()), |e| Err(Failure::Target(e)))
    }
}

/// A rewritten file keeps the blocks that are right already.
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
        file.write_at(
            offset + done,
            ZEROES.get(..count as usize).unwrap_or_default(),
        )?;
        done += count;
    }
    Ok(())
}

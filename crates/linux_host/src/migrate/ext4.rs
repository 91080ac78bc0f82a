//! ext4: EXT4_IOC_MOVE_EXT exchanges blocks page by page, under the locks of the file and the page,
//! and leaves the page dirty. `migrate` chooses this by the file system's magic number.
//!
//! Invariant: with `data=ordered` (which `checks` demands) the journal commits an exchange only
//! after the data is in the new blocks. Until that is known the donor keeps the old ones: if
//! writing fails, they go back.
//!
//! The kernel does not count an exchange as a change that fdatasync has to commit. What others
//! write to the new blocks and fdatasync is lost in a power cut until the journal commits, so that
//! is done at once. `tests/host/power-cuts.sh` shows it. A paced move reads first, in pieces, and
//! commits each part: nothing waits between an exchange and its commit.

use super::donor::COPY_BYTES;
use super::error::MigrationError;
use super::method::{ATTEMPTS, Job, Method, Migrated, Placed};
use crate::sys::extents::{move_extents, write_back};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a call. One call for a large range gives up as soon as a single page is busy.
const STEP_BYTES: u64 = 1 << 20;

/// See the module's head.
pub(super) struct Ext4;

impl Method for Ext4 {
    fn needs_writing(&self) -> bool {
        true
    }

    fn exchange(&self, job: &Job<'_>, moved: &mut Migrated) -> Result<(), MigrationError> {
        let mut buffer = match job.pace.is_paced() {
            true => vec![0; COPY_BYTES],
            false => Vec::new(),
        };
        job.parts().into_iter().try_for_each(|part| {
            bring_into_memory(job, &part, &mut buffer)?;
            let bytes = part.iter().map(|(run, _)| run.end - run.start).sum();
            job.pace.run(bytes, || exchange_part(job, &part, moved))
        })
    }
}

/// Reads what the exchange would read while others wait.
fn bring_into_memory(
    job: &Job<'_>,
    part: &Placed,
    buffer: &mut [u8],
) -> Result<(), MigrationError> {
    if !job.pace.is_paced() {
        return Ok(());
    }
    for (run, _) in part {
        let mut range = run.start..run.end.min(job.size);
        while range.start < range.end {
            let bytes = job.pace.read_bytes(&range, buffer.len() as u64);
            let Some(into) = buffer.get_mut(..bytes as usize) else {
                break;
            };
            let piece = range.start..range.start + bytes;
            job.pace
                .read(job.file, &piece, || job.file.read_at(into, piece.start))
                .map_err(|e| MigrationError::of("read the file", e))?;
            range.start += bytes;
        }
    }
    Ok(())
}

/// Exchanges a part, and commits it.
fn exchange_part(job: &Job<'_>, part: &Placed, moved: &mut Migrated) -> Result<(), MigrationError> {
    let before = moved.bytes;
    let exchanged = part
        .iter()
        .try_for_each(|(run, to)| exchange_run(job, run.clone(), *to, moved));
    // Pages of the new blocks are dirty, also after an error.
    // fsync of the donor too: it commits the exchange however deep the file's extent tree is.
    let committed = job.file.sync_all().and_then(|()| job.donor.file.sync_all());
    // An error that writing back has reported is not reported to fsync again.
    let was_reported = match &exchanged {
        Err(MigrationError::Io { .. } | MigrationError::NoSpace) => true,
        Ok(()) | Err(_) => false,
    };
    match committed {
        Ok(()) if was_reported => {
            take_back(job, part, moved.bytes - before);
            moved.bytes = before;
            exchanged
        }
        Ok(()) => exchanged,
        Err(e) => {
            take_back(job, part, moved.bytes - before);
            moved.bytes = before;
            Err(MigrationError::of("write the moved range", e))
        }
    }
}

fn exchange_run(
    job: &Job<'_>,
    mut run: Range<u64>,
    mut to: u64,
    moved: &mut Migrated,
) -> Result<(), MigrationError> {
    let mut attempts = 0;
    while run.start < run.end {
        let bytes = (run.end - run.start).min(STEP_BYTES);
        let (done, outcome) = call(job, run.start, to, bytes);
        moved.bytes += done;
        moved.read_bytes += done;
        moved.written_bytes += done;
        run.start += done;
        to += done;
        match outcome {
            Ok(()) if done > 0 => attempts = 0,
            Ok(()) => return Err(MigrationError::Changed),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {
                attempts = if done > 0 { 0 } else { attempts + 1 };
                if attempts == ATTEMPTS {
                    return Err(MigrationError::Changed);
                }
                moved.retries += 1;
                let part = run.start..run.end.min(run.start + STEP_BYTES);
                write_back(job.file, &part)
                    .map_err(|e| MigrationError::of("write dirty pages of the file", e))?;
            }
            Err(e) => return Err(failed(job, e)),
        }
    }
    Ok(())
}

/// Returns the bytes that were exchanged, and the kernel's answer.
fn call(job: &Job<'_>, start: u64, to: u64, bytes: u64) -> (u64, io::Result<()>) {
    let blocks = |bytes: u64| bytes / job.block;
    let (file, donor) = (job.file, &job.donor.file);
    let (done, outcome) = move_extents(file, donor, blocks(start), blocks(to), blocks(bytes));
    (done * job.block, outcome)
}

fn failed(job: &Job<'_>, source: io::Error) -> MigrationError {
    match source.raw_os_error() {
        Some(libc::ETXTBSY) => MigrationError::SwapFile,
        // Beyond the end of a file that was truncated.
        Some(libc::EINVAL) if job.file.metadata().is_ok_and(|now| now.len() < job.size) => {
            MigrationError::Changed
        }
        _ => MigrationError::of("exchange blocks", source),
    }
}

/// Gives the file the old blocks of the first `exchanged` bytes of a part back. The pages are still
/// in memory, and are written there.
fn take_back(job: &Job<'_>, part: &Placed, mut exchanged: u64) {
    for (run, to) in part {
        let (mut start, mut to) = (run.start, *to);
        let end = run.end.min(start + exchanged);
        exchanged -= end - start;
        while start < end {
            let bytes = (end - start).min(STEP_BYTES);
            let (done, _) = call(job, start, to, bytes);
            // A part that cannot go back is passed over: the next ones may.
            let passed = if done == 0 { job.unit.min(bytes) } else { done };
            start += passed;
            to += passed;
        }
    }
    // The first error is the one that is reported.
    let _ = job.file.sync_data();
}

//! xfs and btrfs: the range is copied to the donor, and the kernel makes the file share the donor's
//! extents if it finds the same bytes in both (FIDEDUPERANGE). `migrate` chooses this by the file
//! system's magic number.
//!
//! Invariant: the kernel compares and exchanges while it keeps writers out, so a copy that a writer
//! made old is never exchanged: it is made anew. What is exchanged is on the device already.

use super::donor::COPY_BYTES;
use super::error::MigrationError;
use super::method::{ATTEMPTS, Job, Method, Migrated};
use crate::sys::extents::{ShareResult, share_if_same, write_back};
use std::io;
use std::ops::Range;

/// Bytes that the kernel compares in one call, while writers wait.
const STEP_BYTES: u64 = 1 << 20;

/// See the module's head.
pub(super) struct Dedupe;

impl Method for Dedupe {
    fn needs_writing(&self) -> bool {
        false
    }

    fn exchange(&self, job: &Job<'_>, moved: &mut Migrated) -> Result<(), MigrationError> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut end = 0;
        for part in job.parts() {
            let from = end;
            for (run, to) in part {
                let run = run.start..run.end.min(job.size);
                let bytes = run.end.saturating_sub(run.start);
                copy(job, &run, to, &mut buffer, moved)?;
                end = to + bytes;
            }
            if job.pace.is_paced() && from < end {
                // Otherwise all of it would be written at once below.
                let written = from..end;
                let outcome = job
                    .pace
                    .run(end - from, || write_back(&job.donor.file, &written));
                outcome.map_err(|e| MigrationError::of("write the donor", e))?;
            }
        }
        // The last block of a file is only shared if both files end in it.
        let cut = job.donor.file.set_len(end);
        cut.map_err(|e| MigrationError::of("cut the donor", e))?;
        let synced = job.donor.file.sync_data();
        synced.map_err(|e| MigrationError::of("write the donor", e))?;
        for (run, to) in job.placed() {
            let run = run.start..run.end.min(job.size);
            share_run(job, run, to, &mut buffer, moved)?;
        }
        Ok(())
    }
}

fn share_run(
    job: &Job<'_>,
    mut run: Range<u64>,
    mut to: u64,
    buffer: &mut [u8],
    moved: &mut Migrated,
) -> Result<(), MigrationError> {
    let (mut step, mut attempts) = (STEP_BYTES, 0);
    while run.start < run.end {
        let bytes = (run.end - run.start).min(step);
        match share_if_same(&job.donor.file, to, job.file, run.start, bytes) {
            Ok(ShareResult::Bytes(0)) => return Err(MigrationError::Changed),
            Ok(ShareResult::Bytes(done)) => {
                moved.bytes += done;
                run.start += done;
                to += done;
                attempts = 0;
            }
            Ok(ShareResult::Differ) => {
                attempts += 1;
                if attempts == ATTEMPTS {
                    return Err(MigrationError::Changed);
                }
                moved.retries += 1;
                // Smaller parts are less likely to change between two looks.
                step = (step / 2).max(job.unit);
                let part = run.start..run.end.min(run.start + step);
                copy(job, &part, to, buffer, moved)?;
            }
            Err(e) => return Err(failed(job, e)),
        }
    }
    Ok(())
}

fn copy(
    job: &Job<'_>,
    range: &Range<u64>,
    to: u64,
    buffer: &mut [u8],
    moved: &mut Migrated,
) -> Result<(), MigrationError> {
    job.donor.copy(job.file, range, to, buffer, job.pace)?;
    let bytes = range.end.saturating_sub(range.start);
    moved.read_bytes += bytes;
    moved.written_bytes += bytes;
    Ok(())
}

fn failed(job: &Job<'_>, source: io::Error) -> MigrationError {
    match source.raw_os_error() {
        Some(libc::ETXTBSY) => MigrationError::SwapFile,
        // The file has another end now.
        Some(libc::EINVAL) if job.file.metadata().is_ok_and(|now| now.len() != job.size) => {
            MigrationError::Changed
        }
        Some(libc::EINVAL) => MigrationError::Unsupported,
        _ => MigrationError::of("exchange extents", source),
    }
}

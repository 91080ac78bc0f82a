//! An object out to a file, on all cores.

use crate::filesystem::PathError;
use crate::progress::Progress;
use format::recipe::ObjectRoot;
use rustix::io::pwritev;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::{ChunkRef, Reader, StoreError, StoreErrorKind};
use units::Fingerprint;

/// Bytes of the object that one thread takes at a time.
const STEP_BYTES: u64 = 8 << 20;
/// Chunks that are written with one system call.
const GATHER_MAX: usize = 64;

/// Why an export failed.
#[derive(Debug)]
pub enum ExportError {
    /// The target could not be written.
    Target(PathError),
    /// The pool could not be read.
    Store(StoreError),
}

impl From<StoreError> for ExportError {
    fn from(e: StoreError) -> Self {
        Self::Store(e)
    }
}

impl std::fmt::Display for ExportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Target(e) => e.fmt(f),
            Self::Store(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for ExportError {}

/// Writes an object to `file` (empty, or all zeroes where `zero` says so) and sets its length.
/// Zeroes are left out, so they become holes.
pub fn export_object(
    reader: &Reader,
    root: &ObjectRoot,
    file: &File,
    path: &Path,
    threads: usize,
    progress: &Progress,
) -> Result<(), ExportError> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    // One writer at a time: the kernel locks the file anyway, and waits for it by spinning.
    let target = Mutex::new(file);
    let work = || {
        while !stop.load(Ordering::Relaxed) && !progress.interrupt().requested() {
            let from = next.fetch_add(STEP_BYTES, Ordering::Relaxed);
            if from >= root.len {
                break;
            }
            let to = from.saturating_add(STEP_BYTES).min(root.len);
            if let Err(e) = export_range(reader, root, from, to, &target, path) {
                failure
                    .lock()
                    .unwrap_or_else(|e| e.into_inner())
                    .get_or_insert(e);
                stop.store(true, Ordering::Relaxed);
            }
            progress.add_bytes(to - from);
        }
    };
    std::thread::scope(|scope| {
        // One more than cores, since one of them waits for the target.
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(e) = failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(e);
    }
    if progress.interrupt().requested() {
        return Err(StoreError::new(StoreErrorKind::Interrupted, String::new()).into());
    }
    // Devices have the length they have.
    match file.metadata() {
        Ok(meta) if meta.is_file() && meta.len() != root.len => file
            .set_len(root.len)
            .map_err(|e| ExportError::Target(PathError::new("set length of", path, e))),
        _ => Ok(()),
    }
}

/// Chunks that lie one after another in the target.
#[derive(Default)]
struct Run {
    offset: u64,
    len: u64,
    chunks: Vec<(ChunkRef, usize)>,
}

fn export_range(
    reader: &Reader,
    root: &ObjectRoot,
    from: u64,
    to: u64,
    file: &Mutex<&File>,
    path: &Path,
) -> Result<(), ExportError> {
    let mut run = Run::default();
    let mut failed = None;
    reader.visit_pieces(root, from, to, &mut |offset, len, fingerprint| {
        // A piece belongs to the range that it starts in, so that each is written once.
        if offset < from || fingerprint.is_hole() {
            return Ok(ControlFlow::Continue(()));
        }
        let chunk = reader.chunk(&fingerprint)?;
        let use_bytes = usize::try_from(len).unwrap_or(usize::MAX).min(chunk.len());
        if offset != run.offset + run.len || run.chunks.len() == GATHER_MAX {
            if let Err(e) = write_run(file, &mut run) {
                failed = Some(PathError::new("write", path, e));
                return Ok(ControlFlow::Break(()));
            }
            run.offset = offset;
        }
        run.len += len;
        run.chunks.push((chunk, use_bytes));
        Ok(ControlFlow::Continue(()))
    })?;
    if failed.is_none()
        && let Err(e) = write_run(file, &mut run)
    {
        failed = Some(PathError::new("write", path, e));
    }
    failed.map_or(Ok(()), |e| Err(ExportError::Target(e)))
}

fn write_run(file: &Mutex<&File>, run: &mut Run) -> std::io::Result<()> {
    let mut slices: Vec<_> = run
        .chunks
        .iter()
        .map(|(chunk, len)| IoSlice::new(chunk.get(..*len).unwrap_or_default()))
        .collect();
    let mut rest = slices.as_mut_slice();
    let mut offset = run.offset;
    let file = file.lock().unwrap_or_else(|e| e.into_inner());
    while !rest.is_empty() {
        let written = match pwritev(*file, rest, offset) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        };
        offset += written as u64;
        IoSlice::advance_slices(&mut rest, written);
    }
    drop(file);
    run.len = 0;
    run.chunks.clear();
    Ok(())
}

/// Writes an object from `from` to its end into a pipe or terminal, in order.
pub fn stream_object(
    reader: &Reader,
    root: &ObjectRoot,
    to: &mut dyn Write,
    progress: &Progress,
) -> Result<(), ExportError> {
    static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
    let mut failed = None;
    reader.visit_pieces(
        root,
        0,
        root.len,
        &mut |_, len, fingerprint: Fingerprint| {
            if progress.interrupt().requested() {
                return Err(StoreError::new(StoreErrorKind::Interrupted, String::new()));
            }
            let written = if fingerprint.is_hole() {
                write_zeroes(to, len, &ZEROES)
            } else {
                let chunk = reader.chunk(&fingerprint)?;
                to.write_all(chunk.get(..len as usize).unwrap_or(&chunk))
            };
            progress.add_bytes(len);
            match written {
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(e) => {
                    failed = Some(PathError::new("write", "output", e));
                    Ok(ControlFlow::Break(()))
                }
            }
        },
    )?;
    failed.map_or(Ok(()), |e| Err(ExportError::Target(e)))
}

fn write_zeroes(to: &mut dyn Write, mut len: u64, zeroes: &[u8]) -> std::io::Result<()> {
    while len > 0 {
        let count = len.min(zeroes.len() as u64);
        to.write_all(zeroes.get(..count as usize).unwrap_or_default())?;
        len -= count;
    }
    Ok(())
}

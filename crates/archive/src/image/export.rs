//! Writes an object to a file on all cores, or to a stream in order. The commands `export` and
//! `dump` call this.
//!
//! Invariant: each piece is written exactly once, by the thread whose range it starts in.

use crate::error::ArchiveError;
use crate::filesystem::PathError;
use crate::image::target::{BLOCK_BYTES, ExportTarget, Window};
use crate::observer::Observer;
use format::recipe::{Layout, ObjectRoot};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::{Reader, StoreError, StoreErrorKind};
use units::Fingerprint;
use units::Part;

/// Bytes of the object that one thread takes at a time.
const STEP_BYTES: u64 = 8 << 20;
/// Shorter objects fit into the page cache before direct writes would gain anything.
const DIRECT_BYTES_MIN: u64 = 16 << 20;

/// Writes an object to `file`, which is empty, and sets its length. Skips zeroes, so they become
/// holes. `read_next`: the file is read right away, so it is written through the page cache.
pub fn export_object(
    reader: &Reader,
    root: &ObjectRoot,
    (file, path): (&File, &Path),
    read_next: bool,
    threads: usize,
    observer: &dyn Observer,
) -> Result<(), ArchiveError> {
    let blocks = whole_blocks(root) && !read_next && root.len >= DIRECT_BYTES_MIN;
    let target = ExportTarget::new(file, blocks);
    let fail = |operation| move |e| ArchiveError::Target(PathError::new(operation, path, e));
    if blocks {
        // Writes that extend a file would wait for each other.
        file.set_len(root.len).map_err(fail("set length of"))?;
    }
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let work = || {
        let mut window = Window::new(&target);
        while !stop.load(Ordering::Relaxed) && !observer.stop_requested() {
            let from = next.fetch_add(STEP_BYTES, Ordering::Relaxed);
            if from >= root.len {
                break;
            }
            let to = from.saturating_add(STEP_BYTES).min(root.len);
            if let Err(e) = export_range((reader, root), from..to, &mut window, path, observer) {
                failure.lock().get_or_insert(e);
                stop.store(true, Ordering::Relaxed);
            }
            observer.add_bytes(to - from);
        }
    };
    std::thread::scope(|scope| {
        // One thread more than cores, because one of them waits for the target.
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(e) = failure.into_inner() {
        return Err(e);
    }
    if observer.stop_requested() {
        return Err(StoreError::new(StoreErrorKind::Interrupted, String::new()).into());
    }
    // Zeroes at the end are not written, and the last chunk may be longer than its part of the
    // file.
    match file.metadata() {
        Ok(meta) if meta.len() == root.len => Ok(()),
        _ => file.set_len(root.len).map_err(fail("set length of")),
    }
}

/// Returns true if all chunks are whole blocks at multiples of the block size.
fn whole_blocks(root: &ObjectRoot) -> bool {
    matches!(root.layout, Layout::Fixed(log2) if 1usize << log2 >= BLOCK_BYTES)
}

fn export_range(
    (reader, root): (&Reader, &ObjectRoot),
    range: Range<u64>,
    window: &mut Window<'_>,
    path: &Path,
    observer: &dyn Observer,
) -> Result<(), ArchiveError> {
    let mut written = Ok(());
    reader.visit_pieces(
        root,
        range.start,
        range.end,
        &mut |offset, len, fingerprint| {
            // A piece belongs to the range in which it starts, so that each is written once.
            if offset < range.start || fingerprint.is_hole() {
                return Ok(ControlFlow::Continue(()));
            }
            let chunk = reader.piece(root, &fingerprint, len)?;
            observer.has_read(len);
            // The padding of a last chunk is truncated at the end.
            written = window.push(offset, &chunk);
            Ok(match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        },
    )?;
    // The next range of this thread is elsewhere.
    written
        .and_then(|()| window.flush())
        .map_err(|e| ArchiveError::Target(PathError::new("write", path, e)))
}

/// Writes an object from begin to end into a pipe or terminal, in order.
pub fn stream_object(
    reader: &Reader,
    root: &ObjectRoot,
    to: &mut dyn Write,
    observer: &dyn Observer,
) -> Result<(), ArchiveError> {
    static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
    let mut failed = None;
    reader.visit_pieces_forward(
        root,
        0,
        root.len,
        &mut |_, len, fingerprint: Fingerprint| {
            if observer.stop_requested() {
                return Err(StoreError::new(StoreErrorKind::Interrupted, String::new()));
            }
            let written = if fingerprint.is_hole() {
                write_zeroes(to, len, &ZEROES)
            } else {
                let chunk = reader.piece(root, &fingerprint, len)?;
                observer.has_read(len);
                to.write_all(chunk.get(..len as usize).unwrap_or(&chunk))
            };
            observer.add_bytes(len);
            match written {
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(e) => {
                    failed = Some(PathError::new("write", "output", e));
                    Ok(ControlFlow::Break(()))
                }
            }
        },
    )?;
    failed.map_or(Ok(()), |e| Err(ArchiveError::Target(e)))
}

fn write_zeroes(to: &mut dyn Write, mut len: u64, zeroes: &[u8]) -> std::io::Result<()> {
    while len > 0 {
        let count = len.min(zeroes.len() as u64);
        to.write_all(zeroes.part(..count as usize)?)?;
        len -= count;
    }
    Ok(())
}

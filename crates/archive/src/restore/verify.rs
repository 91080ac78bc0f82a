//! Reads a restored tree and compares it with the pool. `restore --verify` calls this.
//!
//! Invariant: it visits the entries that the restore selects. Each difference is reported once.

use super::plan::RestorePlan;
use crate::filesystem::PathError;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::capture::Directory;
use crate::filesystem::through_link::{LinkPlace, open_through_link};
use crate::observer::Observer;
use crate::selection::Verdict;
use format::recipe::ObjectRoot;
use format::tree::EntryKind;
use std::ffi::{CStr, CString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use store::{Reader, StoreError};

/// Result of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Names that differ from the snapshot, or are damaged in the pool.
    pub different: u64,
    /// Names that are not there or cannot be read.
    pub unread: u64,
}

/// Compares the contents of every selected file below `top` with the snapshot's. Reports each that
/// differs or cannot be read by name.
pub fn verify_tree(
    reader: &Reader,
    top: &TargetDirectory,
    plan: &RestorePlan<'_>,
    observer: &dyn Observer,
) -> Result<Verified, StoreError> {
    let mut found = Verified::default();
    let top = match Directory::of_handle(top.as_fd(), top.path()) {
        Ok(top) => Arc::new(top),
        Err(e) => {
            observer.path_failed(&e);
            found.unread = 1;
            return Ok(found);
        }
    };
    let selection = plan.selection;
    let selected = selection.includes.is_empty();
    let mut rest = vec![(top, Vec::new(), plan.root, selected)];
    while let Some((directory, path, content, parent_selected)) = rest.pop() {
        let entries = match reader.directory(&content) {
            // The restore has reported it.
            Err(e) if e.is_corruption() => {
                found.different += 1;
                continue;
            }
            entries => entries?,
        };
        for entry in entries {
            let mut path = path.clone();
            path.push(b'/');
            path.extend_from_slice(&entry.name);
            let Ok(name) = CString::new(entry.name.clone()) else {
                continue;
            };
            let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
            let Verdict { selected, enter } =
                selection.verdict(&path, is_directory, parent_selected);
            let is_left_out = !plan.devices && is_device(&entry.kind);
            if is_left_out || !(selected || is_directory && enter) {
                continue;
            }
            let same = match &entry.kind {
                EntryKind::Directory { content } => match child(plan, &directory, &name, &path) {
                    Ok(child) => {
                        rest.push((Arc::new(child), path.clone(), *content, selected));
                        Ok(true)
                    }
                    // The directory was only on the path to selected entries, which did not exist.
                    Err(_) if !selected => Ok(true),
                    Err(e) => Err(e),
                },
                EntryKind::File { content, .. } => {
                    match same_bytes(reader, &directory, &name, content) {
                        Err(e) if e.is_corruption() => Ok(false),
                        same => same?,
                    }
                }
                _ => directory
                    .stat(&name)
                    .map(|present| present.entry.kind == entry.kind),
            };
            match same {
                Ok(true) => {}
                Ok(false) => {
                    found.different += 1;
                    let at = directory.path_of(&name);
                    let why = io::Error::other("it differs from the snapshot");
                    observer.path_failed(&PathError::new("verify", at, why));
                }
                Err(e) => {
                    found.unread += 1;
                    observer.path_failed(&e);
                }
            }
        }
    }
    Ok(found)
}

/// Opens a directory as the restore has: also through a link on the way to a path that the backup
/// was given.
fn child(
    plan: &RestorePlan<'_>,
    above: &Directory,
    name: &CStr,
    path: &[u8],
) -> Result<Directory, PathError> {
    let opened = above.open_child(name);
    let (Err(_), Some(top), true) = (&opened, &plan.top, plan.leads_to_given(path)) else {
        return opened;
    };
    let shown = above.path_of(name);
    let led = open_through_link(LinkPlace {
        top: top.as_fd(),
        above: above.as_fd(),
        beneath: path.strip_suffix(name.to_bytes()).unwrap_or_default(),
        name,
        shown: &shown,
    });
    // A name that is no link has failed for a reason of its own.
    led.map_or(opened, |led| Directory::of_handle(led.as_fd(), &shown))
}

fn is_device(kind: &EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::BlockDevice { .. } | EntryKind::CharDevice { .. }
    )
}

fn same_bytes(
    reader: &Reader,
    directory: &Directory,
    name: &CString,
    content: &ObjectRoot,
) -> Result<Result<bool, PathError>, StoreError> {
    let file = match directory.open_file(name) {
        Ok(file) => file,
        Err(e) => return Ok(Err(e)),
    };
    if file.len() != content.len {
        return Ok(Ok(false));
    }
    let mut outcome = Ok(true);
    let mut present = Vec::new();
    reader.visit_pieces(content, 0, content.len, &mut |offset, len, fingerprint| {
        let mut done = 0;
        while done < len {
            let count = (len - done).min(1 << 20) as usize;
            present.resize(count, 0);
            match file.read_at(offset + done, &mut present) {
                Ok(read) if read == count => {}
                Ok(_) => outcome = Ok(false),
                Err(e) => outcome = Err(e),
            }
            let equal = if fingerprint.is_hole() {
                chunking::is_zero(&present)
            } else {
                let chunk = reader.chunk(&fingerprint)?;
                let from = done as usize;
                chunk.get(from..from + count) == Some(present.as_slice())
            };
            if !equal && outcome.is_ok() {
                outcome = Ok(false);
            }
            if !matches!(outcome, Ok(true)) {
                return Ok(ControlFlow::Break(()));
            }
            done += count as u64;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(outcome)
}

//! Counts files and bytes beside a running backup, so that progress has a total.
//!
//! Invariant: it reports nothing and never fails: the backup itself meets the same errors and
//! reports them. It runs only while progress is displayed.

use crate::filesystem::capture::Directory;
use crate::observer::Observer;
use crate::selection::BackupSelection;
use format::tree::EntryKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counts files and bytes of these paths for `observer`. Stops when `done` is set.
pub fn scan_trees(
    paths: &[PathBuf],
    selection: &BackupSelection,
    observer: &dyn Observer,
    done: &AtomicBool,
) {
    let (mut files, mut bytes) = (0, 0);
    let mut waiting = Vec::new();
    for path in paths {
        match Directory::open(path) {
            Ok(directory) => {
                let own = directory.capture_self(b"", &mut Vec::new());
                let device = own.map_or(0, |captured| captured.entry.device);
                waiting.push((directory, device));
            }
            Err(_) => {
                let len = path.symlink_metadata().map_or(0, |m| m.len());
                files += 1;
                bytes += len;
            }
        }
    }
    while let Some((directory, device)) = waiting.pop() {
        if done.load(Ordering::Relaxed) || observer.stop_requested() {
            return;
        }
        let Ok(names) = directory.names() else {
            continue;
        };
        let names = match selection.marker_in(&directory, &names) {
            Some(marker) => vec![marker.to_owned()],
            None => names,
        };
        for name in names {
            let Ok(captured) = directory.stat(&name) else {
                continue;
            };
            let is_directory = matches!(captured.entry.kind, EntryKind::Directory { .. });
            let path = directory.path_of(&name);
            if selection.excludes_path(path.as_os_str().as_encoded_bytes(), is_directory)
                || selection.is_own_place(&captured.entry)
            {
                continue;
            }
            if is_directory {
                let other = captured.entry.device;
                if !selection.stops_at_device(device, other)
                    && let Ok(child) = directory.open_child(&name)
                {
                    waiting.push((child, device));
                }
            } else if !selection.excludes_len(captured.len) {
                files += 1;
                if matches!(captured.entry.kind, EntryKind::File { .. }) {
                    bytes += captured.len;
                }
            }
        }
    }
    observer.expect(files, bytes);
}

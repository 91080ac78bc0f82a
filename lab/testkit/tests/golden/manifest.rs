//! The contents of a pool as text. The text of a golden pool never changes.

use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use sim::{Image, SimDisk};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Pool;

/// Lists every snapshot, every entry, and the BLAKE3 of every content.
pub fn manifest_of(pool: &Pool) -> String {
    let mut text = format!(
        "pool {} seal {:?}\n",
        pool.config().pool,
        pool.config().seal
    );
    for snapshot in pool.snapshots().expect("a sound catalog") {
        add_snapshot(&mut text, &snapshot);
        let Snapshot { kind, root, .. } = &snapshot;
        match kind {
            SnapshotKind::Tree => add_directory(&mut text, pool, root, ""),
            _ => add_content(&mut text, pool, root),
        }
    }
    text
}

fn add_snapshot(text: &mut String, snapshot: &Snapshot) {
    let Snapshot {
        id,
        taken,
        kind,
        name,
        host,
        user,
        program,
        ..
    } = snapshot;
    let _ = writeln!(
        text,
        "snapshot {id} taken {} {kind:?} {name:?} by {user} on {host} with {program}",
        taken.0
    );
    for path in &snapshot.paths {
        let _ = match path.len() {
            0..100 => writeln!(text, "  path {}", path.escape_ascii()),
            long => writeln!(text, "  path of {long} bytes {}", blake3::hash(path)),
        };
    }
    let Snapshot {
        tags,
        parent,
        signature,
        ..
    } = snapshot;
    let _ = writeln!(
        text,
        "  {} files, {} directories, {} bytes, {} added, {} ms, tags {tags:?}, parent {parent}, \
         signature {signature:?}",
        snapshot.files,
        snapshot.directories,
        snapshot.logical_bytes,
        snapshot.added_bytes,
        snapshot.duration_ms
    );
    let Snapshot {
        owners, original, ..
    } = snapshot;
    for (id, name) in owners.users() {
        let _ = writeln!(text, "  user {id} {name}");
    }
    for (id, name) in owners.groups() {
        let _ = writeln!(text, "  group {id} {name}");
    }
    if *original != units::SnapshotId::default() {
        let _ = writeln!(text, "  original {original}");
    }
}

fn add_content(text: &mut String, pool: &Pool, root: &ObjectRoot) {
    let _ = match pool.reader().read_whole(root, 1 << 30) {
        Ok(bytes) => writeln!(text, "  {} bytes {}", bytes.len(), blake3::hash(&bytes)),
        Err(e) if e.is_corruption() => writeln!(text, "  damaged"),
        Err(e) => panic!("{e}"),
    };
}

fn add_directory(text: &mut String, pool: &Pool, root: &ObjectRoot, path: &str) {
    for entry in pool.reader().directory(root).expect("a sound directory") {
        let Entry {
            mode,
            uid,
            gid,
            modified,
            changed,
            inode,
            device,
            links,
            ..
        } = &entry;
        let path = format!("{path}/{}", entry.name.escape_ascii());
        let _ = writeln!(
            text,
            "{path} mode {mode:o} {uid}:{gid} modified {}.{:09} changed {}.{:09} inode {inode} \
             device {device} links {links}",
            modified.seconds, modified.nanos, changed.seconds, changed.nanos
        );
        for (name, value) in &entry.xattrs {
            let (name, value) = (name.escape_ascii(), value.escape_ascii());
            let _ = writeln!(text, "  {name} = {value}");
        }
        match &entry.kind {
            EntryKind::File { content, sparse } => {
                let _ = writeln!(text, "  file, sparse {sparse}");
                add_content(text, pool, content);
            }
            EntryKind::Directory { content } => add_directory(text, pool, content, &path),
            EntryKind::Symlink { target } => {
                let _ = writeln!(text, "  symlink to {}", target.escape_ascii());
            }
            EntryKind::BlockDevice { device } => {
                let _ = writeln!(text, "  block device {device:#x}");
            }
            EntryKind::CharDevice { device } => {
                let _ = writeln!(text, "  character device {device:#x}");
            }
            EntryKind::Fifo => text.push_str("  fifo\n"),
            EntryKind::Socket => text.push_str("  socket\n"),
        }
    }
}

/// Returns a simulated disk with a copy of the pool below `dir`, and its size, bytes.
pub fn planted(dir: &Path) -> (Arc<SimDisk>, usize) {
    let disk = SimDisk::unrecorded(Image::new());
    let mut stored = 0;
    for file in files_below(dir) {
        let bytes = std::fs::read(dir.join(&file)).expect("a golden file");
        stored += bytes.len();
        disk.plant(file.to_str().expect("our names are ASCII"), &bytes);
    }
    (disk, stored)
}

/// Writes the pool of an image below `dir`, which is new, and its manifest beside it.
pub fn keep(dir: &Path, image: &Image, manifest: &str) {
    std::fs::create_dir_all(dir).expect("create");
    std::fs::write(dir.with_extension("manifest"), manifest).expect("write");
    for (name, _) in image.files() {
        // Caches and holds of readers are not part of the format, and the lock is empty.
        if name.starts_with("cache/") || name.starts_with("readers/") || name == "lock" {
            continue;
        }
        let path = dir.join(&name);
        std::fs::create_dir_all(path.parent().expect("below the top")).expect("create");
        std::fs::write(path, image.contents(&name).expect("listed")).expect("write");
    }
    assert!(!files_below(dir).is_empty());
}

/// Returns the files below a directory, relative to it, sorted.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut rest = vec![PathBuf::new()];
    while let Some(at) = rest.pop() {
        for entry in std::fs::read_dir(dir.join(&at)).expect("a directory") {
            let entry = entry.expect("an entry");
            let path = at.join(entry.file_name());
            match entry.file_type().expect("a type").is_dir() {
                true => rest.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

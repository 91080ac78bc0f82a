//! Formats entries and snapshots as text and JSON. Commands that list them call this.
//!
//! Invariant: no I/O. Names from the pool are safe to print on a terminal.

use format::snapshot::{OwnerNames, Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use jiff::tz::TimeZone;
use std::os::unix::ffi::OsStrExt;
use terminal::calendar;
use terminal::console::printable;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;

/// Returns the name of an entry's type, as in restic.
pub fn type_name(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File { .. } => "file",
        EntryKind::Directory { .. } => "dir",
        EntryKind::Symlink { .. } => "symlink",
        EntryKind::BlockDevice { .. } => "dev",
        EntryKind::CharDevice { .. } => "chardev",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
    }
}

/// Returns the size of a file's content, bytes. 0 for other types.
pub fn len(entry: &Entry) -> u64 {
    match &entry.kind {
        EntryKind::File { content, .. } => content.len,
        _ => 0,
    }
}

/// Formats permissions like `drwxr-sr-t`.
pub fn permissions(entry: &Entry) -> String {
    let mut out = String::with_capacity(10);
    out.push(match entry.kind {
        EntryKind::File { .. } => '-',
        EntryKind::Directory { .. } => 'd',
        EntryKind::Symlink { .. } => 'l',
        EntryKind::BlockDevice { .. } => 'b',
        EntryKind::CharDevice { .. } => 'c',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
    });
    // Set-user-ID, set-group-ID and sticky bits replace an x.
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, entry.mode & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    out
}

/// Names of owners, in columns that are as wide as the longest of a snapshot.
pub struct OwnerColumns<'s> {
    names: &'s OwnerNames,
    widths: [usize; 2],
}

/// Minimum width of a column of owners: most numbers.
const OWNER_WIDTH_MIN: usize = 5;

impl<'s> OwnerColumns<'s> {
    /// Makes the columns of a snapshot.
    pub fn new(names: &'s OwnerNames) -> Self {
        let width = |(_, name): (u32, &str)| printable(name.as_bytes()).chars().count();
        let users = names.users().map(width).max().unwrap_or_default();
        let groups = names.groups().map(width).max().unwrap_or_default();
        let widths = [users, groups].map(|width| width.max(OWNER_WIDTH_MIN));
        Self { names, widths }
    }

    /// Formats owner and group: names, or numbers without names.
    fn of(&self, entry: &Entry) -> String {
        let shown = |name: Option<&str>, id: u32| match name {
            Some(name) => printable(name.as_bytes()),
            None => id.to_string(),
        };
        let user = shown(self.names.user(entry.uid), entry.uid);
        let group = shown(self.names.group(entry.gid), entry.gid);
        let [users, groups] = self.widths;
        format!("{user:>users$} {group:>groups$}")
    }
}

/// Formats `-rw-r--r--  root  root  1234 2026-11-20 13:45:07 `, which stands before a path.
pub fn long(entry: &Entry, owners: &OwnerColumns<'_>, human: bool, zone: &TimeZone) -> String {
    let size = match (&entry.kind, human) {
        (EntryKind::BlockDevice { device } | EntryKind::CharDevice { device }, _) => {
            let device = *device;
            format!(
                "{},{}",
                rustix::fs::major(device),
                rustix::fs::minor(device)
            )
        }
        (_, true) => sizes::display(len(entry)),
        (_, false) => len(entry).to_string(),
    };
    let (mode, time) = (
        permissions(entry),
        calendar::local_of_file(entry.modified, zone),
    );
    let owners = owners.of(entry);
    format!("{mode} {owners} {size:>11} {time} ")
}

/// Formats ` -> target` for a symbolic link.
pub fn arrow(entry: &Entry) -> String {
    match &entry.kind {
        EntryKind::Symlink { target } => format!(" -> {}", printable(target)),
        _ => String::new(),
    }
}

/// Adds the fields of the entry at `path`. `owners`: the names that its snapshot has.
pub fn node(object: Object, path: &[u8], entry: &Entry, owners: &OwnerNames) -> Object {
    let object = object
        .path("path", path)
        .path("name", &entry.name)
        .text("type", type_name(&entry.kind))
        .integer("size", len(entry))
        .integer("mode", entry.mode)
        .text("permissions", &permissions(entry))
        .integer("uid", entry.uid)
        .integer("gid", entry.gid);
    let object = [
        ("user", owners.user(entry.uid)),
        ("group", owners.group(entry.gid)),
    ]
    .into_iter()
    .filter_map(|(key, name)| Some((key, name?)))
    .fold(object, |object, (key, name)| object.text(key, name));
    let object = object
        .text("mtime", &calendar::rfc3339_of_file(entry.modified))
        .text("ctime", &calendar::rfc3339_of_file(entry.changed))
        .integer("inode", entry.inode)
        .integer("device_id", entry.device)
        .integer("links", entry.links);
    match &entry.kind {
        EntryKind::Symlink { target } => object.path("linktarget", target),
        EntryKind::BlockDevice { device } | EntryKind::CharDevice { device } => {
            object.integer("device", *device)
        }
        _ => object,
    }
}

/// Adds the fields of a snapshot.
pub fn snapshot(object: Object, snapshot: &Snapshot) -> Object {
    let object = object
        .text("id", &snapshot.id.to_string())
        .text("short_id", &short_id(snapshot))
        .time("time", snapshot.taken)
        .text("kind", snapshot.kind.name());
    let object = match snapshot.kind {
        SnapshotKind::Tree => object,
        SnapshotKind::Image | SnapshotKind::Stream | SnapshotKind::Volume => {
            object.text("name", &snapshot.name)
        }
    };
    let object = object
        .text("hostname", &snapshot.host)
        .text("username", &snapshot.user)
        .texts("paths", &snapshot.paths)
        .texts("tags", &snapshot.tags)
        .text("program_version", &snapshot.program);
    let object = match snapshot.parent == units::SnapshotId::default() {
        true => object,
        false => object.text("parent", &snapshot.parent.to_string()),
    };
    let object = match snapshot.original == units::SnapshotId::default() {
        true => object,
        false => object.text("original", &snapshot.original.to_string()),
    };
    object.object(
        "summary",
        Object::new()
            .integer("files", snapshot.files)
            .integer("directories", snapshot.directories)
            .integer("logical_bytes", snapshot.logical_bytes)
            .integer("added_bytes", snapshot.added_bytes)
            .integer("duration_ms", snapshot.duration_ms)
            .boolean("complete", snapshot.missed.is_nothing())
            .integer("files_unread", snapshot.missed.unread)
            .integer("files_changed_while_read", snapshot.missed.changed),
    )
}

/// Describes what is missing in a snapshot. `None` if it is complete.
pub fn incomplete(snapshot: &Snapshot) -> Option<String> {
    let missed = server::findings::missed_words(snapshot.kind, &snapshot.missed);
    missed.map(|missed| format!("incomplete: {missed}"))
}

/// Like [`subject`], with a remark if the snapshot is incomplete.
pub fn subject_and_gaps(snapshot: &Snapshot) -> String {
    match incomplete(snapshot) {
        Some(incomplete) => format!("{} ({incomplete})", subject(snapshot)),
        None => subject(snapshot),
    }
}

/// Describes the source of a snapshot.
pub fn subject(snapshot: &Snapshot) -> String {
    match snapshot.kind {
        SnapshotKind::Tree => {
            let paths: Vec<String> = snapshot.paths.iter().map(|p| printable(p)).collect();
            paths.join(", ")
        }
        SnapshotKind::Image | SnapshotKind::Stream | SnapshotKind::Volume => {
            let name = printable(std::ffi::OsStr::new(&snapshot.name).as_bytes());
            format!("{} {name}", snapshot.kind.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::recipe::ObjectRoot;
    use format::tree::Timestamp;

    #[test]
    fn modes() {
        let entry = |kind, mode| Entry {
            name: b"x".to_vec(),
            kind,
            mode,
            uid: 0,
            gid: 1000,
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            inode: 0,
            device: 0,
            links: 1,
            xattrs: Vec::new(),
        };
        let directory = EntryKind::Directory {
            content: ObjectRoot::EMPTY,
        };
        assert_eq!(permissions(&entry(directory, 0o1777)), "drwxrwxrwt");
        assert_eq!(permissions(&entry(EntryKind::Fifo, 0o6640)), "prwSr-S---");
        assert_eq!(permissions(&entry(EntryKind::Socket, 0o2751)), "srwxr-s--x");
        let null = entry(EntryKind::CharDevice { device: 0x103 }, 0o666);
        let mut names = OwnerNames::default();
        let shown = |names: &OwnerNames| {
            let columns = OwnerColumns::new(names);
            long(&null, &columns, false, &TimeZone::UTC)
        };
        assert_eq!(
            shown(&names),
            "crw-rw-rw-     0  1000         1,3 1970-01-01 00:00:00 "
        );
        assert!(
            names.add_user(0, "root") && names.add_user(5, "longest") && names.add_group(0, "root")
        );
        assert_eq!(
            shown(&names),
            "crw-rw-rw-    root  1000         1,3 1970-01-01 00:00:00 "
        );
    }
}

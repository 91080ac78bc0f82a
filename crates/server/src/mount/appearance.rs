//! Attributes that stat(2) shows of stored entries. `lines` and `snapshot_files` call this.
//!
//! Invariant: attributes of a stored entry are those in the snapshot. Only inode numbers are
//! derived (see `places`).

use super::items::Item;
use super::places::{Contents, Place, disks_node};
use super::views::Target;
use format::tree::{Entry, EntryKind, Timestamp};
use fuse::{Attributes, Time, file_type};
use units::UnixNanos;

/// Fastest request size, bytes: the largest that the kernel sends.
const BLOCK_BYTES: u32 = 1 << 20;

/// Returns the attributes of `item`, which is called `name` in `place`.
pub(super) fn of_item(place: &Place, name: &[u8], item: &Item) -> Attributes {
    let inode = || place.seed.derive(&[name]).0;
    match item {
        Item::Entry(entry) => of_entry(place, entry),
        Item::Single(shown) => of_single(inode(), shown.root.len, shown.taken),
        Item::Above(Target::Link(target)) => of_link(inode(), target),
        Item::Above(Target::Snapshot(shown)) => {
            Attributes::of_directory(inode(), moment(shown.taken))
        }
        Item::Above(Target::View(_)) => Attributes::of_directory(inode(), Time::default()),
        Item::Above(Target::Disks(which)) => {
            Attributes::of_directory(disks_node(*which).0, Time::default())
        }
    }
}

/// Returns the attributes of the top directory of a snapshot. `None` for other places.
pub(super) fn of_top(place: &Place) -> Option<Attributes> {
    let shown = place.snapshot.as_ref()?;
    let is_top = match &place.contents {
        Contents::Stored(_) => place.seed == place.top_seed,
        Contents::Single(_) => true,
        Contents::View(_) => false,
    };
    is_top.then(|| Attributes::of_directory(place.inode, moment(shown.taken)))
}

/// Returns the attributes of an entry of `place`.
fn of_entry(place: &Place, entry: &Entry) -> Attributes {
    let (inode, _) = place.inode_of(entry);
    let (size_bytes, blocks) = match &entry.kind {
        EntryKind::File { content, sparse } => (content.len, blocks(content.len, *sparse)),
        EntryKind::Directory { content } => (content.len, 0),
        EntryKind::Symlink { target } => (target.len() as u64, 0),
        _ => (0, 0),
    };
    let device = match entry.kind {
        // Linux device numbers have 32 bits.
        EntryKind::BlockDevice { device } | EntryKind::CharDevice { device } => device as u32,
        _ => 0,
    };
    Attributes {
        inode,
        size_bytes,
        blocks,
        modified: time(entry.modified),
        changed: time(entry.changed),
        mode: type_of(&entry.kind) | entry.mode,
        links: u32::try_from(entry.links).unwrap_or(u32::MAX).max(1),
        uid: entry.uid,
        gid: entry.gid,
        device,
        block_bytes: BLOCK_BYTES,
    }
}

/// Returns the attributes of the file of an image or stream. Only the owner may read it: a snapshot
/// does not record the permissions of its source.
fn of_single(inode: u64, len: u64, taken: UnixNanos) -> Attributes {
    let directory = Attributes::of_directory(inode, moment(taken));
    Attributes {
        size_bytes: len,
        blocks: blocks(len, true),
        mode: file_type::REGULAR | 0o400,
        block_bytes: BLOCK_BYTES,
        ..directory
    }
}

/// Returns the attributes of a symbolic link to a snapshot.
fn of_link(inode: u64, target: &[u8]) -> Attributes {
    Attributes {
        size_bytes: target.len() as u64,
        mode: file_type::SYMLINK | 0o777,
        ..Attributes::of_directory(inode, Time::default())
    }
}

/// Converts the time at which a snapshot was taken.
fn moment(taken: UnixNanos) -> Time {
    const SECOND: i64 = 1_000_000_000;
    Time {
        seconds: taken.0.div_euclid(SECOND),
        nanos: taken.0.rem_euclid(SECOND) as u32,
    }
}

/// Returns the file type bits of a mode.
pub(super) fn type_of(kind: &EntryKind) -> u32 {
    match kind {
        EntryKind::File { .. } => file_type::REGULAR,
        EntryKind::Directory { .. } => file_type::DIRECTORY,
        EntryKind::Symlink { .. } => file_type::SYMLINK,
        EntryKind::BlockDevice { .. } => file_type::BLOCK_DEVICE,
        EntryKind::CharDevice { .. } => file_type::CHAR_DEVICE,
        EntryKind::Fifo => file_type::FIFO,
        EntryKind::Socket => file_type::SOCKET,
    }
}

fn blocks(len: u64, sparse: bool) -> u64 {
    match sparse {
        true => Attributes::sparse_blocks(len),
        false => len.div_ceil(512),
    }
}

fn time(time: Timestamp) -> Time {
    Time {
        seconds: time.seconds,
        nanos: time.nanos,
    }
}

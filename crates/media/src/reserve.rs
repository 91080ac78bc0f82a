//! Reserves disk space that only recovery, garbage collection and deletion may use. A file occupies
//! it. Blobs, the journal and the pool call this.
//!
//! Invariant: the file contains nothing that is needed. It may be missing, shorter or longer, and a
//! crash may lose it. A put that meets a full disk takes the space it needs from the file, down to
//! the part that its [`Need`] leaves for others. The file is filled again when there is space. A
//! put of new data leaves as much free space as the file lacks of its wanted size. Where free space
//! is unknown, there is no reserve.

use crate::{Disk, DiskFile, MediaError, MediaErrorKind, Room};
use std::sync::Arc;

/// Name of the file.
pub const RESERVE_NAME: &str = "reserve";
/// Reserved share of the disk: a 16th.
const SHARE: u64 = 16;
/// Minimum, bytes: one copied container and the commit that records it.
const BYTES_MIN: u64 = 16 << 20;
/// Maximum, bytes: larger disks do not need more to begin with.
const BYTES_MAX: u64 = 64 << 20;
/// On no disk does the reserve exceed this share, an 8th.
const SHARE_MAX: u64 = 8;
/// Margin for growth that no put accounts for, bytes (directories, the file system's own records).
const MARGIN_BYTES: u64 = 1 << 20;
/// Minimum difference that is worth a change of the file, bytes.
const STEP_BYTES: u64 = 64 << 10;

/// Bytes taken beyond the size of a put, for its directory and the file system's own records.
const PIECE_BYTES: u64 = 256 << 10;

/// Purpose of a put. It determines how much of the reserve the put leaves, so that operations which
/// free space always remain possible after those that only take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// New data: takes none of the reserve.
    New,
    /// Acknowledged data that is still in the journal or in memory: leaves half.
    Acknowledged,
    /// A commit that frees space, acknowledged data that it or a read needs stored, and every other
    /// short commit: leaves a quarter.
    Deletion,
    /// Garbage collection and recovery: may take all.
    Room,
}

impl Need {
    /// Returns the bytes that a put leaves of a reserve with this wanted size.
    fn leaves(self, wanted_bytes: u64) -> u64 {
        match self {
            Self::New => wanted_bytes.saturating_add(margin(wanted_bytes)),
            Self::Acknowledged => wanted_bytes / 2,
            Self::Deletion => wanted_bytes / 4,
            Self::Room => 0,
        }
    }
}

/// The file that occupies the reserved space.
pub struct Reserve {
    disk: Arc<dyn Disk>,
}

/// Free and reserved space, all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Wanted size of the file on this disk.
    pub wanted_bytes: u64,
    /// Current size of the file.
    pub held_bytes: u64,
    /// Free space beside it.
    pub free_bytes: u64,
}

impl Reserved {
    /// Returns the space that puts of this kind may use.
    pub fn for_need(&self, need: Need) -> u64 {
        let all = self.free_bytes.saturating_add(self.held_bytes);
        all.saturating_sub(need.leaves(self.wanted_bytes))
    }

    /// Returns the bytes that garbage collection may copy. It leaves some for commits.
    pub fn for_copies(&self) -> u64 {
        self.for_need(Need::Deletion)
    }

    /// Returns true when writers are about to be refused. Garbage collection should then not spare
    /// the trash.
    pub fn is_nearly_full(&self) -> bool {
        self.for_need(Need::New) < 2 * self.wanted_bytes
    }
}

/// Scales the margin down for small disks, as in tests and appliances.
fn margin(wanted_bytes: u64) -> u64 {
    MARGIN_BYTES.min(wanted_bytes / 8)
}

/// Returns the wanted size of the reserve on a disk.
fn wanted(room: Room) -> u64 {
    let share = (room.total_bytes / SHARE).clamp(BYTES_MIN, BYTES_MAX);
    share.min(room.total_bytes / SHARE_MAX)
}

impl Reserve {
    /// Uses the reserve file on this disk.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// Returns free and reserved space; `None` if it is unknown.
    pub fn look(&self) -> Option<Reserved> {
        let room = self.disk.room()?;
        Some(Reserved {
            wanted_bytes: wanted(room),
            held_bytes: self.held(),
            free_bytes: room.free_bytes,
        })
    }

    fn held(&self) -> u64 {
        let file = self.disk.open_read(RESERVE_NAME);
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Frees as much of the reserve as a put of `bytes` needs and `need` may take. Returns true
    /// when that freed space.
    pub fn release(&self, bytes: u64, need: Need) -> bool {
        let Some(reserved) = self.look() else {
            return false;
        };
        let held = reserved.held_bytes;
        let spare = held.saturating_sub(need.leaves(reserved.wanted_bytes));
        let given = bytes.saturating_add(PIECE_BYTES).min(spare);
        if given == 0 {
            return false;
        }
        let opened = self.disk.open(RESERVE_NAME, false);
        opened.and_then(|file| file.give_back(held - given)).is_ok()
    }

    /// Repeats `attempt` while it runs out of space and the reserve can free space for `need`. Each
    /// attempt needs `bytes`.
    pub fn with_room<T>(
        &self,
        bytes: u64,
        need: Need,
        mut attempt: impl FnMut() -> Result<T, MediaError>,
    ) -> Result<T, MediaError> {
        loop {
            match attempt() {
                Err(e) if e.kind == MediaErrorKind::NoSpace && self.release(bytes, need) => {}
                done => return done,
            }
        }
    }

    /// Fills the reserve again as far as there is space. A failure costs only the reserve.
    pub fn restore(&self) {
        let Some(reserved) = self.look() else {
            return;
        };
        let Reserved {
            wanted_bytes,
            held_bytes,
            free_bytes,
        } = reserved;
        let spare = free_bytes.saturating_sub(margin(wanted_bytes));
        let goal = wanted_bytes.min(held_bytes.saturating_add(spare));
        if goal.abs_diff(held_bytes) < STEP_BYTES.min(wanted_bytes / 8) {
            return;
        }
        if let Ok(file) = self.open()
            && (goal < held_bytes || file.allocate(goal).is_err())
        {
            let _ = file.set_len(goal.min(held_bytes));
        }
    }

    fn open(&self) -> Result<Arc<dyn DiskFile>, MediaError> {
        match self.disk.open(RESERVE_NAME, false) {
            Err(e) if e.kind == MediaErrorKind::NotFound => self.disk.create_new(RESERVE_NAME),
            opened => opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_keeps_a_share_within_bounds() {
        let of = |total_bytes| {
            wanted(Room {
                free_bytes: 0,
                total_bytes,
                ..Room::default()
            }) >> 20
        };
        assert_eq!(of(48 << 20), 6);
        assert_eq!(of(300 << 20), 18);
        assert_eq!(of(700 << 20), 43);
        assert_eq!(of(1 << 40), 64);
    }

    #[test]
    fn writers_leave_what_the_file_is_short_of() {
        let with = |held_bytes, free_bytes| Reserved {
            wanted_bytes: 64 << 20,
            held_bytes,
            free_bytes,
        };
        let new = |reserved: Reserved| reserved.for_need(Need::New);
        assert_eq!(new(with(64 << 20, 5 << 20)), 4 << 20);
        assert_eq!(new(with(0, 69 << 20)), 4 << 20);
        assert_eq!(new(with(0, 60 << 20)), 0);
        assert_eq!(with(64 << 20, 0).for_need(Need::Room), 64 << 20);
        assert_eq!(with(64 << 20, 0).for_need(Need::Acknowledged), 32 << 20);
        assert_eq!(with(20 << 20, 0).for_need(Need::Acknowledged), 0);
        assert_eq!(with(20 << 20, 0).for_need(Need::Deletion), 4 << 20);
        assert!(with(64 << 20, 60 << 20).is_nearly_full());
        assert!(with(64 << 20, 120 << 20).is_nearly_full());
        assert!(!with(64 << 20, 130 << 20).is_nearly_full());
    }
}

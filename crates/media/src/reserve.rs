//! Room on the disk that only recovery, collection and deletion may use: a file that holds it.
//!
//! Invariant: the file holds nothing that anybody needs; it may be missing, shorter or longer, and
//! a crash may lose it. A put that meets a full disk takes of it what it needs, down to what its
//! [`Need`] leaves for others; it is filled again when there is room. Whoever stores something new
//! leaves as much free as the file is short of what is wanted. Where nobody knows how much room
//! there is, there is no reserve. Called by blobs, the journal and the pool.

use crate::{Disk, DiskFile, MediaError, MediaErrorKind, Room};
use std::sync::Arc;

/// The file.
pub const RESERVE_NAME: &str = "reserve";
/// Of the disk: a 16th, ...
const SHARE: u64 = 16;
/// ... at least so much, bytes: a container that is copied, and the commit that says so, ...
const BYTES_MIN: u64 = 16 << 20;
/// ... and at most so much: larger disks do not need more to begin with.
const BYTES_MAX: u64 = 64 << 20;
/// ... but on no disk more than an 8th.
const SHARE_MAX: u64 = 8;
/// Files grow by less than this without anybody having asked (directories, the file system's own
/// records).
const MARGIN_BYTES: u64 = 1 << 20;
/// Less is not worth a change of the file.
const STEP_BYTES: u64 = 64 << 10;

/// Taken at once beyond what a put needs: its directory and the file system's own records.
const PIECE_BYTES: u64 = 256 << 10;

/// Whom a put serves, and so how much of the reserve it leaves: what gives room back can always be
/// done after what only takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Something new: takes none of it.
    New,
    /// What was acknowledged and lies in the journal still, or in memory: leaves half.
    Acknowledged,
    /// A commit after which less is needed, and every other short one: leaves a quarter.
    Deletion,
    /// Collection and recovery: may take all.
    Room,
}

impl Need {
    /// Bytes that it leaves of a reserve that should hold so many.
    fn leaves(self, wanted_bytes: u64) -> u64 {
        match self {
            Self::New => wanted_bytes.saturating_add(margin(wanted_bytes)),
            Self::Acknowledged => wanted_bytes / 2,
            Self::Deletion => wanted_bytes / 4,
            Self::Room => 0,
        }
    }
}

/// See the module's head.
pub struct Reserve {
    disk: Arc<dyn Disk>,
}

/// How much there is, all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// What the file should hold on this disk.
    pub wanted_bytes: u64,
    /// What it holds.
    pub held_bytes: u64,
    /// What is free beside it.
    pub free_bytes: u64,
}

impl Reserved {
    /// What there is for puts of this kind.
    pub fn for_need(&self, need: Need) -> u64 {
        let all = self.free_bytes.saturating_add(self.held_bytes);
        all.saturating_sub(need.leaves(self.wanted_bytes))
    }

    /// Bytes that collectors may copy: commits need some too.
    pub fn for_copies(&self) -> u64 {
        self.for_need(Need::Deletion)
    }

    /// True when writers are about to be refused: who collects should not spare the trash.
    pub fn is_nearly_full(&self) -> bool {
        self.for_need(Need::New) < 2 * self.wanted_bytes
    }
}

/// Small disks, of tests and appliances, have a small one.
fn margin(wanted_bytes: u64) -> u64 {
    MARGIN_BYTES.min(wanted_bytes / 8)
}

/// What a disk of this size should keep.
fn wanted(room: Room) -> u64 {
    let share = (room.total_bytes / SHARE).clamp(BYTES_MIN, BYTES_MAX);
    share.min(room.total_bytes / SHARE_MAX)
}

impl Reserve {
    /// On this disk.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// How much there is; `None`: nobody knows.
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

    /// Gives up as much as a put of so many bytes needs, and as `need` may take. True when that
    /// made room.
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

    /// Tries again while it gives room that `need` may take; each attempt needs so many bytes.
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

    /// Fills it again, as far as there is room. What fails here costs nothing but the reserve.
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

//! Room on the disk that only recovery, collection and deletion may use: a file that holds it.
//!
//! Invariant: the file holds nothing that anybody needs; it may be missing, shorter or longer, and
//! a crash may lose it. It is emptied when a put meets a full disk, and filled again when there is
//! room. Whoever stores something new leaves as much free as the file is short of what is wanted.
//! Where nobody knows how much room there is, there is no reserve. Called by blobs, the journal and
//! the pool.

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
    /// What is free for who stores something new: the reserve is not.
    pub fn for_writers(&self) -> u64 {
        let kept = self.wanted_bytes.saturating_add(margin(self.wanted_bytes));
        self.for_recovery().saturating_sub(kept)
    }

    /// What there is for who makes room: all of it.
    pub fn for_recovery(&self) -> u64 {
        self.free_bytes.saturating_add(self.held_bytes)
    }

    /// Bytes that collectors may copy: commits need some too.
    pub fn for_copies(&self) -> u64 {
        self.for_recovery().saturating_sub(self.wanted_bytes / 4)
    }

    /// True when writers are about to be refused: who collects should not spare the trash.
    pub fn is_nearly_full(&self) -> bool {
        self.for_writers() < self.wanted_bytes
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

    /// Gives it up. True when that made room.
    pub fn release(&self) -> bool {
        if self.disk.room().is_none() || self.held() == 0 {
            return false;
        }
        let opened = self.disk.open(RESERVE_NAME, false);
        opened.and_then(|file| file.set_len(0)).is_ok()
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

/// Fills a file from its end up to `len` with bytes that no file system shrinks: for those that
/// cannot allocate.
pub(crate) fn fill<F: DiskFile + ?Sized>(file: &F, len: u64) -> Result<(), MediaError> {
    const PIECE_BYTES: usize = 256 << 10;
    let mut at = file.len()?;
    let mut state = at | 1;
    let mut piece = vec![0; PIECE_BYTES];
    while at < len {
        for word in piece.chunks_exact_mut(8) {
            // Xorshift (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let bytes = usize::try_from(len - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        file.write_at(at, piece.get(..bytes).unwrap_or_default())?;
        at += bytes as u64;
    }
    Ok(())
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
        assert_eq!(with(64 << 20, 5 << 20).for_writers(), 4 << 20);
        assert_eq!(with(0, 69 << 20).for_writers(), 4 << 20);
        assert_eq!(with(0, 60 << 20).for_writers(), 0);
        assert_eq!(with(64 << 20, 0).for_recovery(), 64 << 20);
        assert!(with(64 << 20, 60 << 20).is_nearly_full());
        assert!(!with(64 << 20, 80 << 20).is_nearly_full());
    }
}

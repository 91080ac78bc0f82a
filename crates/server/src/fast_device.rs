//! The directory of a fast tier (`serve --fast`): a disk that answers in time or fails, the room
//! that its index gets, and what speaks against it. `serve` calls this.
//!
//! Invariant: nothing here writes. What is not known is no objection.

use classes::Share;
use device::{Patience, PatientDisk};
use media::{Disk, LocalDisk};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use terminal::sizes;

/// Room that an index gets besides its size: it doubles when it grows.
const INDEX_GROWTH: u64 = 2;
/// Smallest room for the copy of an index: this part of the device. Pools grow while a server runs,
/// and begin empty.
const INDEX_PART_MIN: u64 = 16;
/// A read that takes longer is given up: the pool answers it, and the tier is off for a while. No
/// SSD that works takes so long, not on a busy machine either, and no client gives up so soon.
const PATIENCE: Patience = Patience {
    reads: Duration::from_secs(3),
    others: Duration::from_secs(20),
};

/// Returns the directory as a disk whose requests are given up after a time.
pub fn disk(directory: PathBuf) -> Arc<dyn Disk> {
    let disk = LocalDisk::new(directory);
    Arc::new(PatientDisk::new(Arc::new(disk), PATIENCE))
}

/// Returns the room for the copy of the index on a device of `bytes`: its share, or what it may
/// need, if that is less. The rest is the other kinds'.
pub fn index_room(bytes: u64, share: Share, index_bytes: u64) -> u64 {
    let needed = index_bytes.saturating_mul(INDEX_GROWTH);
    share.of(bytes).min(needed.max(bytes / INDEX_PART_MIN))
}

/// Returns true if `inner` is the directory `outer` or lies in it, by links and bind mounts too.
/// The end of `inner` may be missing.
pub fn is_within(inner: &Path, outer: &Path) -> bool {
    let existing = inner.ancestors().find(|at| at.is_dir());
    let inner = existing.and_then(|at| at.canonicalize().ok());
    let (Some(inner), Ok(outer)) = (inner, outer.metadata()) else {
        return false;
    };
    let is_outer = |at: &Path| {
        let found = at.metadata();
        found.is_ok_and(|found| (found.dev(), found.ino()) == (outer.dev(), outer.ino()))
    };
    inner.ancestors().any(is_outer)
}

/// Returns why a fast tier of this size in this directory will not help, if that is known.
pub fn doubt(directory: &Path, bytes: u64, pool: &Path) -> Option<String> {
    // One that is not there may be mounted later.
    let directory = directory.ancestors().find(|at| at.is_dir())?;
    let own = directory.metadata().ok()?;
    if pool.metadata().is_ok_and(|pool| pool.dev() == own.dev()) {
        return Some(format!(
            "--fast {} is on the same file system as the pool, so it is not faster and takes its \
             space; give a directory on a faster disk",
            directory.display()
        ));
    }
    let found = rustix::fs::statvfs(directory).ok()?;
    let disk_bytes = found.f_blocks.saturating_mul(found.f_frsize);
    (bytes > disk_bytes).then(|| {
        format!(
            "--fast-size {} is more than the whole file system of {}, which has {}; give less",
            sizes::display(bytes),
            directory.display(),
            sizes::display(disk_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_room_to_grow_while_the_server_runs() {
        let share = Share::percent::<50>();
        let room = |index_bytes| index_room(3 << 30, share, index_bytes);
        assert_eq!(room(0), 192 << 20, "a new pool");
        assert_eq!(room(90 << 20), 192 << 20);
        assert_eq!(room(200 << 20), 400 << 20);
        assert_eq!(room(u64::MAX), 3 << 29, "its share");
        assert_eq!(index_room(3 << 30, Share::percent::<0>(), 1 << 20), 0);
    }
}

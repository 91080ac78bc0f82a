//! Places of this program in a source: the pool itself, and mounts that show a pool as files. A
//! backup leaves them out, because they would grow with every backup.
//!
//! Invariant: they are known by identity, not by path, so that another way to them (a link, a bind
//! mount) finds them too.

use format::tree::Entry;
use machine::Mount;
use rustix::fs::makedev;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct OwnPlaces {
    /// Device and inode of the pool's directory.
    pool: Option<(u64, u64)>,
    mounts: Vec<(u64, PathBuf)>,
}

impl OwnPlaces {
    /// Returns this pool, if it is a directory of this machine, and all mounts of this program that
    /// the process sees, also those that no process serves any more.
    pub fn now(pool: &Path) -> io::Result<Self> {
        let pool = pool.metadata().ok().map(|pool| (pool.dev(), pool.ino()));
        let mounts = Mount::own()?.into_iter().map(|mount| {
            let device = makedev(mount.device >> 20, mount.device & 0xf_ffff);
            (device, mount.point)
        });
        Ok(Self {
            pool,
            mounts: mounts.collect(),
        })
    }

    /// Mountpoints of this program at or below a directory.
    pub fn mounts_below(&self, directory: &Path) -> impl Iterator<Item = &Path> {
        let points = self.mounts.iter().map(|(_, point)| point.as_path());
        points.filter(move |point| point.starts_with(directory))
    }

    /// Returns the mount of this program that shows a path, an absolute one without links.
    pub fn mount_of(&self, path: &Path) -> Option<&Path> {
        let mut points = self.mounts.iter().map(|(_, point)| point.as_path());
        points.find(|point| path.starts_with(point))
    }

    /// Returns true for the top of such a place.
    pub(crate) fn has(&self, directory: &Entry) -> bool {
        self.pool == Some((directory.device, directory.inode)) || self.has_device(directory.device)
    }

    /// Returns true for a mountpoint. An abandoned one has no metadata to know it by.
    pub(crate) fn has_point(&self, path: &Path) -> bool {
        self.mounts.iter().any(|(_, point)| point == path)
    }

    fn has_device(&self, device: u64) -> bool {
        self.mounts.iter().any(|(own, _)| *own == device)
    }
}

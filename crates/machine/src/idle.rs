//! Leaving a disk to others: the idle I/O priority, how much a block device does, and when it is
//! idle. `backup --background` and `host defrag run --background` call this.
//!
//! Invariant: a thread gets its priority back. Asking a device starts no I/O.

mod gate;

pub use gate::IdleDisk;

use crate::mounts::Mount;
use crate::sys;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Guard: I/O of this thread, and of threads that it starts, has idle priority. Schedulers that
/// know no priorities (`none`) ignore it.
#[derive(Debug)]
pub struct IdlePriority {
    before: i32,
    /// Keeps the guard on its thread.
    here: PhantomData<*const ()>,
}

impl IdlePriority {
    /// Begins on this thread.
    pub fn begin() -> io::Result<Self> {
        const IDLE: i32 = 3 << 13;
        let before = sys::io_priority()?;
        sys::set_io_priority(IDLE)?;
        Ok(Self {
            before,
            here: PhantomData,
        })
    }
}

impl Drop for IdlePriority {
    fn drop(&mut self) {
        // Refused only if it was real-time and is no longer allowed.
        let _ = sys::set_io_priority(self.before);
    }
}

/// Requests that a device has completed, and those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Requests that were completed since the device is there.
    pub completed: u64,
    /// Requests in flight.
    pub in_flight: u64,
}

/// The counters of a block device.
#[derive(Debug)]
pub struct Activity {
    counters: File,
}

impl Activity {
    /// Finds the block device below files with this device number (`st_dev`). Partitions count as
    /// their disk. `None` if there is no such device, or several, or it cannot be found: network
    /// file systems, subvolumes of btrfs that are not mounted themselves.
    pub fn of_device(device: u64) -> Option<Self> {
        let disk = disk_of(device)?;
        let counters = File::open(disk.join("stat")).ok()?;
        Some(Self { counters })
    }

    /// Returns the state of the device.
    pub fn now(&self) -> io::Result<Requests> {
        let mut text = [0; 512];
        let count = self.counters.read_at(&mut text, 0)?;
        parse(text.get(..count).unwrap_or_default())
            .ok_or_else(|| io::Error::other("the counters of the device cannot be read"))
    }
}

/// Returns true if the disk below files with this device number has arms, as far as the system
/// knows: requests far from each other then cost a seek. `None`: see [`Activity::of_device`].
pub fn has_arms(device: u64) -> Option<bool> {
    let rotational = fs::read_to_string(disk_of(device)?.join("queue/rotational")).ok()?;
    Some(rotational.trim() == "1")
}

/// Returns the directory in `/sys` of the disk below files with this device number.
fn disk_of(device: u64) -> Option<PathBuf> {
    directory(device).or_else(|| {
        // btrfs has device numbers of its own.
        let mounts = Mount::all().ok()?;
        let mut its = mounts
            .iter()
            .filter(|mount| mount.source.starts_with("/dev"));
        let is_it = |point: &Path| point.metadata().is_ok_and(|found| found.dev() == device);
        let mount = its.find(|mount| is_it(&mount.point))?;
        directory(fs::metadata(&mount.source).ok()?.rdev())
    })
}

/// Returns the directory of a disk in `/sys`.
fn directory(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let found = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    match found.join("partition").exists() {
        true => found.parent().map(Path::to_owned),
        false => Some(found),
    }
}

/// Parses `/sys/block/DISK/stat`: reads, writes, discards and flushes have their numbers in these
/// columns (Linux, Documentation/block/stat.rst).
fn parse(text: &[u8]) -> Option<Requests> {
    const COMPLETED: [usize; 4] = [0, 4, 11, 15];
    const IN_FLIGHT: usize = 8;
    let text = std::str::from_utf8(text).ok()?;
    let fields: Option<Vec<u64>> = text.split_whitespace().map(|f| f.parse().ok()).collect();
    let fields = fields?;
    // Old kernels do not count discards and flushes.
    let completed = COMPLETED.iter().filter_map(|field| fields.get(*field));
    Some(Requests {
        completed: completed.sum(),
        in_flight: *fields.get(IN_FLIGHT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_started_inherit_the_priority() {
        let before = sys::io_priority().unwrap();
        {
            let _idle = IdlePriority::begin().unwrap();
            let inherited = std::thread::spawn(sys::io_priority).join().unwrap();
            assert_eq!(inherited.unwrap() >> 13, 3);
        }
        assert_eq!(sys::io_priority().unwrap(), before);
    }

    #[test]
    fn counters_of_a_device() {
        let line = b"  10 1 160 3   20 2 320 4   5 6 7   3 0 0 0   2 1\n";
        let requests = Requests {
            completed: 35,
            in_flight: 5,
        };
        assert_eq!(parse(line), Some(requests));
        assert_eq!(
            parse(b"10 1 160 3 20 2 320 4 0 6 7").map(|r| r.completed),
            Some(30)
        );
        assert_eq!(parse(b"10 1"), None);
        assert_eq!(parse(b"a b c"), None);
    }

    #[test]
    fn a_memory_file_system_has_no_device() {
        let device = fs::metadata("/proc").unwrap().dev();
        assert!(Activity::of_device(device).is_none());
        assert_eq!(has_arms(device), None);
    }
}

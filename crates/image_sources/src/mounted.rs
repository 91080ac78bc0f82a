//! Finds out whether a block device is in use by a file system of this machine. `examine`
//! calls this.
//!
//! Invariant: a failure means "not mounted": the answer is a warning for the user, and no more.

use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Depth of devices on devices (disk, partition, encryption, volume, ...) that are followed.
const DEPTH_MAX: u32 = 8;

/// Returns where a file system of this device is mounted for writing: of its partitions and of the
/// devices on top of it too.
pub fn point_of(device: u64) -> Option<PathBuf> {
    let mut devices = Vec::new();
    let top = PathBuf::from(format!(
        "/sys/dev/block/{}:{}",
        major(device),
        minor(device)
    ));
    add(&top, DEPTH_MAX, &mut devices);
    point_in(&fs::read_to_string("/proc/self/mountinfo").ok()?, &devices)
}

/// Adds the number of the device in this directory of sysfs, of its partitions, and of what is on
/// top of them.
fn add(directory: &Path, depth: u32, devices: &mut Vec<String>) {
    let Ok(number) = fs::read_to_string(directory.join("dev")) else {
        return;
    };
    devices.push(number.trim().to_owned());
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let partitions = entries(directory).filter(|entry| entry.path().join("partition").exists());
    let holders = entries(&directory.join("holders"));
    if let Some(depth) = depth.checked_sub(1) {
        for entry in partitions.chain(holders) {
            add(&entry.path(), depth, devices);
        }
    }
}

/// Returns the first mount point in a list of mounts (`mountinfo` of proc(5)) of these devices.
fn point_in(mounts: &str, devices: &[String]) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        let (number, point) = (mount.next()?, mount.nth(1)?);
        let mut source = source.split(' ').skip(1);
        let (source, options) = (source.next()?, source.next()?);
        // btrfs has a device number of its own.
        let of_source = || {
            let meta = fs::metadata(source).ok()?;
            let number = meta.rdev();
            let is_device = meta.file_type().is_block_device();
            is_device.then(|| format!("{}:{}", major(number), minor(number)))
        };
        let is_one = |number: &str| devices.iter().any(|device| device == number);
        let is_writable = options.split(',').any(|option| option == "rw");
        let is_it = is_writable && (is_one(number) || of_source().is_some_and(|n| is_one(&n)));
        is_it.then(|| PathBuf::from(point.replace("\\040", " ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_device() {
        let mounts = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/none rw
23 1 8:2 / /read\\040only rw - ext4 /dev/none ro
24 1 8:3 / /with\\040space rw - xfs /dev/none rw,attr2
";
        let of = |device: &str| point_in(mounts, &[device.to_owned()]);
        assert_eq!(of("8:1"), Some(PathBuf::from("/")));
        assert_eq!(of("8:2"), None);
        assert_eq!(of("8:3"), Some(PathBuf::from("/with space")));
        assert_eq!(of("8:4"), None);
    }
}

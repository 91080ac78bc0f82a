//! Mounts: which file system a path is on, and the device number that the kernel's events carry.
//! `watch` and the program call this.
//!
//! Invariant: the number is the superblock's (`s_dev`), as `mountinfo` has it. `st_dev` is another
//! one on btrfs, where each subvolume has its own.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The kind of this program's own mounts: FUSE with the subtype that the crate `fuse` sets.
const OWN_KIND: &str = "fuse.quintet";

/// A mount that has a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount.
    pub id: u64,
    /// Device of the superblock, as the kernel encodes it: major << 20 | minor.
    pub device: u32,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Its file system: `ext4`, `fuse.sshfs`.
    pub kind: String,
    /// The mounted device or name: `/dev/sda1`, `tmpfs`.
    pub source: PathBuf,
}

impl Mount {
    /// Finds the mount of a path.
    pub fn of(path: &Path) -> io::Result<Self> {
        let id = mount_id(path)?;
        Self::all()?
            .into_iter()
            .find(|mount| mount.id == id)
            .ok_or_else(|| io::Error::other("the mount is not in /proc/self/mountinfo"))
    }

    /// Returns all mounts that this process sees.
    pub fn all() -> io::Result<Vec<Self>> {
        let table = fs::read("/proc/self/mountinfo")?;
        let lines = table.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(parse).collect())
    }

    /// Returns the mounts of this program that this process sees, also those that no process serves
    /// any more.
    pub fn own() -> io::Result<Vec<Self>> {
        let mut mounts = Self::all()?;
        mounts.retain(|mount| mount.kind == OWN_KIND);
        Ok(mounts)
    }

    /// Returns true for FUSE, whatever serves it.
    pub fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.") || self.kind == "fuseblk"
    }
}

/// Returns the number of the mount that has a path. Links are not followed.
pub fn mount_id(path: &Path) -> io::Result<u64> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

/// Parses a line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = text(fields.next()?)?.parse().ok()?;
    let (major, minor) = text(fields.nth(1)?)?.split_once(':')?;
    let device = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
    let point = OsString::from_vec(unescaped(fields.nth(1)?)).into();
    fields.find(|field| *field == b"-")?;
    let kind = text(fields.next()?)?.to_owned();
    let source = OsString::from_vec(unescaped(fields.next()?)).into();
    Some(Mount {
        id,
        device,
        point,
        kind,
        source,
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Undoes the escapes of `mountinfo` and `swaps`: a backslash and three octal digits.
pub fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..3).filter(|_| first == b'\\');
        let value = escaped.and_then(|digits| u8::from_str_radix(text(digits)?, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = after.get(value.map_or(0, |_| 3)..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_escapes() {
        let line =
            b"36 35 8:17 /sub /mnt/a\\040b rw,noatime shared:1 master:2 - btrfs /dev/sdb1 rw";
        let mount = parse(line).unwrap();
        assert_eq!(mount.id, 36);
        assert_eq!(mount.device, 8 << 20 | 17);
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!(mount.kind, "btrfs");
        assert_eq!(mount.source, Path::new("/dev/sdb1"));
        assert_eq!(parse(b"36 35 8:17 /sub"), None);
    }

    #[test]
    fn the_mount_of_proc() {
        assert_eq!(Mount::of(Path::new("/proc/self")).unwrap().kind, "proc");
    }
}

//! Which files are left alone, and which file system a file is on. `migrate` asks before it opens a
//! file for writing.
//!
//! Invariant: asking changes nothing. What changes afterwards the kernel refuses again, where it
//! would matter.

use super::error::MigrationError;
use rustix::fs::{
    AtFlags, StatVfsMountFlags, StatxAttributes, StatxFlags, fcntl_get_seals, fstatfs, fstatvfs,
    statx,
};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;

/// File systems that can move extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

impl Kind {
    /// Tells it by the file system's magic number.
    pub fn of(file: &File) -> Result<Self, MigrationError> {
        let found = fstatfs(file).map_err(|e| MigrationError::of("ask for the file system", e))?;
        match found.f_type as u64 & 0xFFFF_FFFF {
            0xEF53 => Ok(Self::Ext4),
            0x5846_5342 => Ok(Self::Xfs),
            0x9123_683E => Ok(Self::Btrfs),
            _ => Err(MigrationError::WrongFileSystem),
        }
    }
}

/// Refuses files whose extents are not to be moved.
pub(super) fn check(file: &File) -> Result<Kind, MigrationError> {
    let failed = |e: rustix::io::Errno| MigrationError::of("ask for attributes", e);
    if fcntl_get_seals(file).is_ok_and(|seals| !seals.is_empty()) {
        return Err(MigrationError::Sealed);
    }
    let metadata = file.metadata();
    let metadata = metadata.map_err(|e| MigrationError::of("ask for attributes", e))?;
    if !metadata.is_file() {
        return Err(MigrationError::NotRegular);
    }
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map_err(failed)?;
    attributes(found.stx_attributes)?;
    let kind = Kind::of(file)?;
    let mount = fstatvfs(file).map_err(failed)?;
    if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(MigrationError::ReadOnly);
    }
    if swap_files().any(|(device, inode)| (device, inode) == (metadata.dev(), metadata.ino())) {
        return Err(MigrationError::SwapFile);
    }
    if kind == Kind::Ext4 {
        if metadata.mode() & 0o111 != 0 {
            return Err(MigrationError::Program);
        }
        if !is_ordered(metadata.dev()) {
            return Err(MigrationError::NotOrdered);
        }
    }
    Ok(kind)
}

fn attributes(found: StatxAttributes) -> Result<(), MigrationError> {
    let refused = [
        (StatxAttributes::IMMUTABLE, MigrationError::Immutable),
        (StatxAttributes::APPEND, MigrationError::AppendOnly),
        (StatxAttributes::ENCRYPTED, MigrationError::Encrypted),
        (StatxAttributes::VERITY, MigrationError::Verity),
        (StatxAttributes::COMPRESSED, MigrationError::Compressed),
        (StatxAttributes::DAX, MigrationError::Dax),
    ];
    let found = refused
        .into_iter()
        .find(|(attribute, _)| found.contains(*attribute));
    found.map_or(Ok(()), |(_, why)| Err(why))
}

/// Yields device and inode of the swap files in use.
fn swap_files() -> impl Iterator<Item = (u64, u64)> {
    let table = fs::read("/proc/swaps").unwrap_or_default();
    let lines: Vec<Vec<u8>> = table.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    lines.into_iter().skip(1).filter_map(|line| {
        let name = line.split(|byte| *byte == b' ').next()?;
        let path = std::ffi::OsString::from_vec(machine::unescaped(name));
        let metadata = fs::metadata(path).ok()?;
        metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
    })
}

/// Returns true if the journal writes data before the metadata that names its new place. Otherwise
/// a crash can leave what the new blocks held before in the file.
fn is_ordered(device: u64) -> bool {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let name = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let options = name.and_then(|path| match path.file_name() {
        Some(name) => fs::read_to_string(format!("/proc/fs/ext4/{}/options", name.display())),
        None => Err(io::ErrorKind::NotFound.into()),
    });
    options.is_ok_and(|options| options.lines().any(|option| option == "data=ordered"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    #[test]
    fn attributes_are_refused_by_name() {
        let name = |found| attributes(found).unwrap_err().name();
        assert_eq!(name(StatxAttributes::IMMUTABLE), "immutable");
        assert_eq!(name(StatxAttributes::APPEND), "append_only");
        assert_eq!(name(StatxAttributes::ENCRYPTED), "encrypted");
        assert_eq!(name(StatxAttributes::VERITY), "verity");
        assert_eq!(name(StatxAttributes::COMPRESSED), "compressed");
        attributes(StatxAttributes::NODUMP).unwrap();
    }

    #[test]
    fn sealed_files_directories_and_other_file_systems() {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = File::from(memfd_create("sealed", flags).unwrap());
        assert_eq!(check(&file).unwrap_err().name(), "wrong_file_system");
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert_eq!(check(&file).unwrap_err().name(), "sealed");
        let directory = File::open("/").unwrap();
        assert_eq!(check(&directory).unwrap_err().name(), "not_regular");
        let proc = File::open("/proc/self/status").unwrap();
        assert_eq!(check(&proc).unwrap_err().name(), "wrong_file_system");
    }
}

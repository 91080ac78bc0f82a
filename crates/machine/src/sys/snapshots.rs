//! System calls that make and delete snapshots of btrfs subvolumes. `snapshot` calls this.
//!
//! Invariant: as in [`super`]: each call passes memory that outlives it and has the layout that the
//! system expects.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Longest name in a request, with the zero behind it.
const NAME_BYTES: usize = 4040;

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct CreateRequest {
    subvolume: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; NAME_BYTES],
}

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct DestroyRequest {
    unused: i64,
    name: [u8; 4088],
}

fn put(name: &CStr, into: &mut [u8]) -> io::Result<()> {
    let bytes = name.to_bytes_with_nul();
    match into.get_mut(..bytes.len()) {
        Some(into) => into.copy_from_slice(bytes),
        None => return Err(rustix::io::Errno::NAMETOOLONG.into()),
    }
    Ok(())
}

/// Makes a read-only snapshot of a subvolume, open at its top, as `name` in `directory`.
pub(crate) fn create(
    subvolume: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &CStr,
) -> io::Result<()> {
    const SNAP_CREATE_V2: libc::c_ulong = 0x5000_9417;
    const READ_ONLY: u64 = 1 << 1;
    let mut request = CreateRequest {
        subvolume: subvolume.as_raw_fd().into(),
        transaction: 0,
        flags: READ_ONLY,
        unused: [0; 4],
        name: [0; NAME_BYTES],
    };
    put(name, &mut request.name)?;
    // SAFETY: the system reads one request, which outlives the call, and its name ends with a zero.
    match unsafe { libc::ioctl(directory.as_raw_fd(), SNAP_CREATE_V2, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Deletes the subvolume `name` in `directory`.
pub(crate) fn destroy(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    const SNAP_DESTROY: libc::c_ulong = 0x5000_940F;
    let mut request = DestroyRequest {
        unused: 0,
        name: [0; 4088],
    };
    put(name, &mut request.name)?;
    // SAFETY: the system reads one request, which outlives the call, and its name ends with a zero.
    match unsafe { libc::ioctl(directory.as_raw_fd(), SNAP_DESTROY, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

const _: () = assert!(size_of::<CreateRequest>() == 4096);
const _: () = assert!(size_of::<DestroyRequest>() == 4096);

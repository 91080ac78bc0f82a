//! System calls that neither std nor rustix has: `bpf` on maps, `membarrier`, and two ioctls that
//! identify files. `ebpf` and `identity` call this. [`extents`] has those that read and exchange
//! extents.
//!
//! Invariant: the crate's only unsafe code. Each call passes memory that outlives it and has the
//! layout that the system expects.

#![allow(unsafe_code, reason = "system calls without a safe binding")]

pub(crate) mod extents;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Key of a chunk of 64 pages; the layout of `struct key` in `bpf/page_events.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Key {
    pub inode: u64,
    pub root: u64,
    pub chunk: u64,
    pub device: u32,
    pub generation: u32,
}

/// Changes of a chunk; the layout of `struct chunk`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Bits {
    pub seen_present: u64,
    pub present: u64,
    pub seen_dirty: u64,
    pub dirty: u64,
}

/// Settings of the programs; the layout of `struct control`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Control {
    /// Map that the programs write into.
    pub active: u32,
    /// File system that is watched; 0 for none.
    pub device: u32,
}

/// Counts of a processor; the layout of `struct counters`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    pub events: [u64; 4],
    pub dropped: u64,
}

#[repr(C)]
#[derive(Default)]
struct ElementAttributes {
    map: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

const LOOKUP: libc::c_int = 1;
const UPDATE: libc::c_int = 2;
const LOOKUP_AND_DELETE_BATCH: libc::c_int = 25;

fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<()> {
    // SAFETY: the attributes are valid for their size, and every caller in this file fills them
    // with addresses of memory that it owns and that is as large as the command needs.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the only element of the control map.
pub(crate) fn set_control(map: BorrowedFd<'_>, control: &Control) -> io::Result<()> {
    let first = 0_u32;
    let mut attributes = ElementAttributes {
        map: map.as_raw_fd().cast_unsigned(),
        key: (&raw const first) as u64,
        value: std::ptr::from_ref(control) as u64,
        ..ElementAttributes::default()
    };
    bpf(UPDATE, &mut attributes)
}

/// Returns what each of `processors` counted.
pub(crate) fn counters(map: BorrowedFd<'_>, processors: usize) -> io::Result<Vec<Counters>> {
    of_processors(map, processors)
}

/// Returns the sum of what each of `processors` has in the only element of a map of `u64`.
pub(crate) fn sum_of(map: BorrowedFd<'_>, processors: usize) -> io::Result<u64> {
    of_processors::<u64>(map, processors).map(|all| all.iter().sum())
}

/// Returns what each of `processors` has in the only element of a map. `T` is the map's type.
fn of_processors<T: Clone + Default>(map: BorrowedFd<'_>, processors: usize) -> io::Result<Vec<T>> {
    let first = 0_u32;
    let mut all = vec![T::default(); processors];
    let mut attributes = ElementAttributes {
        map: map.as_raw_fd().cast_unsigned(),
        key: (&raw const first) as u64,
        value: all.as_mut_ptr() as u64,
        ..ElementAttributes::default()
    };
    bpf(LOOKUP, &mut attributes)?;
    Ok(all)
}

/// Elements that one call takes at most.
const BATCH: usize = 8192;

/// Takes all chunks out of a map that no program uses any more.
pub(crate) fn take_all(map: BorrowedFd<'_>, visit: &mut dyn FnMut(&Key, &Bits)) -> io::Result<()> {
    let mut keys = vec![Key::default(); BATCH];
    let mut values = vec![Bits::default(); BATCH];
    let mut position = 0_u32;
    let mut is_first = true;
    loop {
        let mut attributes = BatchAttributes {
            in_batch: if is_first {
                0
            } else {
                (&raw const position) as u64
            },
            out_batch: (&raw mut position) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: u32::try_from(BATCH).unwrap_or(u32::MAX),
            map: map.as_raw_fd().cast_unsigned(),
            ..BatchAttributes::default()
        };
        let done = bpf(LOOKUP_AND_DELETE_BATCH, &mut attributes);
        let is_last = match done {
            Ok(()) => false,
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => true,
            Err(e) => return Err(e),
        };
        let taken = attributes.count as usize;
        for (key, bits) in keys.iter().zip(&values).take(taken) {
            visit(key, bits);
        }
        if is_last {
            return Ok(());
        }
        is_first = false;
    }
}

/// Returns when every program that ran at the time of the call has ended.
pub(crate) fn wait_for_programs() -> io::Result<()> {
    const GLOBAL: libc::c_int = 1;
    // SAFETY: the call takes no memory.
    match unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the inode's generation; 0 on file systems that have none.
pub(crate) fn generation(file: &File) -> u32 {
    const GET_VERSION: libc::c_ulong = 0x8008_7601;
    // The system writes four bytes, although the number of the call says eight.
    let mut generation = 0_u64;
    // SAFETY: the system writes at most eight bytes at the address, which outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), GET_VERSION, &raw mut generation) };
    let [a, b, c, d, ..] = generation.to_ne_bytes();
    if done == 0 {
        u32::from_ne_bytes([a, b, c, d])
    } else {
        0
    }
}

#[repr(C)]
struct RootLookup {
    tree: u64,
    object: u64,
    name: [u8; 4080],
}

/// Returns the number of the subvolume that has an open file of btrfs.
pub(crate) fn btrfs_root(file: &File) -> io::Result<u64> {
    const INO_LOOKUP: libc::c_ulong = 0xD000_9412;
    const TOP_DIRECTORY: u64 = 256;
    let mut lookup = RootLookup {
        tree: 0,
        object: TOP_DIRECTORY,
        name: [0; 4080],
    };
    // SAFETY: the system reads and writes one structure of 4096 bytes, which outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), INO_LOOKUP, &raw mut lookup) } {
        0 => Ok(lookup.tree),
        _ => Err(io::Error::last_os_error()),
    }
}

const _: () = assert!(size_of::<Key>() == 32 && size_of::<Bits>() == 32);
const _: () = assert!(size_of::<Control>() == 8 && size_of::<Counters>() == 40);
const _: () = assert!(size_of::<RootLookup>() == 4096);

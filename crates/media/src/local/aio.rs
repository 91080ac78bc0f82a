//! Reads that can be given up while they run (Linux AIO). [`super::past_cache`] calls this.
//!
//! A thread in `pread` cannot leave it. Here it starts a read and waits for the end as long as it
//! likes. `io_uring` could do that too, but containers and the shipped unit refuse it.
//!
//! Invariant: the system writes into a buffer until its read ends. Until then the context is lent
//! to that read, hides the buffer, and waits when it is dropped.

#![allow(unsafe_code, reason = "neither std nor rustix has these system calls")]

use rustix::ioctl::{NoArg, opcode};
use std::ffi::{c_long, c_ulong};
use std::fs::File;
use std::io;
use std::mem::take;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Alignment of offsets, lengths and memory of requests past the cache. No local disk has larger
/// sectors.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Maximum number of contexts, and so of reads at a time.
const CONTEXTS_MAX: usize = 32;
/// Start in the caller's thread only if nothing must be waited for, `EAGAIN` otherwise. File
/// systems that would read all in the caller's thread refuse it (`EOPNOTSUPP`).
const RWF_NOWAIT: u64 = 8;
const OPCODE_PREAD: u16 = 0;

static CONTEXTS: AtomicUsize = AtomicUsize::new(0);

/// `struct iocb`. The order of `aio_key` (0) and `aio_rw_flags` depends on the byte order, so that
/// the flags are always the upper half of both.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// Place for one read at a time, with its memory.
pub(super) struct Context {
    id: c_ulong,
    buffer: Vec<u8>,
}

/// A read that goes on. Dropping it waits for its end.
pub(super) struct Running(#[expect(dead_code, reason = "kept until it is dropped")] Context);

/// Result of waiting for a read.
pub(super) enum Waited {
    /// Number of bytes read, or why it ended or did not begin.
    Ended(Context, io::Result<usize>),
    Late(Running),
}

impl Context {
    /// Fails where the system has no such reads, or allows no more (`fs.aio-max-nr`).
    pub fn new() -> Option<Self> {
        if CONTEXTS.fetch_add(1, Relaxed) < CONTEXTS_MAX {
            let mut id: c_ulong = 0;
            // SAFETY: the system fills `id`, which is zero as it demands.
            if unsafe { libc::syscall(libc::SYS_io_setup, 1 as c_long, &raw mut id) } == 0 {
                let buffer = Vec::new();
                return Some(Self { id, buffer });
            }
        }
        CONTEXTS.fetch_sub(1, Relaxed);
        None
    }

    /// Returns `len` bytes of memory, aligned to a block.
    pub fn memory(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.buffer.len() < len + BLOCK_BYTES {
            self.buffer = vec![0; len + BLOCK_BYTES];
        }
        let start = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        self.buffer.get_mut(start..start.saturating_add(len))
    }

    /// Reads `len` bytes from `offset` into the memory.
    pub fn read(mut self, file: &File, offset: u64, len: usize, limit: Duration) -> Waited {
        let begun = Instant::now();
        if let Err(why) = self.submit(file, offset, len) {
            return Waited::Ended(self, Err(why));
        }
        loop {
            match self.next_event(limit.saturating_sub(begun.elapsed())) {
                Ok(Some(event)) => {
                    let error = |_| io::Error::from_raw_os_error(-event.result as i32);
                    return Waited::Ended(self, usize::try_from(event.result).map_err(error));
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // After an error the read may go on too.
                Ok(None) | Err(_) => return Waited::Late(Running(self)),
            }
        }
    }

    fn submit(&mut self, file: &File, offset: u64, len: usize) -> io::Result<()> {
        let invalid = io::ErrorKind::InvalidInput;
        let memory = self.memory(len).ok_or(invalid)?;
        let request = Request {
            key_and_flags: RWF_NOWAIT << 32,
            opcode: OPCODE_PREAD,
            file: file.as_raw_fd().cast_unsigned(),
            buffer: memory.as_mut_ptr().expose_provenance() as u64,
            bytes: len as u64,
            offset: i64::try_from(offset).map_err(|_| invalid)?,
            ..Request::default()
        };
        let requests = [&raw const request];
        // SAFETY: the system copies the request, and holds the file until the read ends. It writes
        // to the memory until then. That is part of `self`, which `read` gives to a `Running`
        // unless the event of the end was seen; its drop waits before it frees the memory.
        let submitted = unsafe {
            let one: c_long = 1;
            libc::syscall(libc::SYS_io_submit, self.id, one, requests.as_ptr())
        };
        match submitted {
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn next_event(&mut self, limit: Duration) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let seconds = c_long::try_from(limit.as_secs()).unwrap_or(c_long::MAX);
        let limit = [seconds, limit.subsec_nanos() as c_long];
        let one: c_long = 1;
        // SAFETY: the system fills at most one event and reads the limit, a `timespec` of two
        // longs. Both outlive the call.
        let events = unsafe {
            let (event, limit) = (&raw mut event, limit.as_ptr());
            libc::syscall(libc::SYS_io_getevents, self.id, one, one, event, limit)
        };
        match events {
            0 => Ok(None),
            1 => Ok(Some(event)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is this value's own. The call waits for a read that goes on.
        if unsafe { libc::syscall(libc::SYS_io_destroy, self.id) } != 0 {
            take(&mut self.buffer).leak();
        }
        CONTEXTS.fetch_sub(1, Relaxed);
    }
}

/// Makes ext4 hold in memory where the file's bytes are. Otherwise it may read that from the device
/// while it starts a read, and the caller waits without limit. Others refuse such a start.
pub(super) fn hold_extents(file: &File) {
    // SAFETY: `EXT4_IOC_PRECACHE_EXTENTS` has no argument. It is only advice: its error is dropped.
    let _ = unsafe {
        let precache = NoArg::<{ opcode::none(b'f', 18) }>::new();
        rustix::ioctl::ioctl(file.as_fd(), precache)
    };
}

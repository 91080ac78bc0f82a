//! Shows a volume in memory as the file `disk`, by the library `fuser`. `bench/fuse_libraries.py`
//! measures it beside `fuse_memory`, the same volume by `crates/fuse`.
//!
//! Run `fuse-libraries [--size BYTES] [--threads N] [--clone-fd] MOUNTPOINT`. It prints `ready` and
//! runs until it is unmounted.
//!
//! Invariant: what the kernel is asked for equals what `crates/fuse/src/negotiation.rs` asks for.
//! Names and attributes expire at once, and opening drops the kernel's pages, as with
//! `VolumeFiles`.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::time::{Duration, UNIX_EPOCH};
use volume::{Durability, MemoryVolume, RequestContext, Volume};

const ROOT: INodeNo = INodeNo::ROOT;
const DISK: INodeNo = INodeNo(2);
const REQUEST_BYTES_MAX: u32 = 1 << 20;
const BACKGROUND_MAX: u16 = 64;

thread_local! {
    /// Fuser hands out no buffer: each thread keeps its own, as the threads of `crates/fuse` do.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Memory(MemoryVolume);

impl Memory {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let is_disk = node == DISK;
        let size = if is_disk { self.0.size_bytes() } else { 0 };
        FileAttr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: REQUEST_BYTES_MAX,
            flags: 0,
        }
    }
}

impl Filesystem for Memory {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let refused = |what: &str| std::io::Error::other(format!("the kernel refuses {what}"));
        let wanted = InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_BIG_WRITES
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_MAX_PAGES
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        config
            .add_capabilities(wanted)
            .map_err(|_| refused("a feature"))?;
        config
            .set_max_write(REQUEST_BYTES_MAX)
            .map_err(|_| refused("large writes"))?;
        config
            .set_max_background(BACKGROUND_MAX)
            .map_err(|_| refused("its queue"))?;
        let congested = BACKGROUND_MAX / 4 * 3;
        config
            .set_congestion_threshold(congested)
            .map_err(|_| refused("its queue"))?;
        // Read-ahead stays at the kernel's offer, which limits that of `crates/fuse` too.
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == ROOT && name == "disk" {
            true => reply.entry(&Duration::ZERO, &self.attributes(DISK), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &self.attributes(node));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.0.size_bytes().saturating_sub(offset);
        let len = u64::from(size).min(left) as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            let bytes = &mut buffer[..len];
            match self.0.read(RequestContext::default(), offset, bytes) {
                Ok(()) => reply.data(bytes),
                Err(_) => reply.error(Errno::EIO),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.0.size_bytes()) {
            return reply.error(Errno::ENOSPC);
        }
        let context = RequestContext::default();
        match self.0.write(context, offset, data, Durability::Volatile) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut size, mut place) = (64 << 20, None);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("memory".to_owned())];
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--size" => size = value()?.parse()?,
            "--threads" => config.n_threads = Some(value()?.parse()?),
            "--clone-fd" => config.clone_fd = true,
            _ => place = Some(argument),
        }
    }
    let place = place.ok_or("where to mount is missing")?;
    let session = Session::new(Memory(MemoryVolume::new(size)), place, &config)?;
    println!("ready");
    session.run()?;
    println!("unmounted");
    Ok(())
}

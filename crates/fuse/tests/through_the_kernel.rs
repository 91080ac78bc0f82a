//! Runs the suite of all volumes through the kernel: a volume in memory is shown as a file, and the
//! file becomes a volume again.
//!
//! It needs `/dev/fuse` and the right to mount, and reports if they are missing.

use fuse::{FixedVolumes, MountError, MountOptions, Session, SessionOptions, VolumeFiles};
use media::SystemClock;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use tempfile::TempDir;
use testkit::conformance::volume::volume_suite;
use volume::{
    Capabilities, Durability, Extent, MemoryVolume, RequestContext, Volume, VolumeError,
    VolumeErrorKind, VolumeInfo,
};

/// A mount that is unmounted on drop.
struct Mount {
    unmounter: fuse::Unmounter,
    session: Option<Session>,
    place: TempDir,
}

impl Mount {
    fn new(volume: impl Volume + 'static) -> Result<Self, MountError> {
        let place = tempfile::tempdir().unwrap();
        let options = MountOptions {
            name: "test".to_owned(),
            read_only: false,
            allow_other: false,
            enforce_permissions: false,
        };
        let mounted = fuse::mount(&place.path().canonicalize().unwrap(), &options)?;
        let volumes = FixedVolumes::default().with("disk", Arc::new(volume));
        let files = VolumeFiles::new(Arc::new(volumes), Arc::new(SystemClock));
        let options = SessionOptions {
            threads: 4,
            ..SessionOptions::default()
        };
        let session = Session::start(mounted.device, Arc::new(files), &options).unwrap();
        Ok(Self {
            unmounter: mounted.unmounter,
            session: Some(session),
            place,
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.unmounter.unmount(true).unwrap();
        if let Some(session) = self.session.take() {
            session.wait().unwrap();
        }
    }
}

/// A file in a mount as a volume. The file is closed before the mount is.
struct MountedFile {
    file: File,
    size_bytes: u64,
    _mount: Mount,
}

impl MountedFile {
    fn new(size_bytes: u64, direct: bool) -> Self {
        let mount = Mount::new(MemoryVolume::new(size_bytes)).unwrap();
        let flags = if direct {
            rustix::fs::OFlags::DIRECT
        } else {
            rustix::fs::OFlags::empty()
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits() as i32)
            .open(mount.place.path().join("disk"))
            .unwrap();
        assert_eq!(file.metadata().unwrap().len(), size_bytes);
        Self {
            file,
            size_bytes,
            _mount: mount,
        }
    }

    fn after(&self, durability: Durability) -> Result<(), VolumeError> {
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.file.sync_data().map_err(failed),
        }
    }

    fn allocate(&self, flags: FallocateFlags, at: u64, len: u64) -> Result<(), VolumeError> {
        let flags = flags | FallocateFlags::KEEP_SIZE;
        let done = rustix::fs::fallocate(&self.file, flags, at, len);
        done.map_err(|e| failed(e.into()))
    }

    fn next(&self, from: SeekFrom) -> u64 {
        match rustix::fs::seek(&self.file, from) {
            Ok(at) => at,
            Err(Errno::NXIO) => self.size_bytes,
            Err(e) => panic!("lseek: {e}"),
        }
    }
}

fn failed(error: std::io::Error) -> VolumeError {
    VolumeError::new(VolumeErrorKind::Io, error)
}

impl Volume for MountedFile {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            size_bytes: self.size_bytes,
            read_only: false,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            description: "a file in a mount".to_owned(),
        }
    }
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
    fn read(&self, _: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        self.file.read_exact_at(into, at).map_err(failed)
    }
    fn write(
        &self,
        _: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.file.write_all_at(data, at).map_err(failed)?;
        self.after(durability)
    }
    fn flush(&self, _: RequestContext) -> Result<(), VolumeError> {
        self.after(Durability::Durable)
    }
    fn discard(&self, _: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        self.allocate(FallocateFlags::PUNCH_HOLE, at, len)
    }
    fn write_zeroes(
        &self,
        _: RequestContext,
        at: u64,
        len: u64,
        _may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.allocate(FallocateFlags::ZERO_RANGE, at, len)?;
        self.after(durability)
    }
    fn extents(
        &self,
        _: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let mut at = offset_bytes;
        while at < offset_bytes + len_bytes {
            let data = self.next(SeekFrom::Data(at));
            let hole = data > at;
            let end = match hole {
                true => data,
                false => self.next(SeekFrom::Hole(at)),
            };
            let piece = Extent {
                offset_bytes: at,
                len_bytes: end - at,
                hole,
                zero: hole,
            };
            if visit(piece).is_break() {
                break;
            }
            at = end;
        }
        Ok(())
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}

/// Returns false, with a message, where nothing can be mounted.
fn can_mount() -> bool {
    match Mount::new(MemoryVolume::new(1)) {
        Ok(_) => true,
        Err(e) => {
            println!("SKIPPED: cannot mount here: {e}");
            false
        }
    }
}

#[test]
fn a_mounted_file_is_a_volume() {
    if can_mount() {
        volume_suite(&|size| Box::new(MountedFile::new(size, false)));
    }
}

#[test]
fn a_mounted_file_past_the_page_cache_is_a_volume() {
    if can_mount() {
        volume_suite(&|size| Box::new(MountedFile::new(size, true)));
    }
}

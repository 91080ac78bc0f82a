//! A disk with a volatile cache that logs its requests. `main` serves it through FUSE, and a loop
//! device with direct I/O makes it a disk of the machine.
//!
//! Invariant: a write is in the log before it is acknowledged, a flush when it is requested.

use crate::log::{append_flush, append_write};
use fuse::{FixedVolumes, MountOptions, Session, SessionOptions, VolumeFiles};
use media::SystemClock;
use rustix::fs::SeekFrom;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use volume::{
    Capabilities, Durability, Layer, MemoryVolume, Operation, RequestContext, Volume, VolumeError,
    VolumeErrorKind, VolumeRequest,
};

struct Recorder {
    bytes: MemoryVolume,
    log: Mutex<File>,
    /// While this exists, writes fail.
    fails: PathBuf,
}

impl Recorder {
    fn append(&self, append: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), VolumeError> {
        append(&mut self.log.lock().expect("the log"))
            .map_err(|e| VolumeError::new(VolumeErrorKind::Io, e))
    }
}

impl Layer for Recorder {
    type Inner = MemoryVolume;

    fn below(&self) -> &MemoryVolume {
        &self.bytes
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&MemoryVolume) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        match request.operation {
            Operation::Flush => self.append(append_flush)?,
            Operation::Discard | Operation::WriteZeroes => {
                let zeroes = vec![0; request.len_bytes as usize];
                self.append(|log| append_write(log, request.offset_bytes, &zeroes))?;
            }
            Operation::Read | Operation::Write | Operation::Extents => {}
        }
        go(&self.bytes)
    }

    fn write(
        &self,
        context: RequestContext,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        if self.fails.exists() {
            return Err(VolumeErrorKind::Io.into());
        }
        self.bytes.write(context, offset, data, durability)?;
        self.append(|log| append_write(log, offset, data))
    }

    /// No abilities: a write past this would not be in the log.
    fn capabilities<'a>(&'a self, _: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities::NONE
    }
}

/// Calls `visit` with the ranges of a sparse file that have bytes.
pub fn data_of(file: &File, visit: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        at = start;
        while at < end {
            let part = (end - at).min(buffer.len() as u64) as usize;
            file.read_exact_at(&mut buffer[..part], at)?;
            visit(at, &buffer[..part])?;
            at += part as u64;
        }
    }
    Ok(())
}

/// Serves the disk until standard input ends.
pub fn serve(directory: &Path, image: &Path, log: &Path) -> Result<(), Box<dyn Error>> {
    let image = File::open(image)?;
    let bytes = MemoryVolume::new(image.metadata()?.len());
    data_of(&image, &mut |offset, data| {
        let written = bytes.write(
            RequestContext::default(),
            offset,
            data,
            Durability::Volatile,
        );
        written.map_err(io::Error::other)
    })?;
    let recorder = Recorder {
        bytes,
        log: Mutex::new(File::create(log)?),
        fails: log.with_extension("fails"),
    };
    let volumes = FixedVolumes::default().with("disk", Arc::new(recorder));
    let files = VolumeFiles::new(Arc::new(volumes), Arc::new(SystemClock));
    let options = MountOptions {
        name: "power_cuts".to_owned(),
        read_only: false,
        allow_other: false,
        enforce_permissions: false,
    };
    let mounted = fuse::mount(&directory.canonicalize()?, &options)?;
    let options = SessionOptions::default();
    let session = Session::start(mounted.device, Arc::new(files), &options)?;
    println!("ready");
    let unmounter = mounted.unmounter;
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        if let Err(e) = unmounter.unmount(true) {
            eprintln!("power_cuts: {e}");
        }
    });
    Ok(session.wait()?)
}

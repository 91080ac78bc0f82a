//! Serves a volume in memory, or a plain file, over NBD: for tests and measurements.
//!
//! `nbd_memory [--size BYTES] [--pattern] [--read-only] [--tcp] [--file PATH] [--slow-us N]
//! SOCKET|ADDRESS`. Runs until its standard input ends if `--until-eof` is given, else until it
//! is killed.

use nbd::{FixedExports, Server, ServerOptions};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use volume::{
    Durability, Extent, MemoryVolume, ReadOnly, RequestContext, Volume, VolumeError,
    VolumeErrorKind, VolumeInfo,
};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let mut size = 64 << 20;
    let (mut pattern, mut read_only, mut tcp, mut until_eof) = (false, false, false, false);
    let (mut file, mut slow_us, mut place) = (None, 0, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--size" => size = value()?.parse()?,
            "--pattern" => pattern = true,
            "--read-only" => read_only = true,
            "--tcp" => tcp = true,
            "--until-eof" => until_eof = true,
            "--file" => file = Some(value()?),
            "--slow-us" => slow_us = value()?.parse()?,
            _ => place = Some(argument),
        }
    }
    let place = place.ok_or("where to listen is missing")?;
    let mut volume: Arc<dyn Volume> = match file {
        Some(path) => Arc::new(FileVolume::open(&path, read_only)?),
        None => Arc::new(MemoryVolume::new(size)),
    };
    if pattern {
        fill(&*volume)?;
    }
    if slow_us > 0 {
        volume = Arc::new(Slow(volume, Duration::from_micros(slow_us)));
    }
    if read_only {
        volume = Arc::new(ReadOnly::new(volume));
    }
    let exports = Arc::new(FixedExports::default().with("disk", volume));
    let options = ServerOptions::default();
    let server = match tcp {
        true => Server::bind_tcp(place.parse()?, exports, options)?,
        false => Server::bind_unix(Path::new(&place), exports, options)?,
    };
    let handle = server.start()?;
    println!("ready {:?}", handle.tcp_address());
    if until_eof {
        std::io::stdin().read_to_end(&mut Vec::new())?;
        let stats = handle.stats();
        let stopped = handle.stop();
        println!("{stats:?} stopped {stopped}");
        return Ok(());
    }
    loop {
        std::thread::park();
    }
}

/// Every eight bytes say where they are, as nbdkit's pattern plugin does.
fn fill(volume: &dyn Volume) -> Result<(), VolumeError> {
    let size = volume.size_bytes();
    let mut at = 0;
    while at < size {
        let len = (size - at).min(1 << 20);
        let words = (0..len.div_ceil(8)).flat_map(|word| (at + word * 8).to_be_bytes());
        let bytes: Vec<u8> = words.take(len as usize).collect();
        volume.write(RequestContext::default(), at, &bytes, Durability::Volatile)?;
        at += len;
    }
    Ok(())
}

/// A plain file as a disk. Knows no holes.
struct FileVolume {
    file: File,
    size: u64,
    read_only: bool,
}

impl FileVolume {
    fn open(path: &str, read_only: bool) -> Result<Self, Failed> {
        let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size,
            read_only,
        })
    }
}

fn io(error: std::io::Error) -> VolumeError {
    VolumeError::new(VolumeErrorKind::Io, error)
}

impl Volume for FileVolume {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            size_bytes: self.size,
            read_only: self.read_only,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            description: "a file".to_owned(),
        }
    }
    fn size_bytes(&self) -> u64 {
        self.size
    }
    fn read(&self, _: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        self.file.read_exact_at(into, at).map_err(io)
    }
    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.file.write_all_at(data, at).map_err(io)?;
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.flush(context),
        }
    }
    fn flush(&self, _: RequestContext) -> Result<(), VolumeError> {
        self.file.sync_data().map_err(io)
    }
    fn discard(&self, context: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        self.write_zeroes(context, at, len, true, Durability::Volatile)
    }
    fn write_zeroes(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        _may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let zeroes = vec![0; len.min(1 << 20) as usize];
        let mut done = 0;
        while done < len {
            let now = (len - done).min(1 << 20);
            let piece = &zeroes[..now as usize];
            self.write(context, at + done, piece, Durability::Volatile)?;
            done += now;
        }
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.flush(context),
        }
    }
    fn extents(
        &self,
        _: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let _ = visit(Extent {
            offset_bytes,
            len_bytes,
            hole: false,
            zero: false,
        });
        Ok(())
    }
}

/// A device that takes its time, and is never cached.
struct Slow(Arc<dyn Volume>, Duration);

impl Volume for Slow {
    fn info(&self) -> VolumeInfo {
        self.0.info()
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn read(&self, context: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        std::thread::sleep(self.1);
        self.0.read(context, at, into)
    }
    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.0.write(context, at, data, durability)
    }
    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        std::thread::sleep(self.1);
        self.0.flush(context)
    }
    fn discard(&self, context: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        self.0.discard(context, at, len)
    }
    fn write_zeroes(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.0.write_zeroes(context, at, len, may_free, durability)
    }
    fn extents(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.0.extents(context, at, len, visit)
    }
    fn is_cached(&self, _: RequestContext, _: u64, _: u64) -> bool {
        false
    }
}

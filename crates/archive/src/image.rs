//! Disk images and streams: in through all lanes, out through all cores. The commands `import`,
//! `export`, `backup --stdin` and `dump` call this.
//!
//! Invariant: holes and zeroes are not stored and come back as holes. An export has exactly the
//! size of the image.

mod bad_sectors;
mod export;
mod head;
mod target;
mod unfinished;

pub use bad_sectors::BadRanges;
pub use export::{export_object, stream_object};
pub use head::{HEAD_BYTES, Head, ImageKind, of_start};
pub use unfinished::{UnfinishedError, UnfinishedFile};

use crate::error::ArchiveError;
use crate::filesystem::PathError;
use crate::filesystem::data_map;
pub use crate::filesystem::data_map::Segment;
use crate::ingest::{self, ByteSource, Context, Cutting, StreamRun};
use crate::observer::Observer;
use format::recipe::ObjectRoot;
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{
    IMAGE_REGION_BYTES, Lane, LaneOptions, RegionKind, StoreError, StoreErrorKind, WriteSession,
};

/// The bytes of an image: a file, a block device, or a disk that another program shows.
pub trait ImageBytes {
    /// Reads at `offset`. Returns 0 only at the end. Errors that [`io::Error::raw_os_error`] calls
    /// EIO are of bytes that cannot be read; others may read later.
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns the segments of the first `len` bytes.
    fn segments(&mut self, len: u64) -> io::Result<Vec<Segment>>;
}

impl ImageBytes for File {
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn segments(&mut self, len: u64) -> io::Result<Vec<Segment>> {
        data_map::of(self.as_fd(), len)
    }
}

/// A source image.
pub struct RawImage {
    bytes: Box<dyn ImageBytes>,
    path: PathBuf,
    /// Size in bytes.
    pub len: u64,
    /// Store zeroes for what cannot be read.
    skips_bad: bool,
    bad: BadRanges,
}

impl RawImage {
    /// Opens a regular file or a block device for reading. `skips_bad`: parts that the device
    /// cannot read are stored as zeroes.
    pub fn open(path: &Path, skips_bad: bool) -> Result<Self, PathError> {
        let (file, len) = open(path)?;
        Ok(Self::of(Box::new(file), path, len, skips_bad))
    }

    /// Makes an image of `len` bytes, which messages call `path`.
    pub fn of(bytes: Box<dyn ImageBytes>, path: &Path, len: u64, skips_bad: bool) -> Self {
        Self {
            bytes,
            path: path.to_owned(),
            len,
            skips_bad,
            bad: BadRanges::default(),
        }
    }

    /// Returns its name in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the ranges that could not be read so far.
    pub fn bad(&self) -> &BadRanges {
        &self.bad
    }

    fn segments(&mut self) -> Result<Vec<Segment>, PathError> {
        let segments = self.bytes.segments(self.len);
        segments.map_err(|e| PathError::new("find holes", &self.path, e))
    }
}

fn open(path: &Path) -> Result<(File, u64), PathError> {
    let file = File::open(path).map_err(|e| PathError::new("open", path, e))?;
    // Works for block devices too, whose metadata have length 0.
    let len = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
        .map_err(|e| PathError::new("find the length of", path, e))?;
    Ok((file, len))
}

/// Returns the format of a file or block device, as far as its bytes tell. `None`: raw.
pub fn head_of(path: &Path) -> Result<Option<Head>, PathError> {
    let (file, len) = open(path)?;
    head::of_file(&file, len, path)
}

impl ByteSource for RawImage {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        let bytes = &mut self.bytes;
        let mut read = |into: &mut [u8], at| bytes.read_at(into, at);
        match read_full(into, |rest, done| read(rest, offset + done)) {
            Err(e) if bad_sectors::is_bad(&e) => {
                bad_sectors::read_around(read, offset, into, self.skips_bad, &mut self.bad)
            }
            done => done,
        }
        .map_err(|e| PathError::new("read", &self.path, e))
    }
}

/// Maximum number of files in a signature: it is part of a snapshot's record.
const SIGNATURE_FILES_MAX: usize = 64;

/// Returns bytes that stay equal while nothing writes to the files of an image and it is read in
/// the same way: `how` names format and options. Empty, which equals nothing, if a file is not
/// regular (devices do not record writes) or there are too many.
pub fn signature(files: &[PathBuf], how: &str) -> Result<Vec<u8>, PathError> {
    let mut w = format::bytes::Writer::new();
    // 1 was for the image file alone, whatever its format.
    w.u8(2).sized(how.as_bytes()).varint(files.len() as u64);
    for path in files {
        let meta = path
            .metadata()
            .map_err(|e| PathError::new("stat", path, e))?;
        if !meta.is_file() || files.len() > SIGNATURE_FILES_MAX {
            return Ok(Vec::new());
        }
        w.u64(meta.dev())
            .u64(meta.ino())
            .u64(meta.len())
            .i64(meta.mtime())
            .i64(meta.mtime_nsec())
            .i64(meta.ctime())
            .i64(meta.ctime_nsec());
    }
    Ok(w.0)
}

/// A stream that cannot seek: standard input, or a command's output.
pub struct PipeStream<R> {
    /// The source.
    pub reader: R,
    /// Its name in messages.
    pub name: String,
}

impl<R: Read> ByteSource for PipeStream<R> {
    fn read(&mut self, _offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        read_full(into, |rest, _| self.reader.read(rest))
            .map_err(|e| PathError::new("read", &self.name, e))
    }
}

fn read_full(
    into: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match read(rest, done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Stores an image in chunks of 2^`log2` bytes.
pub fn import_image(
    session: &mut WriteSession,
    image: &mut RawImage,
    log2: u8,
    lane: LaneOptions,
    workers: usize,
    observer: &dyn Observer,
) -> Result<ObjectRoot, ArchiveError> {
    let segments = image.segments().map_err(ArchiveError::Source)?;
    observer.add_total(1, image.len);
    observer.totals_known();
    let expected = image.len;
    let path = image.path.clone();
    let (root, len) = ingest_object(
        session,
        image,
        Some(&segments),
        |_| Cutting::Fixed(log2),
        lane,
        workers,
        observer,
    )?;
    if len != expected {
        let why = io::Error::other(format!("only {len} of {expected} bytes could be read"));
        return Err(ArchiveError::Source(PathError::new("read", path, why)));
    }
    Ok(root)
}

/// Stores a stream to its end, in content-defined chunks.
pub fn ingest_stream<R: Read>(
    session: &mut WriteSession,
    mut stream: PipeStream<R>,
    lane: LaneOptions,
    workers: usize,
    observer: &dyn Observer,
) -> Result<ObjectRoot, ArchiveError> {
    let cutting = |lane: &Lane| Cutting::Content(lane.splitter());
    ingest_object(session, &mut stream, None, cutting, lane, workers, observer)
        .map(|(root, _)| root)
}

/// Stores a stream to its end as an image, in chunks of 2^`log2` bytes.
pub fn import_stream<R: Read>(
    session: &mut WriteSession,
    mut stream: PipeStream<R>,
    log2: u8,
    lane: LaneOptions,
    workers: usize,
    observer: &dyn Observer,
) -> Result<ObjectRoot, ArchiveError> {
    let cutting = |_: &Lane| Cutting::Fixed(log2);
    ingest_object(session, &mut stream, None, cutting, lane, workers, observer)
        .map(|(root, _)| root)
}

fn ingest_object(
    session: &mut WriteSession,
    source: &mut dyn ByteSource,
    segments: Option<&[Segment]>,
    cutting: impl Fn(&Lane) -> Cutting,
    lane: LaneOptions,
    workers: usize,
    observer: &dyn Observer,
) -> Result<(ObjectRoot, u64), ArchiveError> {
    let cutting = cutting(session.main());
    // The user may ask for larger regions.
    let kind = match lane.region_bytes <= IMAGE_REGION_BYTES {
        true => RegionKind::of_layout(cutting.layout()),
        false => RegionKind::Large,
    };
    let result = Arc::new(Mutex::new(None));
    let put = Arc::clone(&result);
    let done = Box::new(move |root, _: &mut Lane, _: &Context<'_>| {
        *put.lock() = Some(root);
        Ok(())
    });
    let read = ingest::run(session, workers, lane, observer, |context, _| {
        Ok(StreamRun::new(context, (cutting, kind), done).read(source, segments))
    })?;
    let len = read.map_err(ArchiveError::Source)?;
    let root = result.lock().take();
    let root =
        root.ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, "the image is incomplete"))?;
    Ok((root, len))
}

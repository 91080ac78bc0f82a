//! A maintenance task over files, run by the real driver.
//!
//! The driver calls this in the world's steps.
//! Invariant: cached chunks are taken from the page cache. All others become requests that wait for
//! the disk at idle priority. A file counts as processed when its requests are made; the world ends
//! a task when they are served as well.

use super::files::Files;
use super::settings::{CHUNK_BYTES, CHUNKS, FILE_BYTES, FRAME_BYTES, Kind};
use crate::disk::DiskRequest;
use duet::{Events, Item, News, Page, Processed, Task, Work};
use page_cache::{PageCache, Place, Use};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;
use units::Fingerprint;

/// State that all tasks of a world share.
pub struct Ground {
    /// The real page cache.
    pub cache: PageCache,
    /// Places of the files.
    pub files: Files,
    /// Next place for a rewritten file.
    pub fresh_address: Cell<u64>,
}

impl Ground {
    /// Inserts a chunk that was read from the disk into the page cache.
    pub fn keep(&self, place: Place, for_use: Use) {
        let mut bytes = [0; FRAME_BYTES];
        let mut name = [0; 32];
        let parts = name.iter_mut().chain(&mut bytes);
        // A fingerprint of zeroes is a hole.
        let said = (place.object + 1)
            .to_le_bytes()
            .into_iter()
            .chain(place.chunk.to_le_bytes());
        // Each chunk has unique bytes.
        for (slot, byte) in parts.zip(said.cycle().take(48)) {
            *slot = byte;
        }
        self.cache
            .insert(&Fingerprint(name), &bytes, Some(place), for_use);
    }

    /// Reads a file's chunks from the page cache, for `for_use`. Returns the missing ones.
    pub fn read_cached(&self, file: u64, for_use: Use) -> Vec<u64> {
        let place = |chunk| Place {
            object: file,
            chunk,
        };
        (0..CHUNKS)
            .filter(|chunk| self.cache.by_place(place(*chunk), for_use).is_none())
            .collect()
    }
}

/// A request at idle priority.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The disk request.
    pub request: DiskRequest,
    /// The chunk that it brings into the page cache.
    pub chunk: Option<Place>,
}

/// The task. See the module's head.
pub struct FileTask {
    ground: Rc<Ground>,
    kind: Kind,
    has_events: bool,
    /// Waiting requests.
    pub wishes: VecDeque<Wish>,
    /// For a scrub: chunks of files that others have read, as bits.
    verified: BTreeMap<u64, u8>,
    /// Bytes requested from the disk, and those of them to read.
    pub device_bytes: u64,
    pub read_bytes: u64,
}

impl FileTask {
    /// Creates a task without progress.
    pub fn new(ground: Rc<Ground>, kind: Kind, has_events: bool) -> Self {
        Self {
            ground,
            kind,
            has_events,
            wishes: VecDeque::new(),
            verified: BTreeMap::new(),
            device_bytes: 0,
            read_bytes: 0,
        }
    }

    /// Returns the kind of task.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn concerns(&self, file: u64) -> bool {
        match self.kind {
            Kind::Defragment => self.ground.files.is_fragmented(file),
            Kind::Collect => self.ground.files.is_sparse(file),
            Kind::Backup | Kind::HostBackup | Kind::Scrub => true,
        }
    }

    /// Returns the number of files of the whole task.
    pub fn files(&self) -> u64 {
        match self.kind {
            Kind::Defragment => self.ground.files.fragmented(),
            Kind::Collect => self.ground.files.sparse(),
            _ => self.ground.files.len(),
        }
    }

    /// Returns the bytes of I/O of the whole task when nothing is in memory.
    pub fn bytes(&self) -> u64 {
        self.files() * (FILE_BYTES + self.written_bytes())
    }

    /// Returns the bytes that it writes of a file.
    fn written_bytes(&self) -> u64 {
        match self.kind {
            Kind::Defragment => FILE_BYTES,
            Kind::Collect => FILE_BYTES / 2,
            Kind::Backup | Kind::HostBackup | Kind::Scrub => 0,
        }
    }

    fn wish(&mut self, request: DiskRequest, chunk: Option<Place>) {
        self.device_bytes += request.bytes;
        if !request.is_write {
            self.read_bytes += request.bytes;
        }
        self.wishes.push_back(Wish { request, chunk });
    }
}

impl Task for FileTask {
    type Error = Infallible;

    fn work_of(&self, page: &Page) -> Option<Work> {
        let object = page.object;
        self.concerns(object).then_some(Work { object, part: 0 })
    }

    fn pages(&self, _: Work) -> u64 {
        CHUNKS
    }

    /// Files enter and leave memory as a whole; half a file does not help while the disk is busy.
    fn score(&self, _: Work, cached_pages: u64) -> u64 {
        u64::from(cached_pages >= CHUNKS)
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, Infallible> {
        let files = &self.ground.files;
        let after = after.map(|work| work.object);
        let object = match self.kind {
            Kind::Scrub => files.at_place(after.map_or(0, |file| files.place(file) + 1)),
            Kind::Defragment => {
                files.hottest_fragmented(after.map_or(0, |file| files.heat_rank(file) + 1))
            }
            Kind::Collect => files.sparse_after(after),
            Kind::Backup | Kind::HostBackup => {
                Some(after.map_or(0, |file| file + 1)).filter(|file| *file < files.len())
            }
        };
        Ok(object.map(|object| Work { object, part: 0 }))
    }

    fn hear(&mut self, item: &Item) -> News {
        if self.kind != Kind::Scrub || !item.events.has(Events::ADDED) {
            return News::None;
        }
        let file = item.page.object;
        let chunks = self.verified.entry(file).or_insert(0);
        *chunks |= 1 << item.page.index.min(CHUNKS - 1);
        if chunks.count_ones() as u64 != CHUNKS {
            return News::None;
        }
        self.verified.remove(&file);
        News::Done(Work {
            object: file,
            part: 0,
        })
    }

    fn process(&mut self, work: Work, _: u64) -> Result<Processed, Infallible> {
        let file = work.object;
        let ground = Rc::clone(&self.ground);
        // Without events, a scrub reads past the page cache.
        let is_raw = self.kind == Kind::Scrub && !self.has_events;
        let missing = match is_raw {
            true => (0..CHUNKS).collect(),
            false => ground.read_cached(file, Use::Scan),
        };
        let first = ground.files.address(file);
        for chunk in &missing {
            let request = DiskRequest {
                address: first + chunk * CHUNK_BYTES,
                bytes: CHUNK_BYTES,
                is_write: false,
            };
            let place = Place {
                object: file,
                chunk: *chunk,
            };
            self.wish(request, (!is_raw).then_some(place));
        }
        let mut processed = Processed {
            bytes_read: missing.len() as u64 * CHUNK_BYTES,
            bytes_cached: (CHUNKS - missing.len() as u64) * CHUNK_BYTES,
            is_done: true,
            ..Processed::default()
        };
        let written_bytes = self.written_bytes();
        if written_bytes > 0 {
            let fresh = ground.fresh_address.get();
            ground.fresh_address.set(fresh + written_bytes);
            for chunk in 0..written_bytes / CHUNK_BYTES {
                let request = DiskRequest {
                    address: fresh + chunk * CHUNK_BYTES,
                    bytes: CHUNK_BYTES,
                    is_write: true,
                };
                self.wish(request, None);
            }
            processed.bytes_written = written_bytes;
        }
        Ok(processed)
    }
}

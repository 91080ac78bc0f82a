//! Blobs of a dry run: puts and deletions are visible only to its own readers. `Pool::dry_run`
//! creates it.
//!
//! Invariant: the blobs below are only read. A put keeps all bytes, except the payloads of new data
//! containers.

use super::pages::{PAGE_BYTES, Pages};
use format::container::{
    ContainerClass, ContainerHeader, HEADER_BYTES, REGION_HEADER_BYTES, RegionHeader, SECTOR_BYTES,
};
use media::{Barrier, Blobs, MediaError, MediaErrorKind, Put, ReadFrom};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use units::Part;

/// See the module's head.
pub(super) struct DryRunBlobs {
    below: Arc<dyn Blobs>,
    /// Changed blobs; `None`: deleted.
    changed: Mutex<BTreeMap<String, Option<Pages>>>,
    /// Blobs of which only a part was kept.
    in_part: Mutex<BTreeSet<String>>,
}

impl DryRunBlobs {
    pub fn new(below: Arc<dyn Blobs>) -> Self {
        Self {
            below,
            changed: Mutex::default(),
            in_part: Mutex::default(),
        }
    }

    /// Returns true for a blob that was put here and of which only header, directory and footer
    /// were kept.
    pub fn is_kept_in_part(&self, name: &str) -> bool {
        self.in_part.lock().contains(name)
    }

    /// Reads a changed blob. Returns `None` if the blob below is unchanged.
    fn read_changed(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Option<Result<(), MediaError>> {
        let changed = self.changed.lock();
        let Some(pages) = changed.get(name)? else {
            return Some(Err(missing("read", name)));
        };
        let below = |at, into: &mut [u8]| self.below.read_range(name, at, into);
        Some(match pages.read(offset, into, &below) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                Err(MediaError::from_io("read", name, source))
            }
            Err(e) => Err(e),
        })
    }

    /// Keeps only the pages that differ, for a blob that is replaced by its own original contents.
    fn restored(&self, name: &str, bytes: &[u8]) -> Result<Pages, MediaError> {
        let mut pages = Pages::over(self.below.len(name).unwrap_or(0));
        pages.set_len(bytes.len() as u64);
        let mut there = vec![0; PAGE_BYTES];
        for (number, page) in bytes.chunks(PAGE_BYTES).enumerate() {
            let at = (number * PAGE_BYTES) as u64;
            let there = &mut there[..page.len()];
            let is_same = self.below.read_range(name, at, there).is_ok() && there == page;
            if !is_same {
                // Use nothing of a page below that cannot be read.
                let nothing = |_, into: &mut [u8]| {
                    into.fill(0);
                    Ok(())
                };
                pages.write(at, page, &nothing)?;
            }
        }
        Ok(pages)
    }
}

fn missing(operation: &'static str, name: &str) -> MediaError {
    MediaError::plain(MediaErrorKind::NotFound, operation, name)
}

/// Returns the entry of the directory `prefix` that is, or leads to, the blob `name`, and true if
/// it is a directory. `None`: the blob is elsewhere.
fn entry_below<'n>(prefix: &str, name: &'n str) -> Option<(&'n str, bool)> {
    let below = match prefix {
        "" => name,
        _ => name.strip_prefix(prefix)?.strip_prefix('/')?,
    };
    Some(match below.split_once('/') {
        Some((dir, _)) => (dir, true),
        None => (below, false),
    })
}

/// Returns the ranges of header, directory and footer of a data container, or `None` for other
/// blobs.
fn description(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let header = ContainerHeader::decode(bytes.get(..HEADER_BYTES)?, false).ok()?;
    if header.class != ContainerClass::Data {
        return None;
    }
    let start = header.directory_sector.checked_mul(SECTOR_BYTES)? as usize;
    let directory = bytes.get(start..start.checked_add(REGION_HEADER_BYTES)?)?;
    let directory_bytes = RegionHeader::decode(directory).ok()?.region_bytes();
    let end = start.checked_add(directory_bytes.next_multiple_of(SECTOR_BYTES as usize))?;
    let footer = bytes.len().checked_sub(HEADER_BYTES)?;
    Some(vec![
        0..HEADER_BYTES,
        start..end.min(footer),
        footer..bytes.len(),
    ])
}

/// Copies a range of `bytes` to the same offset.
fn keep(pages: &mut Pages, range: Range<usize>, bytes: &[u8]) -> Result<(), MediaError> {
    let start = range.start as u64;
    pages.write(start, bytes.part(range)?, &|_, _| Ok(()))
}

impl Blobs for DryRunBlobs {
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        let must_be_new = matches!(how, Put::New | Put::IfAbsent);
        if must_be_new && self.len(name).is_ok() {
            return Err(MediaError::plain(MediaErrorKind::Exists, "put", name));
        }
        let is_below = !self.changed.lock().contains_key(name);
        let pages = match how {
            Put::Restore if is_below => self.restored(name, &bytes)?,
            _ => {
                let mut pages = Pages::zeroes(bytes.len() as u64);
                match description(&bytes) {
                    Some(ranges) => {
                        self.in_part.lock().insert(name.to_owned());
                        for range in ranges {
                            keep(&mut pages, range, &bytes)?;
                        }
                    }
                    None => keep(&mut pages, 0..bytes.len(), &bytes)?,
                }
                pages
            }
        };
        self.changed.lock().insert(name.to_owned(), Some(pages));
        Ok(())
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let read = self.read_changed(name, offset, into);
        read.unwrap_or_else(|| self.below.read_range(name, offset, into))
    }

    fn read_range_past_cache(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MediaError> {
        let read = self.read_changed(name, offset, into);
        read.unwrap_or_else(|| self.below.read_range_past_cache(name, offset, into))
    }

    fn read_range_reported(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        let read = self.read_changed(name, offset, into);
        let read = read.map(|read| read.map(|()| ReadFrom::Cache));
        read.unwrap_or_else(|| {
            self.below
                .read_range_reported(name, offset, into, past_cache)
        })
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        match self.changed.lock().get(name) {
            Some(Some(pages)) => Ok(pages.len()),
            Some(None) => Err(missing("len", name)),
            None => self.below.len(name),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        let mut names = self.below.list(prefix)?;
        for (name, pages) in &*self.changed.lock() {
            let Some((name, is_dir)) = entry_below(prefix, name) else {
                continue;
            };
            match (names.binary_search_by(|n| n.as_str().cmp(name)), pages) {
                // A directory stays when its last blob is deleted.
                (Ok(at), None) if !is_dir => drop(names.remove(at)),
                (Err(at), Some(_)) => names.insert(at, name.to_owned()),
                _ => {}
            }
        }
        Ok(names)
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        self.changed.lock().insert(name.to_owned(), None);
        Ok(())
    }

    fn sweep(&self) -> Result<(), MediaError> {
        Ok(())
    }

    fn adopt(&self, _: &str) {}

    fn barrier(&self, _: Barrier) -> Result<(), MediaError> {
        Ok(())
    }
}

//! Creates an index file: writes it sequentially beside the old one, then renames it. `grow` and
//! `reset` call this.
//!
//! Invariant: the name leads to a complete file or to its predecessor. An abandoned file is
//! removed.

use super::Coverage;
use super::cache::BucketCache;
use super::table::{Standing, Table};
use format::index::{BUCKET_BYTES, Bucket, Geometry, IndexHeader, Tail};
use media::{Barrier, Disk, DiskFile, MediaError, MediaErrorKind};
use std::sync::Arc;
use units::PoolId;

/// Place of the index, and memory of its parts.
pub(super) struct Site {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: String,
    pub(super) pool: PoolId,
    pub(super) cache_bytes: usize,
    pub(super) window_buckets: u64,
}

impl Site {
    /// Returns the name of a file that is being created.
    pub(super) fn new_path(&self) -> String {
        format!("{}.new", self.path)
    }

    /// Returns the empty cache of a table. Only the process that writes it may have filters.
    pub(super) fn cache(&self, geometry: Geometry, filters: bool) -> BucketCache {
        BucketCache::new(self.cache_bytes, geometry.buckets(), filters)
    }

    fn dir(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(dir, _)| dir)
    }

    fn create(&self) -> Result<Arc<dyn DiskFile>, MediaError> {
        match self.disk.open(&self.new_path(), true) {
            // The whole cache directory may have been deleted.
            Err(e) if e.kind == MediaErrorKind::NotFound && !self.dir().is_empty() => {
                self.disk.make_dir(self.dir())?;
                self.disk.open(&self.new_path(), true)
            }
            result => result,
        }
    }
}

/// A file that is being created. Buckets are pushed in order.
pub(super) struct Builder<'a> {
    site: &'a Site,
    table: Arc<Table>,
    next: u64,
    buffer: Vec<u8>,
    done: bool,
}

impl<'a> Builder<'a> {
    /// Creates a file with this geometry.
    pub(super) fn new(site: &'a Site, geometry: Geometry) -> Result<Self, MediaError> {
        let cache = site.cache(geometry, true);
        let table = Table::new(site.create()?, &site.pool, geometry, cache);
        Ok(Self {
            site,
            table: Arc::new(table),
            next: 0,
            buffer: Vec::new(),
            done: false,
        })
    }

    /// Returns the number of the next bucket.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Appends a bucket.
    pub(super) fn push(&mut self, bucket: &Bucket) -> Result<(), MediaError> {
        self.buffer
            .extend_from_slice(&bucket.encode(self.table.seed(), self.next));
        self.table.cache.learn(self.next, 0, bucket);
        self.next += 1;
        if self.buffer.len() as u64 >= self.site.window_buckets * BUCKET_BYTES as u64 {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds empty buckets up to the end, makes the file durable and renames it.
    pub(super) fn finish(
        mut self,
        entries: u64,
        tail: Tail,
    ) -> Result<(Arc<Table>, Standing), MediaError> {
        let empty = Bucket::empty();
        let geometry = self.table.geometry();
        while self.next < geometry.buckets() {
            self.push(&empty)?;
        }
        self.flush()?;
        let header = IndexHeader {
            pool: self.site.pool,
            sequence: 0,
            geometry,
            clean: false,
            entries,
            coverage: 0,
            runs: 0,
            overflow: 0,
            tail_checksum: 0,
        };
        let mut standing = Standing {
            header,
            coverage: Coverage::new(),
            entries,
            failed: false,
        };
        let table = Arc::clone(&self.table);
        table.mark_clean(&mut standing, tail)?;
        self.site
            .disk
            .rename(&self.site.new_path(), &self.site.path)?;
        self.done = true;
        self.site
            .disk
            .sync_dir(self.site.dir(), Barrier::IndexBeforeClean)?;
        Ok((table, standing))
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        let buckets = (self.buffer.len() / BUCKET_BYTES) as u64;
        let first = self.next.saturating_sub(buckets);
        self.table.write_new(first, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Best effort: the next attempt truncates the file.
            let _ = self.site.disk.remove(&self.site.new_path());
        }
    }
}

//! A copy of the table's buckets on a faster device (DDFS, ATC'18, section 4: half of the flash is
//! the fingerprint index's). Lookups and merges read it instead of the table's file, as far as it
//! goes. The table calls this; a thread of the server fills it.
//!
//! ```text
//! stamp | (second slot, unused) | bucket 0 | bucket 1 | ... | as far as there is room
//! ```
//!
//! The file stays complete and is written first, so a copy that fails, lies or is lost costs time
//! only. It is filled from bucket 0 on with the index writer lock, and every later write of a
//! bucket goes to both.
//!
//! Invariant: buckets below `filled` are those of the file. The stamp says so across restarts: it
//! is erased, durably, before the file is marked unclean, and written only when the copy is durable
//! and the file clean. Callers verify each bucket and ask the file if one is wrong.

use format::index::{BUCKET_BYTES, BUCKETS_START, CopyStamp, IndexHeader, STAMP_BYTES};
use media::{Barrier, Disk, DiskFile, MediaError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Wrong buckets after which nothing of the copy is believed.
const DAMAGED_MAX: u64 = 16;

/// See the module's head.
pub(super) struct BucketCopy {
    file: Arc<dyn DiskFile>,
    /// Number of buckets that there is room for.
    buckets_max: u64,
    /// Number of buckets that it has, from bucket 0 on; 0 after a failure.
    filled: AtomicU64,
    damaged: AtomicU64,
    /// Those of this copy and of earlier ones.
    all_damaged: Arc<AtomicU64>,
    is_stamped: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<String>>,
}

fn offset_of(number: u64) -> u64 {
    BUCKETS_START + number * BUCKET_BYTES as u64
}

impl BucketCopy {
    /// Opens the copy of the file with this header, up to `buckets_max` buckets. One of another
    /// state, or none, is an empty copy; so is one that `is_wrong`. Damaged buckets are added to
    /// `all_damaged`.
    pub fn open(
        disk: &dyn Disk,
        path: &str,
        header: &IndexHeader,
        buckets_max: u64,
        is_wrong: bool,
        all_damaged: Arc<AtomicU64>,
    ) -> Result<Self, MediaError> {
        let found = disk.open(path, false).ok();
        let kept = found.and_then(|file| {
            let mut bytes = [0; STAMP_BYTES];
            file.read_at(0, &mut bytes).ok()?;
            let stamp = CopyStamp::decode(&bytes).ok()?;
            (stamp.header == *header).then_some((file, stamp.buckets))
        });
        // A stamp that is not believed is on the device all the same.
        let is_stamped = kept.is_some();
        let (file, filled) = match kept {
            Some((file, _)) if is_wrong => (file, 0),
            Some(kept) => kept,
            None => (disk.open(path, true)?, 0),
        };
        Ok(Self {
            file,
            buckets_max: buckets_max.min(header.geometry.buckets()),
            filled: AtomicU64::new(filled.min(buckets_max)),
            damaged: AtomicU64::new(0),
            all_damaged,
            is_stamped: AtomicBool::new(is_stamped),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// Returns how many buckets it has.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Acquire)
    }

    /// Returns true if it has all that there is room for.
    pub fn is_full(&self) -> bool {
        self.filled() >= self.buckets_max
    }

    /// Returns true if its device failed. It is not used any more.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns true if it had too many wrong buckets. Its device may be sound.
    pub fn was_wrong(&self) -> bool {
        self.damaged.load(Ordering::Relaxed) >= DAMAGED_MAX
    }

    /// Returns why it failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    fn fail(&self, why: &str) {
        self.filled.store(0, Ordering::Release);
        self.has_failed.store(true, Ordering::Relaxed);
        self.failure.lock().get_or_insert_with(|| why.to_owned());
    }

    /// Reads consecutive buckets without verification, as many as fit into `pages`. Returns false
    /// if it does not have them.
    pub fn read(&self, first: u64, pages: &mut [u8]) -> bool {
        let end = first + (pages.len() / BUCKET_BYTES) as u64;
        if end > self.filled() {
            return false;
        }
        match self.file.read_at_past_cache(offset_of(first), pages) {
            Ok(()) => true,
            Err(e) => {
                self.fail(&e.to_string());
                false
            }
        }
    }

    /// Notes that a bucket was wrong.
    pub fn found_damage(&self) {
        self.all_damaged.fetch_add(1, Ordering::Relaxed);
        if self.damaged.fetch_add(1, Ordering::Relaxed) + 1 >= DAMAGED_MAX {
            self.fail("too many damaged buckets");
        }
    }

    /// Writes buckets that the file has, as far as they are in the copy. The caller has the index
    /// writer lock.
    pub fn write(&self, first: u64, pages: &[u8]) {
        let within = self.filled().saturating_sub(first);
        let within = usize::try_from(within).unwrap_or(usize::MAX);
        let bytes = within.saturating_mul(BUCKET_BYTES).min(pages.len());
        let (pages, _) = pages.split_at(bytes);
        if !pages.is_empty()
            && let Err(e) = self.file.write_at(offset_of(first), pages)
        {
            self.fail(&e.to_string());
        }
    }

    /// Returns the next buckets to copy, at most `count`.
    pub fn missing(&self, count: u64) -> (u64, u64) {
        let first = self.filled();
        (first, count.min(self.buckets_max.saturating_sub(first)))
    }

    /// Appends buckets of the file. The caller has the index writer lock.
    pub fn append(&self, pages: &[u8]) {
        let first = self.filled();
        match self.file.write_at(offset_of(first), pages) {
            Ok(()) => {
                let count = (pages.len() / BUCKET_BYTES) as u64;
                self.filled.store(first + count, Ordering::Release);
            }
            Err(e) => self.fail(&e.to_string()),
        }
    }

    /// Makes the copy count after a restart, unless the power fails before the stamp is durable.
    /// The file is clean and has this header, and the caller has the index writer lock.
    pub fn stamp(&self, header: &IndexHeader) {
        if self.has_failed() || self.is_stamped.load(Ordering::Relaxed) {
            return;
        }
        let stamp = CopyStamp {
            header: header.clone(),
            buckets: self.filled(),
        };
        self.is_stamped.store(true, Ordering::Relaxed);
        let file = &self.file;
        let stamped = file
            .sync(Barrier::IndexCopyBeforeStamp)
            .and_then(|()| file.write_at(0, &stamp.encode()));
        if let Err(e) = stamped {
            self.fail(&e.to_string());
        }
    }

    /// Erases the stamp, durably, before the file changes. The file's next header differs from it,
    /// but a pool that is set back to an earlier state has the old header again, and containers
    /// whose entries were dropped since.
    pub fn unstamp(&self) {
        if !self.is_stamped.swap(false, Ordering::Relaxed) {
            return;
        }
        let erased = self
            .file
            .write_at(0, &[0; STAMP_BYTES])
            .and_then(|()| self.file.sync(Barrier::IndexCopyBeforeStamp));
        if let Err(e) = erased {
            self.fail(&e.to_string());
        }
    }
}

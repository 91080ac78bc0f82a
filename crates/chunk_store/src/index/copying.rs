//! Fills the copy of the index's buckets on a faster device, step by step. A thread of the server
//! calls this; nobody waits for it.
//!
//! Invariant: it works with the index writer lock, so no merge writes a bucket while it is copied.
//! A caller that asks how the copy is waits for no device.
//! A device that fails is left alone for a while, and then copied to from the start. A copy with
//! wrong buckets is made anew at once, but not more often than that.

use super::FingerprintIndex;
use super::bucket_copy::BucketCopy;
use super::table::{Standing, Table};
use format::index::{BUCKET_BYTES, BUCKETS_START};
use media::Disk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::UnixNanos;

/// Time without attempts after a failure.
const RETRY_NANOS: i64 = 60_000_000_000;
/// Shortest time between two stamps. Each costs a sync, and one more at the next change.
const STAMP_NANOS: i64 = 10_000_000_000;

/// Place of the copy, and what happened to it.
pub(super) struct Copying {
    disk: Arc<dyn Disk>,
    path: String,
    bytes_max: u64,
    past: Mutex<Past>,
    /// Wrong buckets of all copies.
    damaged: Arc<AtomicU64>,
}

#[derive(Default)]
struct Past {
    failed: Option<UnixNanos>,
    stamped: Option<UnixNanos>,
    failure: Option<String>,
    /// When a copy was found wrong and made anew.
    renewed: Option<UnixNanos>,
}

/// How the copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexCopyState {
    /// It is being filled.
    Copying,
    /// It has everything that there is room for.
    Ready,
    /// Its device failed. It is tried again.
    Off {
        /// The cause.
        reason: String,
    },
}

/// The copy of the index on a faster device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexCopyStatus {
    /// How it is.
    pub state: IndexCopyState,
    /// Buckets copied, bytes.
    pub bytes: u64,
    /// All buckets of the index, bytes.
    pub index_bytes: u64,
    /// Room for the copy, bytes.
    pub bytes_max: u64,
    /// Buckets that lookups read from the copy.
    pub reads: u64,
    /// Buckets that lookups read from the pool's file.
    pub file_reads: u64,
    /// Buckets that were wrong in the copy and were read from the pool's file.
    pub damaged: u64,
}

fn since(now: UnixNanos, then: Option<UnixNanos>) -> i64 {
    then.map_or(i64::MAX, |then| now.0.saturating_sub(then.0))
}

impl FingerprintIndex {
    /// Keeps a copy of the buckets in the file `path` of `disk`, of `bytes_max` at most. Does no
    /// I/O: [`step_copy`](Self::step_copy) fills it. Only the first call has an effect. The file is
    /// the index's own: whatever else it holds is overwritten.
    pub fn use_copy(&self, disk: Arc<dyn Disk>, path: String, bytes_max: u64) {
        let _ = self.copying.set(Copying {
            disk,
            path,
            bytes_max,
            past: Mutex::default(),
            damaged: Arc::default(),
        });
    }

    /// Copies up to `bytes` of buckets. Returns true if there is more to copy. An index that this
    /// process does not write has no copy.
    pub fn step_copy(&self, now: UnixNanos, bytes: u64) -> bool {
        let Some(copying) = self.copying.get() else {
            return false;
        };
        let mut locked_writer = self.writer_lock.take();
        let table = self.state.read().table.clone();
        let (Some(standing), Some(table)) = (&mut locked_writer.standing, table) else {
            return false;
        };
        let Some(copy) = copying.current(standing, &table, now) else {
            return false;
        };
        let (first, count) = copy.missing((bytes / BUCKET_BYTES as u64).max(1));
        if count > 0 {
            // It names fewer buckets.
            copy.unstamp();
            let mut pages = vec![0; count as usize * BUCKET_BYTES];
            table.read_file(first, &mut pages);
            copy.append(&pages);
        }
        if copy.has_failed() {
            return false;
        }
        if copy.is_full() && since(now, copying.past.lock().stamped) >= STAMP_NANOS {
            copying.stamp(standing, &copy, now);
        }
        !copy.is_full()
    }

    /// Makes the copy count after a restart. Call it at the end of a server.
    pub fn finish_copy(&self, now: UnixNanos) {
        let Some(copying) = self.copying.get() else {
            return;
        };
        let locked_writer = self.writer_lock.take();
        let table = self.state.read().table.clone();
        if let (Some(standing), Some(table)) = (&locked_writer.standing, table)
            && let Some(copy) = table.copy()
        {
            copying.stamp(standing, &copy, now);
        }
    }

    /// Returns how the copy is, if there is to be one.
    pub fn copy_status(&self) -> Option<IndexCopyStatus> {
        let copying = self.copying.get()?;
        let table = self.state.read().table.clone();
        let copy = table.as_ref().and_then(|table| table.copy());
        let failure = copying.past.lock().failure.clone();
        let failure = copy.as_ref().and_then(|copy| copy.failure()).or(failure);
        let state = match failure {
            Some(reason) => IndexCopyState::Off { reason },
            None if copy.as_ref().is_some_and(|copy| copy.is_full()) => IndexCopyState::Ready,
            None => IndexCopyState::Copying,
        };
        let reads = self.meters.copy_reads.load(Relaxed);
        let all_reads = self.meters.device_reads.load(Relaxed);
        let bytes_of = |buckets: u64| buckets * BUCKET_BYTES as u64;
        Some(IndexCopyStatus {
            state,
            bytes: copy.map_or(0, |copy| bytes_of(copy.filled())),
            index_bytes: table.map_or(0, |table| bytes_of(table.geometry().buckets())),
            bytes_max: copying.bytes_max,
            reads,
            file_reads: all_reads.saturating_sub(reads),
            damaged: copying.damaged.load(Relaxed),
        })
    }
}

impl Copying {
    /// Returns the copy of this table; opens one if it has none, or none that works.
    fn current(
        &self,
        standing: &Standing,
        table: &Table,
        now: UnixNanos,
    ) -> Option<Arc<BucketCopy>> {
        let mut is_wrong = false;
        if let Some(copy) = table.copy() {
            if !copy.has_failed() {
                return Some(copy);
            }
            is_wrong = copy.was_wrong();
            let mut past = self.past.lock();
            // A lookup may have noticed first.
            if past.failed.is_none() && !(is_wrong && since(now, past.renewed) > RETRY_NANOS) {
                past.failed = Some(now);
                past.failure = copy.failure();
            }
        }
        if since(now, self.past.lock().failed) <= RETRY_NANOS {
            return None;
        }
        let room = self.bytes_max.saturating_sub(BUCKETS_START) / BUCKET_BYTES as u64;
        let damaged = Arc::clone(&self.damaged);
        let (disk, header) = (&*self.disk, &standing.header);
        match BucketCopy::open(disk, &self.path, header, room, is_wrong, damaged) {
            Ok(copy) => {
                let copy = Arc::new(copy);
                table.set_copy(Arc::clone(&copy));
                let mut past = self.past.lock();
                *past = Past {
                    renewed: if is_wrong { Some(now) } else { past.renewed },
                    ..Past::default()
                };
                Some(copy)
            }
            Err(e) => {
                let mut past = self.past.lock();
                past.failed = Some(now);
                past.failure = Some(e.to_string());
                None
            }
        }
    }

    fn stamp(&self, standing: &Standing, copy: &BucketCopy, now: UnixNanos) {
        if standing.header.clean && !standing.failed {
            copy.stamp(&standing.header);
            self.past.lock().stamped = Some(now);
        }
    }
}

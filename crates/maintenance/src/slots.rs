//! Records of tasks that outlive their process: two files below the pool's `cache` for each,
//! written alternately. The scrubber, the defragmenter and the gc memory use them.
//!
//! Invariant: nothing is synced. A crash may lose the newer record, or both, which costs work.

use format::collect::{COLLECT_BYTES, CollectRecord};
use format::defrag::{DEFRAG_BYTES_MAX, DefragRecord};
use format::scrub::{SCRUB_BYTES_MAX, ScrubRecord};
use media::MediaError;
use store::{Pool, RecordSlots};
use units::PoolId;

/// A numbered record.
pub trait Numbered: Default {
    const SLOTS: RecordSlots;

    fn sequence(&mut self) -> &mut u64;
    fn seal(&self, pool: PoolId) -> Vec<u8>;
    fn open(bytes: &[u8], pool: PoolId) -> format::bytes::Result<Self>;
}

macro_rules! numbered {
    ($record:ty, $paths:expr, $bytes_max:expr) => {
        impl Numbered for $record {
            const SLOTS: RecordSlots = RecordSlots::new($paths, $bytes_max);

            fn sequence(&mut self) -> &mut u64 {
                &mut self.sequence
            }

            fn seal(&self, pool: PoolId) -> Vec<u8> {
                self.encode(pool)
            }

            fn open(bytes: &[u8], pool: PoolId) -> format::bytes::Result<Self> {
                Self::decode(bytes, pool)
            }
        }
    };
}

numbered!(
    ScrubRecord,
    ["cache/scrub.0", "cache/scrub.1"],
    SCRUB_BYTES_MAX
);
numbered!(
    DefragRecord,
    ["cache/defrag.0", "cache/defrag.1"],
    DEFRAG_BYTES_MAX
);
numbered!(
    CollectRecord,
    ["cache/collect.0", "cache/collect.1"],
    COLLECT_BYTES
);

/// Returns the newest readable record; a default one if there is none.
pub fn read<R: Numbered>(pool: &Pool) -> R {
    let newest = R::SLOTS.newest(pool.cache_files(), |bytes| {
        let mut record = R::open(bytes, pool.config().pool).ok()?;
        Some((*record.sequence(), record))
    });
    newest.unwrap_or_default()
}

/// Numbers a record and writes it over the older one.
pub fn write<R: Numbered>(pool: &Pool, record: &mut R) -> Result<(), MediaError> {
    *record.sequence() = record.sequence().saturating_add(1);
    write_numbered(pool, record)
}

/// Writes a record that is numbered already over the one before its predecessor.
pub fn write_numbered<R: Numbered>(pool: &Pool, record: &mut R) -> Result<(), MediaError> {
    let sequence = *record.sequence();
    let bytes = record.seal(pool.config().pool);
    R::SLOTS.write(pool.cache_files(), sequence, &bytes)
}

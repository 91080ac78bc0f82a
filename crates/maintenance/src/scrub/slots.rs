//! The two slots of a scrub's record: files below the pool's `cache`, written in turn.
//!
//! Invariant: nothing is synced; a crash may lose the newer record, or both, which costs work. Called by
//! the scrubber.

use format::scrub::{SCRUB_BYTES_MAX, ScrubRecord};
use media::MediaError;
use store::{Pool, RecordSlots};

const SLOTS: RecordSlots = RecordSlots::new(["cache/scrub.0", "cache/scrub.1"], SCRUB_BYTES_MAX);

/// The newest record that can be read; a new one if there is none.
pub fn read(pool: &Pool) -> ScrubRecord {
    let newest = SLOTS.newest(pool.cache_files(), |bytes| {
        let record = ScrubRecord::decode(bytes, pool.config().pool).ok()?;
        Some((record.sequence, record))
    });
    newest.unwrap_or_default()
}

/// Writes a record over the older one.
pub fn write(pool: &Pool, record: &mut ScrubRecord) -> Result<(), MediaError> {
    record.sequence = record.sequence.saturating_add(1);
    let bytes = record.encode(pool.config().pool);
    SLOTS.write(pool.cache_files(), record.sequence, &bytes)
}

//! The two slots of a scrub's record: files below the pool's `cache`, written in turn.
//!
//! Invariant: nothing is synced; a crash may lose the newer record, or both, which costs work. A
//! record that is torn, of another pool or of another version is none. Called by the scrubber.

use format::scrub::{SCRUB_BYTES_MAX, ScrubRecord};
use media::{Disk, MediaError};
use units::PoolId;

const DIRECTORY: &str = "cache";
const SLOTS: [&str; 2] = ["cache/scrub.0", "cache/scrub.1"];

/// The newest record that can be read; a new one if there is none.
pub fn read(disk: &dyn Disk, pool: PoolId) -> ScrubRecord {
    let records = SLOTS.iter().filter_map(|slot| read_slot(disk, slot, pool));
    let newest = records.max_by_key(|record| record.sequence);
    newest.unwrap_or_default()
}

fn read_slot(disk: &dyn Disk, slot: &str, pool: PoolId) -> Option<ScrubRecord> {
    let file = disk.open_read(slot).ok()?;
    let len = file.len().ok().filter(|len| *len <= SCRUB_BYTES_MAX)?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_at(0, &mut bytes).ok()?;
    ScrubRecord::decode(&bytes, pool).ok()
}

/// Writes a record over the older one.
pub fn write(disk: &dyn Disk, pool: PoolId, record: &mut ScrubRecord) -> Result<(), MediaError> {
    disk.make_dir(DIRECTORY)?;
    record.sequence = record.sequence.saturating_add(1);
    let [even, odd] = SLOTS;
    let slot = if record.sequence & 1 == 0 { even } else { odd };
    let bytes = record.encode(pool);
    let file = disk.open(slot, true)?;
    file.write_at(0, &bytes)
}

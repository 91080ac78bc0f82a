//! The persistent reservations of volumes, which survive a restart: entries of the catalog. The
//! server calls this for iSCSI.
//!
//! Invariant: a change is one commit, and durable on return. An entry goes in the commit that
//! deletes its volume; a rename changes nothing of it. An entry that cannot be read is an error,
//! and is replaced only by a caller that says so.

use super::Volumes;
use super::administration::commit;
use chunk_store::catalog::Edit;
use format::reservations::ReservationsRecord;
use media::Need;
use store::{Pool, Result, StoreError, StoreErrorKind};
use units::VolumeId;

/// Returns the reservations that are kept for a volume. Fails with `Corruption` if they cannot be
/// decoded.
pub fn kept_reservations(pool: &Pool, volume: VolumeId) -> Result<Option<ReservationsRecord>> {
    let stored = pool.reservations(volume)?;
    let decoded = stored.map(|bytes| ReservationsRecord::decode(&bytes));
    let corrupt =
        |e: format::bytes::FormatError| StoreError::new(StoreErrorKind::Corruption, e.to_string());
    decoded.transpose().map_err(corrupt)
}

impl Volumes {
    /// Keeps reservations for a volume in place of those that are kept; `None`: none. If they are
    /// the same, nothing is written. Fails with `NotFound` if the volume was deleted.
    pub fn keep_reservations(
        &self,
        volume: VolumeId,
        record: Option<&ReservationsRecord>,
    ) -> Result<()> {
        let engine = &self.engine;
        let pool = &engine.backing.pool;
        let value = record.map(ReservationsRecord::encode);
        if pool.reservations(volume)? == value {
            return Ok(());
        }
        if value.is_some() {
            pool.add_reservations()?;
        }
        let mut driver = engine.checkpointer.driver.lock();
        // A volume is deleted under the same lock.
        if !engine.registry.lock().contains_key(&volume) {
            let why = "the volume was deleted";
            return Err(StoreError::new(StoreErrorKind::NotFound, why));
        }
        let edit = Edit {
            key: ReservationsRecord::key_of(volume),
            value,
        };
        commit(engine, &mut driver, vec![edit], Need::Deletion)
    }
}

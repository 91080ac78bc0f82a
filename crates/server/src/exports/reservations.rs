//! Persistent reservations of a served volume, which are kept in the pool's catalog.
//! [`super::ServerExports`] makes these, one for each session that opens the volume.
//!
//! Invariant: reservations that cannot be read are reported, and are never taken for none.

use crate::state::ServerState;
use format::reservations::ReservationsRecord;
use iscsi::ReservationKeeper;
use std::sync::Arc;
use store::{StoreError, StoreErrorKind};
use units::VolumeId;
use volume::VolumeErrorKind;
use volumes::kept_reservations;

/// Keeps the reservations of one volume.
pub(super) struct VolumeReservations {
    pub(super) server: Arc<ServerState>,
    pub(super) volume: VolumeId,
}

/// Returns the kind that initiators get.
fn kind_of(e: &StoreError) -> VolumeErrorKind {
    match e.kind {
        _ if e.is_full() => VolumeErrorKind::NoSpace,
        StoreErrorKind::NotFound => VolumeErrorKind::Deleted,
        _ => VolumeErrorKind::Io,
    }
}

impl ReservationKeeper for VolumeReservations {
    fn kept(&self) -> Result<Option<ReservationsRecord>, VolumeErrorKind> {
        let kept = kept_reservations(&self.server.pool, self.volume);
        // Findings name them.
        kept.map_err(|e| kind_of(&e))
    }

    fn keep(&self, record: Option<&ReservationsRecord>) -> Result<(), VolumeErrorKind> {
        let kept = self.server.volumes.keep_reservations(self.volume, record);
        kept.map_err(|e| kind_of(&e))
    }
}

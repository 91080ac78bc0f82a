//! Acknowledged writes that the journal has lost to damage.
//!
//! Invariant: what is told here the journal's files tell too, until somebody acknowledges it. Called
//! by rounds, which find it, and by the program.

use super::backing::Backing;
use super::overlay::Piece;
use crate::journal::JournalDamage;
use format::journal::{RecordHeader, RecordKind};
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Result, StoreError};
use units::VolumeId;

/// See the module's head.
pub(super) struct Losses {
    backing: Arc<Backing>,
    damage: Mutex<Vec<JournalDamage>>,
}

impl Losses {
    /// `damage`: what replay has found.
    pub fn new(backing: Arc<Backing>, damage: Vec<JournalDamage>) -> Self {
        let damage = Mutex::new(damage);
        Self { backing, damage }
    }

    pub fn list(&self) -> Vec<JournalDamage> {
        self.damage.lock().clone()
    }

    pub fn clear(&self) {
        self.damage.lock().clear();
    }

    /// Bytes that were acknowledged are damaged in the journal.
    pub fn note(&self, volume: VolumeId, piece: &Piece, found: &StoreError) -> Result<()> {
        let damage = JournalDamage {
            slot: None,
            at: piece.position,
            end: piece.position,
            record: Some(RecordHeader {
                kind: RecordKind::Write,
                data_bytes: u32::try_from(piece.len).unwrap_or(u32::MAX),
                volume,
                start: piece.offset,
                len: piece.len,
                data_checksum: 0,
            }),
            found: found.to_string(),
        };
        let noted = self
            .backing
            .journal
            .note_losses(std::slice::from_ref(&damage));
        self.damage.lock().push(damage);
        noted
    }
}

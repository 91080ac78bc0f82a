//! Records acknowledged writes that the journal lost to damage.
//!
//! Checkpoints add losses; the server lists them.
//! Invariant: every loss that is listed here is also recorded in the journal's files until a user
//! acknowledges it.

use super::backing::Backing;
use super::overlay::Piece;
use format::journal::{RecordHeader, RecordKind};
use journal::JournalDamage;
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Result, StoreError};
use units::VolumeId;

/// The losses. See the module's head.
pub(super) struct Losses {
    backing: Arc<Backing>,
    damage: Mutex<Vec<JournalDamage>>,
}

impl Losses {
    /// `damage`: losses that replay found.
    pub fn new(backing: Arc<Backing>, damage: Vec<JournalDamage>) -> Self {
        let damage = Mutex::new(damage);
        Self { backing, damage }
    }

    pub fn list(&self) -> Vec<JournalDamage> {
        self.damage.lock().clone()
    }

    /// Adds a loss: recorded on return.
    pub fn add(&self, damage: JournalDamage) -> Result<()> {
        let noted = self
            .backing
            .journal
            .note_losses(std::slice::from_ref(&damage));
        self.damage.lock().push(damage);
        noted
    }

    /// Lists losses that were recorded before the journal moved.
    pub fn remember(&self, damage: Vec<JournalDamage>) {
        self.damage.lock().extend(damage);
    }

    pub fn clear(&self) {
        self.damage.lock().clear();
    }

    /// Records that acknowledged bytes are damaged in the journal.
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
        self.add(damage)
    }
}

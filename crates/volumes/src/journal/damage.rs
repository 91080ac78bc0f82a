//! What a replay could not give although it was durable once.
//!
//! Invariant: nothing that was acknowledged is missing without one of these. Called by `replay`;
//! volumes read the fields, people the text.

use super::slot_use::slot_name;
use format::journal::{RecordHeader, RecordKind};
use std::fmt;
use units::JournalPosition;

/// A part of the journal that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDamage {
    /// The slot, when it is one.
    pub slot: Option<u32>,
    /// Where what is damaged begins.
    pub at: JournalPosition,
    /// Where it ends; what was replayed from between is sound, the rest is lost. Both are 0 when
    /// all of a slot is lost and nothing says which positions it held.
    pub end: JournalPosition,
    /// The record that is lost, when its header can still be read: what it did to whose bytes.
    pub record: Option<RecordHeader>,
    /// How it shows.
    pub found: String,
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slot {
            Some(slot) => f.write_str(&slot_name(slot))?,
            None => f.write_str(super::slot_use::DIR)?,
        }
        if self.end > self.at {
            write!(f, " positions {} to {}", self.at, self.end)?;
        }
        if let Some(record) = &self.record {
            let unit = match record.kind {
                RecordKind::Write | RecordKind::Zero => "bytes",
                RecordKind::Chunks => "chunks",
            };
            write!(
                f,
                ", volume {} {unit} {} to {}",
                record.volume,
                record.start,
                record.start.saturating_add(record.len)
            )?;
        }
        write!(f, ": {}", self.found)
    }
}

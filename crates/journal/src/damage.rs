//! Damage: parts of the journal that were durable and cannot be replayed.
//!
//! `replay` creates it. Volumes read the fields; users read the text.
//! Invariant: no acknowledged record is missing without a report.

use super::slot_use::slot_name;
use format::journal::{RecordHeader, RecordKind};
use std::fmt;
use units::JournalPosition;

/// A damaged part of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDamage {
    /// Its slot, if it is in one.
    pub slot: Option<u32>,
    /// Start of the damaged range.
    pub at: JournalPosition,
    /// End of the damaged range. Replayed records between both are sound; the others are lost. Both
    /// are 0 if a whole slot is lost and its positions are unknown.
    pub end: JournalPosition,
    /// Header of the lost record, if it is readable: the kind of change, its volume and range.
    pub record: Option<RecordHeader>,
    /// Description of the damage.
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

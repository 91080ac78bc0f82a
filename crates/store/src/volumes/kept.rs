//! Writes that no checkpoint can take, because what lies below them is damaged: they stay in the
//! journal.
//!
//! Invariant: damage to one volume is that volume's. What it keeps does not count as filled,
//! neither in the journal nor in memory, so that others go on; past a share it takes no more
//! writes. Called by rounds, writers, and the program for what it says.

use super::Volumes;
use super::engine::Engine;
use super::live::LiveVolume;
use super::overlay::Piece;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::journal::{JournalDamage, LostWrites};
use format::journal::{RecordHeader, RecordKind};
use media::MediaErrorKind;
use std::ops::Range;
use std::sync::Arc;
use units::VolumeId;

/// Ranges that are named.
const RANGES_MAX: usize = 64;
/// Journal bytes of a record besides its data: header, tag, and its part of batch and padding.
const RECORD_BYTES: u64 = 256;

/// What one volume keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Ascending, bytes of the volume.
    pub ranges: Vec<Range<u64>>,
    /// Why the first of them cannot be checkpointed.
    pub why: String,
    /// About so many bytes of the journal ...
    pub bytes: u64,
    /// ... and pieces in memory.
    pub pieces: u64,
}

impl Kept {
    /// `ranges` ascend.
    pub fn new(ranges: &[Range<u64>], why: &str) -> Self {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range.clone()),
            }
        }
        Self {
            ranges: joined,
            why: why.to_owned(),
            bytes: 0,
            pieces: 0,
        }
    }
}

/// Writes of a volume that stay in the journal, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWrites {
    /// The volume.
    pub name: String,
    /// Bytes of the volume, ascending; the first ones.
    pub ranges: Vec<Range<u64>>,
    /// Why the first of them cannot be checkpointed.
    pub why: String,
    /// Bytes of the journal, about.
    pub bytes: u64,
    /// Too many: the volume takes no more writes.
    pub refuses: bool,
}

impl std::fmt::Display for KeptWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "volume {}: what was written to", self.name)?;
        match self.ranges.as_slice() {
            [range] => write!(f, " bytes {} to {}", range.start, range.end)?,
            [first, .., last] => {
                let ranges = self.ranges.len();
                write!(
                    f,
                    " {ranges} ranges in bytes {} to {}",
                    first.start, last.end
                )?;
            }
            [] => {}
        }
        write!(
            f,
            " stays in the journal, because what lies below is damaged: {}",
            self.why
        )?;
        match self.refuses {
            true => f.write_str("; the volume takes no more writes"),
            false => Ok(()),
        }
    }
}

/// True for what a damaged place causes; what the process or the pool as a whole suffers is not.
pub(super) fn is_damage(e: &StoreError) -> bool {
    e.is_corruption() || e.kind == StoreErrorKind::Media(MediaErrorKind::Io)
}

impl Engine {
    /// The volume's name; its id when it was deleted.
    pub fn name_of(&self, id: &VolumeId) -> String {
        let registry = self.registry.lock();
        let name = registry.get(id).map(|r| r.record.name.clone());
        name.unwrap_or_else(|| id.to_string())
    }

    /// Counts what volumes keep anew, after it changed.
    pub fn count_kept(&self) {
        let (mut bytes, mut pieces) = (0, 0);
        for registered in self.registry.lock().values() {
            if let Some(kept) = &registered.volume.state().kept {
                bytes += kept.bytes;
                pieces += kept.pieces;
            }
        }
        self.backing.journal.set_kept(bytes);
        self.levels.pieces.set_kept(pieces);
    }

    /// Bytes that were acknowledged are damaged in the journal.
    pub fn note_lost(&self, volume: VolumeId, piece: &Piece, found: &StoreError) -> Result<()> {
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

impl LiveVolume {
    /// After a round: what the volume keeps now.
    pub fn note_kept(&self, kept: Option<Kept>) {
        let mut state = self.state_mut();
        state.kept = kept.map(|mut kept| {
            for range in &kept.ranges {
                state.active.visit(range.start, range.end, |piece| {
                    kept.pieces += 1;
                    kept.bytes += piece.journal_bytes() + RECORD_BYTES;
                });
            }
            Arc::new(kept)
        });
    }
}

impl Volumes {
    /// Acknowledged writes that are lost, and how many more there were, until somebody acknowledges
    /// that.
    pub fn lost_writes(&self) -> (Vec<LostWrites>, u32) {
        self.engine.backing.journal.losses()
    }

    /// Somebody knows of the lost writes: they are not told any more.
    pub fn acknowledge_lost_writes(&self) -> Result<()> {
        // Nothing of the journal is needed then that shows the loss again.
        self.checkpoint()?;
        self.engine.trim_all()?;
        self.engine.backing.journal.acknowledge_losses()?;
        self.engine.damage.lock().clear();
        Ok(())
    }

    /// Flushes, and records exactly how far the journal reaches: for the end of a process.
    pub fn close(&self) -> Result<()> {
        self.engine.flush()?;
        self.engine.backing.journal.note_reach()
    }

    /// What stays in the journal because it cannot be checkpointed, by name of the volume.
    pub fn kept_writes(&self) -> Vec<KeptWrites> {
        let registry = self.engine.registry.lock();
        let kept = registry.values().filter_map(|registered| {
            let kept = registered.volume.state().kept.clone()?;
            Some(KeptWrites {
                name: registered.record.name.clone(),
                ranges: kept.ranges.iter().take(RANGES_MAX).cloned().collect(),
                why: kept.why.clone(),
                bytes: kept.bytes,
                refuses: self.engine.levels.is_too_much(&kept),
            })
        });
        let mut list: Vec<_> = kept.collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }
}

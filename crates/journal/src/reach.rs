//! Reach record: how far the journal is known to reach, stored outside the slots. With it, opening
//! notices that flushed batches are missing.
//!
//! Opening and the writer call this. So does the acknowledgement of losses.
//! Invariant: a record names only what was durable when it was written, so no crash makes it wrong.
//! The first flush in a slot use is acknowledged after a record that names the use. After that,
//! every [`SYNCS_BETWEEN`]th flush is acknowledged after a record that names its position. Both
//! files are written and synced one after the other, so one of them is always intact.

use super::Site;
use super::damage::JournalDamage;
use super::slot_use::SlotUse;
use chunk_store::Result;
use chunk_store::superblock::format_error;
use format::bytes::Fault;
use format::config::Seal;
use format::journal::{RecordHeader, RecordKind};
use format::reach::{REACH_BYTES_MAX, REACH_LOSSES_MAX, ReachRange, ReachRecord};
use media::{Barrier, MediaError, MediaErrorKind, Need};
use units::{JournalPosition, VolumeId};

/// Names of the two files.
pub(super) const NAMES: [&str; 2] = ["journal-reach.0", "journal-reach.1"];
/// Maximum number of flushes after the last record of a slot use. A crash and damage together can
/// hide these.
pub(super) const SYNCS_BETWEEN: u32 = 64;
/// Nonce that seals the record; the salt is new each time.
const NONCE: [u8; 12] = [0xfe; 12];

/// Contents of the files.
pub(super) struct Found {
    pub(super) record: Option<ReachRecord>,
    /// Damage of files that exist and cannot be decoded.
    pub(super) damage: Vec<JournalDamage>,
}

/// Reads both files. Fails with `Unsupported` if a later version wrote one.
pub(super) fn read(site: &Site) -> Result<Found> {
    let mut found = Found {
        record: None,
        damage: Vec::new(),
    };
    let mut missing = 0;
    for name in NAMES {
        match read_one(site, name)? {
            Ok(Some(record)) => {
                let newest = found
                    .record
                    .as_ref()
                    .map_or(0, |r: &ReachRecord| r.sequence);
                if found.record.is_none() || record.sequence > newest {
                    found.record = Some(record);
                }
            }
            Ok(None) => missing += 1,
            Err(why) => found.damage.push(whole_journal(&format!("{name}: {why}"))),
        }
    }
    // Nothing is lost while one file is intact: the next record replaces both. A crash may leave
    // one.
    if found.record.is_some() || missing == NAMES.len() {
        found.damage.clear();
    } else if let Some(damage) = found.damage.first_mut() {
        damage.found += "; whether flushed writes are missing is unknown";
    }
    Ok(found)
}

fn read_one(site: &Site, name: &str) -> Result<std::result::Result<Option<ReachRecord>, String>> {
    let file = match site.disk.open_read(name) {
        Ok(file) => file,
        Err(e) if e.kind == MediaErrorKind::NotFound => return Ok(Ok(None)),
        Err(e) if e.kind == MediaErrorKind::Io => return Ok(Err(e.to_string())),
        Err(e) => return Err(e.into()),
    };
    let len = file.len()?.min(REACH_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    match file.read_at(0, &mut bytes) {
        Ok(()) => {}
        Err(e) if e.kind == MediaErrorKind::Io => return Ok(Err(e.to_string())),
        Err(e) => return Err(e.into()),
    }
    // A crash leaves a file that was created and never written.
    if bytes.iter().all(|b| *b == 0) {
        return Ok(Ok(None));
    }
    let record = match ReachRecord::decode(&bytes, site.pool) {
        Ok(record) => record,
        Err(e) if matches!(e.fault, Fault::Version(_)) => return Err(format_error(name, e)),
        Err(e) => return Ok(Err(e.to_string())),
    };
    if record.seal != site.seal {
        return Ok(Err(
            "it is encrypted in another way than the pool".to_owned()
        ));
    }
    if let Some(key) = site.master.journal_key(site.seal, &record.salt) {
        let mut tag = record.tag;
        let opened = key.open_in_place(NONCE, &record.associated_data(), &mut tag);
        if opened.is_none() {
            return Ok(Err("the seal does not verify".to_owned()));
        }
    }
    Ok(Ok(Some(record)))
}

fn whole_journal(found: &str) -> JournalDamage {
    JournalDamage {
        slot: None,
        at: JournalPosition(0),
        end: JournalPosition(0),
        record: None,
        found: found.to_owned(),
    }
}

/// Keeps the record up to date.
pub(super) struct Keeper {
    record: ReachRecord,
    /// The files exist, and their names are durable.
    named: bool,
    /// Syncs of slots since the last record.
    syncs: u32,
    /// Losses changed since the last record.
    changed: bool,
}

impl Keeper {
    /// Continues from the record that was found.
    pub(super) fn new(site: &Site, found: Option<ReachRecord>) -> Self {
        let record = found.unwrap_or(ReachRecord {
            sequence: 0,
            first: JournalPosition(0),
            reached: JournalPosition(0),
            slot: 0,
            seal: site.seal,
            more_volumes: false,
            volumes: Vec::new(),
            losses: Vec::new(),
            more_losses: 0,
            salt: [0; 32],
            tag: [0; 16],
        });
        Self {
            record,
            named: false,
            syncs: 0,
            changed: false,
        }
    }

    /// Returns the position below which everything is recorded as durable.
    pub(super) fn reached(&self) -> JournalPosition {
        self.record.reached
    }

    /// Returns the losses that no user has acknowledged, and how many did not fit.
    pub(super) fn losses(&self) -> (Vec<ReachRange>, u32) {
        (self.record.losses.clone(), self.record.more_losses)
    }

    /// Adds losses.
    pub(super) fn lost(&mut self, damage: &[JournalDamage]) {
        for damage in damage {
            let range = match &damage.record {
                Some(record) => ReachRange {
                    volume: record.volume,
                    start: record.start,
                    len: record.len,
                    is_chunks: record.kind == RecordKind::Chunks,
                },
                // Unknown volumes: the range counts positions, if they are known.
                None => ReachRange {
                    start: damage.at.0,
                    len: damage.end.0.saturating_sub(damage.at.0),
                    ..ReachRange::default()
                },
            };
            if self.record.losses.contains(&range) {
                continue;
            }
            self.changed = true;
            match self.record.losses.len() < REACH_LOSSES_MAX {
                true => self.record.losses.push(range),
                false => self.record.more_losses = self.record.more_losses.saturating_add(1),
            }
        }
    }

    /// Removes the losses, because a user acknowledged them.
    pub(super) fn acknowledge(&mut self) {
        self.changed |= !self.record.losses.is_empty();
        self.record.losses.clear();
        self.record.more_losses = 0;
    }

    /// Sets the end of the journal that opening found.
    pub(super) fn ends_at(&mut self, first: JournalPosition, end: JournalPosition, slot: u32) {
        (self.record.first, self.record.reached) = (first, end);
        self.record.slot = slot;
        self.record.volumes.clear();
        self.record.more_volumes = false;
    }

    /// Returns true if losses are not recorded yet.
    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Notes that a slot was synced up to `durable`. Writes the record if it is due, or if `now`.
    /// Returns true if both files were written and synced.
    pub(super) fn synced(
        &mut self,
        site: &Site,
        slot_use: &SlotUse,
        durable: u64,
        now: bool,
    ) -> Result<bool> {
        self.syncs = self.syncs.saturating_add(1);
        let first = slot_use.header.first;
        let is_new = self.record.first != first;
        let is_known = !is_new && self.record.reached.0 >= durable;
        if is_known || !(now || is_new || self.syncs >= SYNCS_BETWEEN) {
            return Ok(false);
        }
        self.ends_at(first, JournalPosition(durable), slot_use.header.slot);
        let (volumes, more) = slot_use.volumes();
        (self.record.volumes, self.record.more_volumes) = (volumes, more);
        self.write(site)?;
        Ok(true)
    }

    /// Writes both files, one after the other.
    pub(super) fn write(&mut self, site: &Site) -> Result<()> {
        self.record.sequence = self.record.sequence.saturating_add(1);
        if site.seal == Seal::Aes256Gcm {
            site.random.fill(&mut self.record.salt);
        }
        if let Some(key) = site.master.journal_key(site.seal, &self.record.salt) {
            let bound = self.record.associated_data();
            self.record.tag = key.seal_in_place(NONCE, &bound, &mut []);
        }
        let bytes = self.record.encode(site.pool);
        if !self.named {
            name(site)?;
            self.named = true;
        }
        for name in NAMES {
            let file = site.disk.open(name, false)?;
            // The first record takes a block. Later ones take none, unless the file system never
            // overwrites in place.
            let write = || file.write_at(0, &bytes);
            match site.blobs.reserve() {
                Some(reserve) => reserve.with_room(bytes.len() as u64, Need::Deletion, write)?,
                None => write()?,
            }
            file.sync(Barrier::ReachBeforeAck)?;
        }
        (self.syncs, self.changed) = (0, false);
        Ok(())
    }
}

/// Makes the files and their names durable, including names that a crashed process left unsynced.
fn name(site: &Site) -> std::result::Result<(), MediaError> {
    for name in NAMES {
        match site.disk.create_new(name) {
            Ok(file) => file.will_be_overwritten(),
            Err(e) if e.kind == MediaErrorKind::Exists => {}
            Err(e) => return Err(e),
        }
    }
    site.disk.sync_dir("", Barrier::ReachNamesBeforeUse)
}

/// Describes what is missing if a slot use that flushes reached is missing or ends too early.
pub(super) fn missing(
    record: &ReachRecord,
    at: JournalPosition,
    found: &str,
) -> Vec<JournalDamage> {
    let damage = |range: Option<&ReachRange>| JournalDamage {
        slot: Some(record.slot),
        at,
        end: record.reached,
        record: range.map(|range| RecordHeader {
            kind: match range.is_chunks {
                true => RecordKind::Chunks,
                false => RecordKind::Write,
            },
            data_bytes: 0,
            volume: range.volume,
            start: range.start,
            len: range.len,
            data_checksum: 0,
        }),
        found: found.to_owned(),
    };
    let mut list: Vec<_> = record.volumes.iter().map(|v| damage(Some(v))).collect();
    if list.is_empty() || record.more_volumes {
        list.push(damage(None));
    }
    list
}

/// A lost acknowledged write, for users and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostWrites {
    /// Its volume, if known.
    pub volume: Option<VolumeId>,
    /// First byte or chunk; of an unknown volume, the first position in the journal.
    pub start: u64,
    /// Number of bytes or chunks, or of positions; 0: unknown.
    pub len: u64,
    /// True if `start` and `len` count chunks.
    pub is_chunks: bool,
}

impl LostWrites {
    pub(super) fn of(range: &ReachRange) -> Self {
        Self {
            volume: (range.volume != VolumeId::default()).then_some(range.volume),
            start: range.start,
            len: range.len,
            is_chunks: range.is_chunks,
        }
    }
}

//! Opens a journal: finds its slots, their order, and where it ends.
//!
//! ```text
//! reach record, slot headers ─> chain of uses, newest back to `from` ─> walk each, replay
//!      ─> write the tail again and sync ─> record losses and the end ─> ring, state, writer
//! ```
//!
//! Recovery calls this. [`Journal::inspect`] uses the survey only.
//! Invariant: the use with the highest first position is the last. From there, each header names
//! the use before it and where that ended. Uses that no header names are dead. If the tail of the
//! last use may be only in the system's page cache, it is made durable before any caller relies on
//! it. The next use begins above every position that can have been used.

use super::damage::JournalDamage;
use super::disks::JournalDisks;
use super::reach::{self, Keeper};
use super::replay::{End, Ended, Take, Walk};
use super::ring::{Live, Ring, SLOTS_MAX};
use super::slot_bytes::{SlotBytes, WINDOW_BYTES};
use super::slot_file::SlotFile;
use super::slot_reader::SlotReader;
use super::slot_use::{DIR, SlotUse, slot_name};
use super::state::JournalState;
use super::writer::{Writer, name_slots};
use super::{BATCH_BYTES_TARGET, Journal, JournalOptions, Record, Site};
use chunk_store::superblock::{MasterKey, format_error};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::bytes::Fault;
use format::config::Seal;
use format::journal::{
    BLOCK_BYTES, POSITION_GAP, RECORD_DATA_BYTES_MAX, RING_BYTES_MAX, SLOT_BYTES_MIN, SlotHeader,
    SlotPage,
};
use format::journal_place::JournalPlace;
use format::reach::ReachRecord;
use media::{Barrier, Disk, DiskFile, MediaErrorKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use units::{JournalPosition, PoolId};

/// Part of the memory for buffers that is for records which were read.
const OPENED: usize = 4;
/// Minimum size of each: two batches of the largest record.
const BUFFER_BYTES_MIN: usize = 4 * RECORD_DATA_BYTES_MAX;

impl Journal {
    /// Opens the journal, or creates it. Replays every sound record at or after `from` in order,
    /// then continues in a new slot. New positions are above `from` and above all that were ever
    /// written; see [`Journal::raise`] for others. The caller holds the pool's lock. Also returns
    /// damage: what was durable and is missing. Fails with `Unsupported` if a later version wrote
    /// the journal, and with `Invalid` for impossible options.
    pub fn open(
        disks: impl Into<JournalDisks>,
        pool: PoolId,
        master: &MasterKey,
        seal: Seal,
        options: &JournalOptions,
        from: JournalPosition,
        replay: &mut dyn FnMut(JournalPosition, Record<'_>) -> Result<()>,
    ) -> Result<(Self, Vec<JournalDamage>)> {
        let site = site(disks.into(), pool, master, seal, options)?;
        let Survey {
            damage,
            found,
            ours,
            last,
            ended,
            live,
            reach,
            degraded,
        } = survey(&site, from, replay)?;
        if let Some((slot_use, walked)) = &last {
            settle(&site, slot_use, walked)?;
        }
        // The walk began with the last use, so it ended above that use's first position.
        let reached = reach.as_ref().map_or(0, |reach| reach.reached.0);
        let highest = from.0.max(ended.1.0).max(reached);
        let mut reach = Keeper::new(&site, reach);
        reach.lost(&damage);
        // Record the loss before new slots overwrite its evidence. The record also confirms as
        // durable everything that was found.
        if reach.is_changed() || ended.1.0 > from.0.max(reached) {
            let slot = last
                .as_ref()
                .map_or(0, |(slot_use, _)| slot_use.header.slot);
            reach.ends_at(ended.0, ended.1, slot);
            reach.write(&site)?;
        }
        let base = highest
            .checked_next_multiple_of(BLOCK_BYTES as u64)
            .and_then(|base| base.checked_add(POSITION_GAP))
            .filter(|base| *base < u64::MAX - RING_BYTES_MAX)
            .ok_or_else(|| invalid("all its positions are used"))?;
        remove_surplus(&site, &ours, &live);
        let last_slot = found.last().map_or(site.slots - 1, |last| last.header.slot);
        let ring = Ring::new(site.slots, site.slot_bytes, live, last_slot, base, ended);
        let state = JournalState::new(ring, base, from.0);
        let writer = Writer::new(site.slots, base, reach);
        Ok((Self::new(site, state, writer, degraded), damage))
    }
}

/// Contents of the slots.
pub(super) struct Survey {
    pub(super) damage: Vec<JournalDamage>,
    found: Vec<Arc<SlotUse>>,
    ours: Vec<u32>,
    /// The last use, and where it ended.
    last: Option<(Arc<SlotUse>, Ended)>,
    ended: (JournalPosition, JournalPosition),
    live: VecDeque<Live>,
    pub(super) reach: Option<ReachRecord>,
    /// A disk lacks something that another one has.
    degraded: bool,
}

/// Reads everything from `from` on. Writes nothing.
pub(super) fn survey(site: &Site, from: JournalPosition, replay: &mut Take<'_>) -> Result<Survey> {
    // Read before the slots: the recorded position only grows, even while another process writes.
    let recorded = reach::read(site)?;
    let mut damage = recorded.damage;
    let (found, ours) = find(site, &mut damage)?;
    let chain = chain(&found, from, &mut damage);
    // Ignore a record that a root has overtaken.
    let vouched = recorded.record.as_ref().filter(|r| r.reached > from);
    let (mut ended, mut last) = ((JournalPosition(0), from), None);
    let mut live = VecDeque::new();
    let mut degraded = false;
    for (slot_use, end) in chain {
        let bytes = copies_of(&slot_use)?;
        let is_missing = slot_use.file()?.whole() < site.slot_disks.len();
        let first = slot_use.header.first;
        let durable = vouched
            .filter(|r| r.first == first)
            .map_or(first, |r| r.reached);
        let walk = Walk::new(&slot_use, bytes, from, replay, &mut damage, durable);
        let walked = walk.run(end)?;
        let end = walked.at;
        degraded |= end > from.0 && (is_missing || walked.lacks);
        ended = (first, JournalPosition(end));
        if end > from.0 {
            let slot_use = Arc::clone(&slot_use);
            live.push_back(Live { slot_use, end });
        }
        if found
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, &slot_use))
        {
            last = Some((slot_use, walked));
        }
    }
    let newest = found
        .last()
        .map_or(JournalPosition(0), |last| last.header.first);
    if let Some(record) = vouched.filter(|r| r.first > newest && r.first.0 > 0) {
        let at = ended.1.max(from);
        let what =
            "flushed writes are lost: their slot is missing, or an older slot is in its place";
        damage.extend(reach::missing(record, at, what));
    } else if site.place == JournalPlace::Fast
        && recorded.record.as_ref().is_some_and(|r| r.first > newest)
    {
        // A root holds what the record vouches for. Later flushes may have followed.
        let at = ended.1.max(from);
        damage.push(JournalDamage {
            slot: None,
            at,
            end: at,
            record: None,
            found: "the device is in an earlier state: flushed writes may be lost".to_owned(),
        });
    }
    Ok(Survey {
        damage,
        found,
        ours,
        last,
        ended,
        live,
        reach: recorded.record,
        degraded,
    })
}

/// Returns readers of all copies of a slot.
fn copies_of(slot_use: &SlotUse) -> Result<Vec<SlotBytes>> {
    let copies = slot_use.file()?.copies().iter();
    copies
        .map(|file| SlotBytes::new(Arc::clone(file), WINDOW_BYTES))
        .collect()
}

pub(super) fn site(
    disks: JournalDisks,
    pool: PoolId,
    master: &MasterKey,
    seal: Seal,
    options: &JournalOptions,
) -> Result<Site> {
    let JournalOptions {
        bytes_max,
        slot_bytes,
        buffer_bytes,
    } = *options;
    if slot_bytes < SLOT_BYTES_MIN || !slot_bytes.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(invalid(
            "a slot is a multiple of 4096 bytes and at least 128 KiB",
        ));
    }
    let slots = bytes_max.checked_div(slot_bytes).unwrap_or(0);
    if !(2..=SLOTS_MAX).contains(&slots) || bytes_max > RING_BYTES_MAX {
        return Err(invalid("it has 2 to 4096 slots and at most 64 GiB"));
    }
    let opened_bytes = (buffer_bytes / OPENED).max(BUFFER_BYTES_MIN);
    let buffer_bytes = buffer_bytes.saturating_sub(opened_bytes);
    let buffer_bytes = buffer_bytes.max(BUFFER_BYTES_MIN);
    Ok(Site {
        disk: disks.media.disk,
        slot_disks: disks.slots,
        place: disks.place,
        blobs: disks.media.blobs,
        random: disks.media.random,
        pool,
        master: master.clone(),
        seal,
        slots: slots as u32,
        slot_bytes,
        batch_bytes: BATCH_BYTES_TARGET.min(buffer_bytes / 2),
        buffer_bytes,
        opened_bytes,
        inspects: false,
    })
}

/// Files of one slot.
type Copies = Vec<Arc<dyn DiskFile>>;

/// Uses that were found on the disks.
#[derive(Default)]
struct Finds {
    /// Headers and files of the copies of each use, by first position, slot and salt.
    uses: BTreeMap<(u64, u32, [u8; 32]), (SlotHeader, Copies)>,
    /// Our slots, including unused ones.
    ours: BTreeSet<u32>,
    /// Slots whose header is whole, or unused, on one of the disks.
    whole: BTreeSet<u32>,
    /// Files with a damaged header, by slot.
    damaged: BTreeMap<u32, Copies>,
    damage: Vec<JournalDamage>,
}

/// Returns all authentic uses of this pool in order of their positions, and the numbers of our
/// slots, including unused ones.
fn find(site: &Site, damage: &mut Vec<JournalDamage>) -> Result<(Vec<Arc<SlotUse>>, Vec<u32>)> {
    let mut finds = Finds::default();
    for disk in &site.slot_disks {
        find_on(site, &**disk, &mut finds)?;
    }
    let Finds {
        uses,
        ours,
        whole,
        damaged,
        damage: found_damage,
    } = finds;
    let is_lost = |d: &JournalDamage| d.slot.is_none_or(|slot| !whole.contains(&slot));
    damage.extend(found_damage.into_iter().filter(is_lost));
    let mut found = Vec::with_capacity(uses.len());
    for (header, copies) in uses.into_values() {
        // It was authentic on every disk.
        if let Some(slot_use) = SlotUse::found(header, &site.master) {
            let others = damaged.get(&slot_use.header.slot);
            let file = SlotFile::new(copies).with_damaged(others.map_or(&[], Vec::as_slice));
            let _ = slot_use.file.set(Arc::new(file));
            found.push(Arc::new(slot_use));
        }
    }
    Ok((found, ours.into_iter().collect()))
}

/// Adds what is on one disk.
fn find_on(site: &Site, disk: &dyn Disk, finds: &mut Finds) -> Result<()> {
    let entries = match disk.list(DIR) {
        Ok(entries) => entries,
        Err(e) if e.kind == MediaErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    for entry in entries {
        let slot = entry.name.parse::<u32>().ok();
        let Some(slot) = slot.filter(|n| slot_name(*n).ends_with(&format!("/{}", entry.name)))
        else {
            continue;
        };
        let file = match site.inspects {
            true => disk.open_read(&slot_name(slot))?,
            false => disk.open(&slot_name(slot), false)?,
        };
        let mut bytes = SlotBytes::new(Arc::clone(&file), BLOCK_BYTES)?;
        let page = SlotHeader::decode_page(bytes.get(0, BLOCK_BYTES)?, slot);
        let wrong = match page {
            Ok(SlotPage::Unused) if !bytes.is_unreadable(0, 1) => {
                finds.ours.insert(slot);
                finds.whole.insert(slot);
                continue;
            }
            Ok(SlotPage::Unused) => "the header cannot be read".to_owned(),
            Ok(SlotPage::Used(header, _)) if header.pool != site.pool => {
                "it belongs to another pool".to_owned()
            }
            Ok(SlotPage::Used(header, _)) if header.seal != site.seal => {
                "it is encrypted in another way than the pool".to_owned()
            }
            Ok(SlotPage::Used(header, one_copy)) => match SlotUse::found(header, &site.master) {
                None => "the seal of its header does not verify".to_owned(),
                Some(slot_use) => {
                    finds.add(slot_use.header, file, one_copy);
                    continue;
                }
            },
            Err(e) if matches!(e.fault, Fault::Version(_)) => {
                return Err(format_error(&slot_name(slot), e));
            }
            Err(e) => e.to_string(),
        };
        finds.damaged.entry(slot).or_default().push(file);
        let nowhere = JournalPosition(0);
        let damage = slot_damage(slot, (nowhere, nowhere), &wrong);
        finds.damage.push(damage);
    }
    Ok(())
}

impl Finds {
    /// Adds a copy of a use. `one_copy`: one of two copies of its header is damaged.
    fn add(&mut self, header: SlotHeader, file: Arc<dyn DiskFile>, one_copy: bool) {
        let (slot, first) = (header.slot, header.first);
        match one_copy {
            true => {
                let found = "one of two copies of the header is damaged";
                let damage = slot_damage(slot, (first, first), found);
                self.damage.push(damage);
            }
            false => drop(self.whole.insert(slot)),
        }
        self.ours.insert(slot);
        let key = (first.0, slot, header.salt);
        let (_, copies) = self.uses.entry(key).or_insert((header, Vec::new()));
        copies.push(file);
    }
}

/// Returns the uses that hold positions at or after `from`, in order, each with its end.
fn chain(
    found: &[Arc<SlotUse>],
    from: JournalPosition,
    damage: &mut Vec<JournalDamage>,
) -> VecDeque<(Arc<SlotUse>, End)> {
    let mut chain = VecDeque::new();
    let mut before = found;
    let mut end = End::Open(u64::MAX);
    while let Some((last, rest)) = before.split_last() {
        chain.push_front((Arc::clone(last), end));
        let SlotHeader {
            previous,
            continues_from,
            ..
        } = last.header;
        if continues_from <= from {
            break;
        }
        let known = rest.binary_search_by_key(&previous.0, |slot_use| slot_use.first());
        (before, end) = match known {
            Ok(at) => (rest.split_at(at + 1).0, End::Known(continues_from.0)),
            Err(at) => {
                damage.push(JournalDamage {
                    slot: None,
                    at: previous.max(from),
                    end: continues_from,
                    record: None,
                    found: "their slot is missing".to_owned(),
                });
                // Older uses may still be there, but no header says where they ended.
                (rest.split_at(at).0, End::Open(previous.0))
            }
        };
    }
    chain
}

/// Makes the tail of the last use durable by writing it again. What we read may be only in the
/// system's page cache, and the kernel may have reported a failed sync of it to another process.
///
/// A disk that lacks the use gets it whole: a crash may have come between the first writes of a use
/// to two disks, and the record of the reach will name it. Earlier uses are on both disks, unless
/// one of them was lost: the writer syncs a use before it begins the next.
fn settle(site: &Site, slot_use: &SlotUse, walked: &Ended) -> Result<()> {
    let block = BLOCK_BYTES as u64;
    let slot = slot_use.header.slot;
    let is_missing = slot_use.file()?.whole() < site.slot_disks.len();
    let (file, durable) = match is_missing {
        true => {
            name_slots(site, site.slots.max(slot.saturating_add(1)))?;
            (site.open_slot(slot)?, 0)
        }
        false => (Arc::clone(slot_use.file()?), walked.durable),
    };
    let is_header_durable = durable > slot_use.first();
    if is_header_durable && durable >= walked.at {
        return Ok(());
    }
    if !is_header_durable {
        file.write_at(0, &slot_use.header.encode_page())?;
    }
    let mut at = durable.max(slot_use.first());
    at -= at % block;
    let end = walked.at.next_multiple_of(block);
    let mut copies = copies_of(slot_use)?;
    let mut reader = SlotReader::new(slot_use, copies_of(slot_use)?);
    while at < end {
        let (copy, next) = match copies.len() {
            0 | 1 => (0, at.saturating_add(WINDOW_BYTES as u64)),
            _ => reader.best_copy(at)?,
        };
        let piece = usize::try_from(next.min(end).saturating_sub(at)).unwrap_or(usize::MAX);
        let offset = slot_use.offset(at);
        if let Some(bytes) = copies.get_mut(copy) {
            file.write_at(offset, bytes.get(offset, piece)?)?;
        }
        at = next;
    }
    file.sync(Barrier::JournalReplayBeforeUse)?;
    Ok(())
}

/// Removes slots beyond the configured number that are not needed.
fn remove_surplus(site: &Site, slots: &[u32], live: &VecDeque<Live>) {
    let is_live = |slot: &u32| live.iter().any(|l| l.slot_use.header.slot == *slot);
    for slot in slots.iter().filter(|n| **n >= site.slots && !is_live(n)) {
        for disk in &site.slot_disks {
            // A failure costs space only; the next open tries again.
            let _ = disk.remove(&slot_name(*slot));
        }
    }
}

fn slot_damage(
    slot: u32,
    (at, end): (JournalPosition, JournalPosition),
    found: &str,
) -> JournalDamage {
    JournalDamage {
        slot: Some(slot),
        at,
        end,
        record: None,
        found: found.to_owned(),
    }
}

fn invalid(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, format!("journal: {message}"))
}

//! Feeds arbitrary bytes to every decoder of the format. The seeded loops of `mutations.rs` and the
//! fuzz targets, which include this file, call this.
//!
//! Invariant of each: no panic; decoded values encode to bytes of the same meaning. A wrong
//! checksum is replaced by the right one (decoders report it) and the bytes are tried again, so
//! that mutations reach the fields behind it.

#![allow(dead_code)]

pub mod samples;

use format::bytes::{Fault, FormatError, Reader, Writer, checksum};
use format::collect::CollectRecord;
use format::config::{Config, Seal};
use format::container::{
    ContainerHeader, Directory, RegionHeader, find_region, next_region, split_region,
};
use format::damage_hints::DamageHintsRecord;
use format::defrag::DefragRecord;
use format::failed_streams::FailedStreams;
use format::host_scrub::HostScrubRecord;
use format::host_trace::HostTrace;
use format::index::{Bucket, CopyStamp, Geometry, IndexHeader, Seed, Tail};
use format::journal;
use format::journal::{BatchHeader, RecordHeader, SlotHeader, SlotPage};
use format::journal_place::JournalPlaceRecord;
use format::key_slot::KeySlot;
use format::known::KnownPool;
use format::map_node::MapNode;
use format::mirrored;
use format::moved::MovedRecord;
use format::parity::{PARITY_SECTOR_BYTES, damaged_in_section, restore};
use format::preamble::{BlobKind, Preamble};
use format::reach::ReachRecord;
use format::reader_hold::ReaderHold;
use format::recipe::{ObjectRoot, RecipeNode};
use format::reservations::ReservationsRecord;
use format::root::{RootRecord, StoredRoot};
use format::scrub::ScrubRecord;
use format::snapshot::Snapshot;
use format::tier::{BLOCK_HEADER_BYTES, BlockHeader, FrameHeader, TierEntry};
use format::trace::TraceRecord;
use format::trash_minimum::TrashMinimum;
use format::tree::Entry;
use format::volume::VolumeRecord;
use std::fmt::Debug;
use units::{ContainerId, PoolId};

/// A decoder with its checks.
pub type Decoder = fn(&[u8]);

/// All decoders, by the name of their fuzz target.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("config", config),
    ("key_slot", key_slot),
    ("root", root),
    ("mirrored", mirrored_blob),
    ("container", container),
    ("directory", directory),
    ("parity", parity),
    ("recipe_node", recipe_node),
    ("map_node", map_node),
    ("tree", tree),
    ("snapshot", snapshot),
    ("volume", volume),
    ("index_header", index_header),
    ("index_bucket", index_bucket),
    ("index_tail", index_tail),
    ("index_stamp", index_stamp),
    ("journal_slot", journal_slot),
    ("journal_record", journal_record),
    ("journal_place", journal_place),
    ("scrub", scrub),
    ("collect", collect),
    ("damage_hints", damage_hints),
    ("failed_streams", failed_streams),
    ("reader_hold", reader_hold),
    ("reach", reach),
    ("defrag", defrag),
    ("moved", moved),
    ("trace", trace),
    ("host_scrub", host_scrub),
    ("host_trace", host_trace),
    ("known", known),
    ("trash_minimum", trash_minimum),
    ("reservations", reservations),
    ("tier_block", tier_block),
];

/// The pool that bucket and tail samples belong to.
pub const POOL: PoolId = PoolId([7; 16]);

/// Asserts that `again`, from encoding and decoding `first` once more, equals `first`.
fn same<T: PartialEq + Debug>(first: &T, again: Result<T, FormatError>) {
    assert_eq!(
        again.as_ref(),
        Ok(first),
        "another meaning after a round trip"
    );
}

/// Returns the checksum that would have matched.
fn wanted_sum<T>(result: &Result<T, FormatError>) -> Option<[u8; 8]> {
    match result {
        Err(FormatError {
            fault: Fault::BadChecksum { found, .. },
            ..
        }) => Some(found.to_le_bytes()),
        _ => None,
    }
}

/// Decodes. When only the checksum at `at` is wrong, corrects it and decodes again.
fn decode_repaired<T>(
    bytes: &[u8],
    at: impl Fn(&[u8]) -> Option<usize>,
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
) -> Option<T> {
    let result = decode(bytes);
    let Some(sum) = wanted_sum(&result) else {
        return result.ok();
    };
    let mut repaired = bytes.to_vec();
    let place = repaired.get_mut(at(bytes)?..)?.first_chunk_mut::<8>()?;
    *place = sum;
    decode(&repaired).ok()
}

/// Returns the place of the checksum of a copy in the envelope of small blobs.
fn sum_of_copy(bytes: &[u8]) -> Option<usize> {
    let len = bytes.get(40..)?.first_chunk::<4>()?;
    Some(48 + u32::from_le_bytes(*len) as usize)
}

/// Decodes blob `config`.
pub fn config(bytes: &[u8]) {
    if let Some((config, _)) = decode_repaired(bytes, sum_of_copy, Config::decode) {
        same(&(config.clone(), false), Config::decode(&config.encode()));
    }
}

/// Decodes blobs `keys/*`.
pub fn key_slot(bytes: &[u8]) {
    if let Some((slot, _)) = decode_repaired(bytes, sum_of_copy, KeySlot::decode) {
        same(&(slot.clone(), false), KeySlot::decode(&slot.encode()));
        assert!(!slot.associated_data().is_empty());
    }
}

/// Decodes blobs `roots/*`, and the record inside.
pub fn root(bytes: &[u8]) {
    if let Some((root, _)) = decode_repaired(bytes, sum_of_copy, StoredRoot::decode) {
        same(&(root.clone(), false), StoredRoot::decode(&root.encode()));
        if let Ok(record) = RootRecord::decode(&root.body) {
            same(&record, RootRecord::decode(&record.encode()));
        }
    }
    if let Ok(record) = RootRecord::decode(bytes) {
        same(&record, RootRecord::decode(&record.encode()));
    }
}

/// Decodes the envelope of the three above, with any preamble.
pub fn mirrored_blob(bytes: &[u8]) {
    let _ = Preamble::decode(bytes);
    let decode = |bytes: &[u8]| mirrored::decode("root", BlobKind::Root, 1, bytes);
    if let Some(copy) = decode_repaired(bytes, sum_of_copy, decode) {
        let again = mirrored::encode(BlobKind::Root, 1, copy.pool, copy.slot, &copy.payload);
        let sound = mirrored::Mirrored {
            damaged: false,
            ..copy
        };
        same(&sound, decode(&again));
    }
}

/// Restores a container with parity. The result must be whole, and restore to itself. Checksums in
/// its sectors of checksums are corrected, so that any shape is accepted.
pub fn parity(bytes: &[u8]) {
    const SUM_AT: usize = PARITY_SECTOR_BYTES - 512 - 8;
    let pool = POOL;
    let id = samples::parity_id();
    let mut forged = bytes.to_vec();
    for sector in forged.chunks_exact_mut(PARITY_SECTOR_BYTES) {
        let is_table = Preamble::decode(sector).is_ok_and(|p| p.kind == BlobKind::Parity as u16);
        if is_table && let Some((covered, rest)) = sector.split_at_mut_checked(SUM_AT) {
            let sum = checksum(BlobKind::Parity.seed(), covered).to_le_bytes();
            rest[..8].copy_from_slice(&sum);
        }
    }
    for blob in [bytes, &forged] {
        let all = &|_| true;
        if let Ok(restored) = restore(pool, id, blob, all) {
            let again = restore(pool, id, &restored.blob, all).expect("it is whole");
            assert!(again.damaged == 0 && again.blob == restored.blob);
        }
        let _ = restore(pool, id, blob, &|sector| sector % 3 != 0);
        if let Ok(header) = ContainerHeader::decode(blob, false)
            && let Some(shape) = header.parity
        {
            let section = blob.get(shape.section_at()..).unwrap_or_default();
            damaged_in_section(pool, id, shape, section);
        }
    }
}

/// Decodes header and footer of a container, a region's header, and the split of a raw region.
pub fn container(bytes: &[u8]) {
    for footer in [false, true] {
        let decode = |bytes: &[u8]| ContainerHeader::decode(bytes, footer);
        if let Some(header) = decode_repaired(bytes, |_| Some(504), decode) {
            same(&header, decode(&header.encode(footer)));
        }
    }
    if let Some(header) = decode_repaired(bytes, |_| Some(40), RegionHeader::decode) {
        same(&header, RegionHeader::decode(&header.encode()));
        assert!(header.region_bytes() > 0);
        assert_eq!(header.associated_data().len(), 32);
        let _ = header.verify_payload(bytes);
        // The same header, somewhere in a sector.
        let within = header.raw_bytes as usize % 64 * 8;
        let mut sector = vec![0x51; within];
        sector.extend_from_slice(&header.encode());
        let (at, found) = find_region(&sector, header.container).expect("it is there");
        assert!(at <= within);
        let next = next_region(&sector, header.container, at, at + found.region_bytes());
        assert!(next > at);
    }
    let _ = find_region(bytes, ContainerId(1));
    let mut r = Reader::new("test", bytes);
    if let Ok(count) = r.u32()
        && let Ok((data, lengths)) = split_region(r.rest(), count)
    {
        let total: u64 = lengths.iter().map(|len| u64::from(*len)).sum();
        assert_eq!(total, data.len() as u64);
    }
}

/// Decodes a raw directory.
pub fn directory(bytes: &[u8]) {
    if let Ok(directory) = Directory::decode(bytes) {
        same(&directory, Directory::decode(&directory.encode()));
        assert_eq!(directory.encode(), bytes, "one encoding for one directory");
    }
}

/// Decodes a recipe node, and an object's root.
pub fn recipe_node(bytes: &[u8]) {
    if let Ok(node) = RecipeNode::decode(bytes) {
        same(&node, RecipeNode::decode(&node.encode()));
        assert_eq!(node.encode(), bytes, "one encoding for one node");
    }
    let mut r = Reader::new("test", bytes);
    if let Ok(root) = ObjectRoot::decode(&mut r) {
        let mut w = Writer::new();
        root.encode(&mut w);
        same(&root, ObjectRoot::decode(&mut Reader::new("test", &w.0)));
    }
}

/// Decodes a node of the catalog.
pub fn map_node(bytes: &[u8]) {
    if let Ok(node) = MapNode::decode(bytes) {
        same(&node, MapNode::decode(&node.encode()));
    }
}

/// Decodes a directory object.
pub fn tree(bytes: &[u8]) {
    if let Ok(entries) = Entry::decode_directory(bytes) {
        same(
            &entries,
            Entry::decode_directory(&Entry::encode_directory(&entries)),
        );
    }
    let mut r = Reader::new("test", bytes);
    while let Ok(Some(entry)) = Entry::decode_next(&mut r) {
        let mut again = Vec::new();
        entry.encode(&mut again);
        same(
            &Some(entry),
            Entry::decode_next(&mut Reader::new("test", &again)),
        );
    }
}

/// Decodes a catalog entry: 25 bytes of key, then the value.
pub fn snapshot(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(25));
    if let Ok(snapshot) = Snapshot::decode(key, value) {
        assert_eq!(snapshot.key(), key);
        same(&snapshot, Snapshot::decode(key, &snapshot.encode()));
    }
}

/// Decodes a catalog entry: four bytes of key, then the value.
pub fn volume(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(4));
    if let Ok(volume) = VolumeRecord::decode(key, value) {
        assert_eq!(volume.key(), key);
        same(&volume, VolumeRecord::decode(key, &volume.encode()));
    }
}

/// Decodes both header slots of the index.
pub fn index_header(bytes: &[u8]) {
    if let Some(header) = decode_repaired(bytes, |_| Some(504), IndexHeader::decode) {
        same(&header, IndexHeader::decode(&header.encode()));
        assert!(header.geometry.capacity() >= header.entries);
        let _ = (header.geometry.tail_offset(), header.slot_offset());
        let _ = Tail::bytes_announced(&header);
    }
    let (one, other) = bytes.split_at(bytes.len().min(512));
    let _ = IndexHeader::newest([one, other]);
}

/// Decodes the stamp of an index copy.
pub fn index_stamp(bytes: &[u8]) {
    if let Some(stamp) = decode_repaired(bytes, |_| Some(520), CopyStamp::decode) {
        same(&stamp, CopyStamp::decode(&stamp.encode()));
        assert!(stamp.header.clean && stamp.buckets <= stamp.header.geometry.buckets());
    }
}

/// Decodes a bucket of the index: number in the first byte, then the page.
pub fn index_bucket(bytes: &[u8]) {
    let Some((number, page)) = bytes.split_first() else {
        return;
    };
    let seed = Seed::new(&POOL, Geometry::first(6));
    let number = u64::from(*number);
    let decode = |page: &[u8]| Bucket::decode(page, seed, number);
    if let Some(bucket) = decode_repaired(page, |_| Some(0), decode) {
        let entries: Vec<_> = bucket.iter().collect();
        assert_eq!(entries.len(), bucket.len());
        for (rest, place) in &entries {
            let mut found = false;
            bucket.find(*rest, |other| found |= other == *place);
            assert!(found, "an entry that a search does not find");
        }
        let again = decode(&bucket.encode(seed, number)).expect("what was encoded");
        assert!(again.iter().eq(entries));
    }
}

/// Decodes the tail of the index: three counts of four bytes, then the records.
pub fn index_tail(bytes: &[u8]) {
    let mut r = Reader::new("test", bytes);
    let mut header = samples::index_header();
    let (Ok(coverage), Ok(runs), Ok(overflow)) = (r.u32(), r.u32(), r.u32()) else {
        return;
    };
    (header.coverage, header.runs, header.overflow) = (coverage, runs, overflow);
    let seed = Seed::new(&POOL, header.geometry);
    let result = Tail::decode(r.rest(), &header, seed);
    if let Some(sum) = wanted_sum(&result) {
        header.tail_checksum = u64::from_le_bytes(sum);
    }
    if let Ok(tail) = Tail::decode(r.rest(), &header, seed) {
        let again = tail.encode(&mut header, seed).expect("counts that fitted");
        same(&tail, Tail::decode(&again, &header, seed));
    }
}

/// Decodes the header page of a journal slot.
pub fn journal_slot(bytes: &[u8]) {
    let decode = |page: &[u8]| SlotHeader::decode_page(page, samples::JOURNAL_SLOT);
    if let Some(SlotPage::Used(header, _)) = decode_repaired(bytes, |_| Some(504), decode) {
        assert!(header.limit() > header.first && header.continues_from <= header.first);
        let sound = SlotPage::Used(header.clone(), false);
        same(&sound, decode(&header.encode_page()));
    }
}

/// Decodes headers of records and batches in a journal slot, at one position.
pub fn journal_record(bytes: &[u8]) {
    let seed = journal::Seed::new(&POOL, &[2; 32]);
    let at = samples::JOURNAL_AT;
    let decode = |bytes: &[u8]| RecordHeader::decode(bytes, seed, at);
    if let Some(header) = decode_repaired(bytes, |_| Some(56), decode) {
        same(&header, decode(&header.encode(seed, at)));
        for seal in [Seal::None, Seal::Aes256Gcm] {
            assert!(header.record_bytes(seal) <= 2 * journal::RECORD_DATA_BYTES_MAX);
        }
        let _ = header.verify_data(bytes);
    }
    let decode = |bytes: &[u8]| BatchHeader::decode(bytes, seed, at);
    if let Some(header) = decode_repaired(bytes, |_| Some(56), decode) {
        same(&header, decode(&header.encode(seed)));
        assert!(header.batch_bytes() <= journal::BATCH_BYTES_MAX);
    }
}

/// Defines the decoders of records that end with their checksum.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident: $record:ty,)*) => {$(
        $(#[$doc])*
        pub fn $name(bytes: &[u8]) {
            let decode = |bytes: &[u8]| <$record>::decode(bytes, POOL);
            let sum_at = |bytes: &[u8]| bytes.len().checked_sub(8);
            if let Some(record) = decode_repaired(bytes, sum_at, decode) {
                same(&record, decode(&record.encode(POOL)));
            }
        }
    )*};
}

records! {
    /// Decodes slots of a scrub's record.
    scrub: ScrubRecord,
    /// Decodes slots of the record of garbage collections.
    collect: CollectRecord,
    /// Decodes slots of damage hints.
    damage_hints: DamageHintsRecord,
    /// Decodes the record of streams that failed.
    failed_streams: FailedStreams,
    /// Decodes a reader's hold.
    reader_hold: ReaderHold,
    /// Decodes records of the journal's place.
    journal_place: JournalPlaceRecord,
    /// Decodes records of the journal's reach.
    reach: ReachRecord,
    /// Decodes slots of a defragmentation's record.
    defrag: DefragRecord,
    /// Decodes the set of moved chunks.
    moved: MovedRecord,
    /// Decodes slots of a trace.
    trace: TraceRecord,
}

/// Decodes the minimum trash period.
pub fn trash_minimum(bytes: &[u8]) {
    if let Ok(minimum) = TrashMinimum::decode(bytes) {
        same(&minimum, TrashMinimum::decode(&minimum.encode()));
    }
}

/// Decodes the persistent reservations of a volume.
pub fn reservations(bytes: &[u8]) {
    if let Ok(record) = ReservationsRecord::decode(bytes) {
        same(&record, ReservationsRecord::decode(&record.encode()));
    }
}

/// Decodes a user's record of a pool.
pub fn known(bytes: &[u8]) {
    let sum_at = |bytes: &[u8]| bytes.len().checked_sub(8);
    if let Some(known) = decode_repaired(bytes, sum_at, KnownPool::decode) {
        same(&known, KnownPool::decode(&known.encode()));
    }
}

/// Decodes the progress of a scrub of a host's files.
pub fn host_scrub(bytes: &[u8]) {
    let decode = |bytes: &[u8]| HostScrubRecord::decode(bytes, POOL);
    let sum_at = |bytes: &[u8]| bytes.len().checked_sub(8);
    if let Some(record) = decode_repaired(bytes, sum_at, decode) {
        same(&record, decode(&record.encode()));
    }
}

/// Decodes the trace of a host.
pub fn host_trace(bytes: &[u8]) {
    let sum_at = |bytes: &[u8]| bytes.len().checked_sub(8);
    if let Some(trace) = decode_repaired(bytes, sum_at, HostTrace::decode) {
        same(&trace, HostTrace::decode(&trace.encode()));
    }
}

/// Decodes a cache block of the fast tier: header, directory, and each frame.
pub fn tier_block(bytes: &[u8]) {
    let decode = |bytes: &[u8]| BlockHeader::decode(bytes, POOL, 4, 1 << 20);
    if let Some(header) = decode_repaired(bytes, |_| Some(BLOCK_HEADER_BYTES - 8), decode) {
        same(&header, decode(&header.encode()));
        assert_eq!(header.bound().len() + 24, BLOCK_HEADER_BYTES);
        let end = BLOCK_HEADER_BYTES + header.directory_bytes();
        let directory = bytes.get(BLOCK_HEADER_BYTES..end).unwrap_or_default();
        for entry in TierEntry::decode_all(directory, &header).unwrap_or_default() {
            assert!(entry.offset < header.used_bytes && entry.payload_bytes < header.used_bytes);
        }
        let frames = header.frames_at() as usize;
        tier_frame(bytes.get(frames..).unwrap_or_default());
    }
    tier_frame(bytes);
}

fn tier_frame(bytes: &[u8]) {
    if let Ok((header, payload, _)) = FrameHeader::split(bytes) {
        assert_eq!(payload.len(), header.payload_bytes as usize);
    }
}

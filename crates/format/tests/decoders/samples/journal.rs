//! Provides samples of the journal: header pages, headers of batches and records.

use super::POOL;
use format::config::Seal;
use format::journal::{BatchHeader, RecordHeader, RecordKind, Seed, SlotHeader};
use units::{JournalPosition, VolumeId};

/// Number of the slot whose header page is a sample.
pub const JOURNAL_SLOT: u32 = 3;
/// Position of the batch and of the records.
pub const JOURNAL_AT: JournalPosition = JournalPosition((1 << 37) + 8192);

/// Returns pages of a slot with and without encryption, and of one that was never used.
pub fn pages() -> Vec<Vec<u8>> {
    let page = |seal, tag| {
        let header = SlotHeader {
            pool: POOL,
            slot: JOURNAL_SLOT,
            seal,
            first: JournalPosition(2 << 37),
            slot_bytes: 1 << 20,
            previous: JournalPosition(1 << 37),
            continues_from: JOURNAL_AT,
            salt: [2; 32],
            tag: [tag; 16],
        };
        header.encode_page()
    };
    vec![page(Seal::None, 0), page(Seal::Aes256Gcm, 7), vec![0; 4096]]
}

/// Returns a batch and a record of each kind.
pub fn headers() -> Vec<Vec<u8>> {
    let seed = Seed::new(&POOL, &[2; 32]);
    let record = |kind, data_bytes, len| {
        let header = RecordHeader {
            kind,
            data_bytes,
            volume: VolumeId([4; 16]),
            start: 1 << 30,
            len,
            data_checksum: 5,
        };
        header.encode(seed, JOURNAL_AT).to_vec()
    };
    let batch = BatchHeader {
        used_bytes: 4240,
        at: JOURNAL_AT,
        durable: JournalPosition(1 << 37),
    };
    vec![
        batch.encode(seed).to_vec(),
        record(RecordKind::Write, 4096, 4096),
        record(RecordKind::Zero, 0, 1 << 20),
        record(RecordKind::Chunks, 96, 3),
    ]
}

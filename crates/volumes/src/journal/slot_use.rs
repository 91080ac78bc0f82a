//! One use of a slot: its header, its key, its file.
//!
//! Invariant: the salt is random, so a key belongs to one use for ever and a position, the nonce,
//! seals at most once under it. Called by all of the journal.

use super::touched::Touched;
use chunk_store::superblock::MasterKey;
use chunking::SealKey;
use format::journal::{BLOCK_BYTES, RecordHeader, Seed, SlotHeader};
use format::reach::ReachRange;
use media::DiskFile;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use store::{Result, StoreError};
use units::JournalPosition;

/// Seals the header; no position reaches it.
const HEADER_NONCE: [u8; 12] = [0xff; 12];

/// One use of a slot.
pub(super) struct SlotUse {
    /// As stored in its first page.
    pub(super) header: SlotHeader,
    /// Seeds the checksums of its records.
    pub(super) seed: Seed,
    /// Seals its records.
    pub(super) key: Option<SealKey>,
    /// Its file, known before anything of it is on the device.
    pub(super) file: OnceLock<Arc<dyn DiskFile>>,
    /// Who was written in it by this process.
    touched: Mutex<Touched>,
}

impl SlotUse {
    /// A new use; `header` has a fresh salt and no tag yet.
    pub(super) fn new(mut header: SlotHeader, master: &MasterKey) -> Self {
        let key = key_of(&header, master);
        if let Some(key) = &key {
            header.tag = key.seal_in_place(HEADER_NONCE, &header.associated_data(), &mut []);
        }
        Self::with(header, key)
    }

    /// A use that was found; `None` when its header is not authentic.
    pub(super) fn found(header: SlotHeader, master: &MasterKey) -> Option<Self> {
        let key = key_of(&header, master);
        if let Some(key) = &key {
            let mut tag = header.tag;
            key.open_in_place(HEADER_NONCE, &header.associated_data(), &mut tag)?;
        }
        Some(Self::with(header, key))
    }

    fn with(header: SlotHeader, key: Option<SealKey>) -> Self {
        Self {
            seed: Seed::new(&header.pool, &header.salt),
            key,
            header,
            file: OnceLock::new(),
            touched: Mutex::default(),
        }
    }

    /// A record is appended.
    pub(super) fn note(&self, header: &RecordHeader) {
        self.touched.lock().note(header);
    }

    /// Volumes that were written in it, and whether there are more.
    pub(super) fn volumes(&self) -> (Vec<ReachRange>, bool) {
        self.touched.lock().get()
    }

    /// Position of its first batch.
    pub(super) fn first(&self) -> u64 {
        self.header.first.0
    }

    /// The position after its last byte.
    pub(super) fn limit(&self) -> u64 {
        self.header.limit().0
    }

    /// Where a position lies in the file.
    pub(super) fn offset(&self, at: u64) -> u64 {
        at.saturating_sub(self.first()) + BLOCK_BYTES as u64
    }

    /// Checks and opens the stored data of a record, in place. `Err` says what is wrong with it.
    pub(super) fn open<'a>(
        &self,
        at: JournalPosition,
        header: &RecordHeader,
        stored: &'a mut [u8],
    ) -> std::result::Result<&'a [u8], Unsound> {
        header.verify_data(stored).map_err(Unsound::Checksum)?;
        match &self.key {
            None => Ok(stored),
            Some(key) => key
                .open_in_place(nonce(at), &header.associated_data(), stored)
                .ok_or(Unsound::Seal),
        }
    }

    /// The file, which is there for whatever was written or found.
    pub(super) fn file(&self) -> Result<&Arc<dyn DiskFile>> {
        let missing = || StoreError::corruption("journal", self.name(), "has no file");
        self.file.get().ok_or_else(missing)
    }

    /// Name of its file.
    pub(super) fn name(&self) -> String {
        slot_name(self.header.slot)
    }
}

/// What is wrong with a record's data.
pub(super) enum Unsound {
    /// It is not what was written.
    Checksum(format::bytes::FormatError),
    /// It was not written by anybody who has the key.
    Seal,
}

impl std::fmt::Display for Unsound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Checksum(e) => e.fmt(f),
            Self::Seal => f.write_str("the seal does not open"),
        }
    }
}

fn key_of(header: &SlotHeader, master: &MasterKey) -> Option<SealKey> {
    master.journal_key(header.seal, &header.salt)
}

/// The nonce of a record: its position, which no two records share.
pub(super) fn nonce(at: JournalPosition) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&at.0.to_le_bytes());
    nonce
}

/// Directory of the slots.
pub(super) const DIR: &str = "journal";

/// Name of a slot's file.
pub(super) fn slot_name(slot: u32) -> String {
    format!("{DIR}/{slot:02}")
}

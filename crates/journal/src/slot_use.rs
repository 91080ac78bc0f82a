//! One use of a slot: its header, key and file.
//!
//! All parts of the journal use this.
//! Invariant: the salt is random, so a key belongs to one use only. A position is the nonce and
//! seals at most one record under it.

use super::slot_file::SlotFile;
use super::touched::Touched;
use chunk_store::superblock::MasterKey;
use chunk_store::{Result, StoreError};
use chunking::SealKey;
use format::journal::{BLOCK_BYTES, RecordHeader, Seed, SlotHeader};
use format::reach::ReachRange;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use units::JournalPosition;

/// Nonce that seals the header; no position reaches it.
const HEADER_NONCE: [u8; 12] = [0xff; 12];

/// One use of a slot.
pub(super) struct SlotUse {
    /// Header as stored in the slot's first page.
    pub(super) header: SlotHeader,
    /// Seed of the records' checksums.
    pub(super) seed: Seed,
    /// Key that seals the records.
    pub(super) key: Option<SealKey>,
    /// File of the slot; set before anything of the use is on the device.
    pub(super) file: OnceLock<Arc<SlotFile>>,
    /// Volumes with records of this process in the use.
    touched: Mutex<Touched>,
}

impl SlotUse {
    /// Creates a new use. `header` has a fresh salt and no tag yet.
    pub(super) fn new(mut header: SlotHeader, master: &MasterKey) -> Self {
        let key = key_of(&header, master);
        if let Some(key) = &key {
            header.tag = key.seal_in_place(HEADER_NONCE, &header.associated_data(), &mut []);
        }
        Self::with(header, key)
    }

    /// Creates a use from a stored header; `None` if the header is not authentic.
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

    /// Notes which volume a record belongs to.
    pub(super) fn note(&self, header: &RecordHeader) {
        self.touched.lock().note(header);
    }

    /// Returns the volumes with records in the use, and whether there are more.
    pub(super) fn volumes(&self) -> (Vec<ReachRange>, bool) {
        self.touched.lock().get()
    }

    /// Returns the position of the first batch.
    pub(super) fn first(&self) -> u64 {
        self.header.first.0
    }

    /// Returns the position after the last byte.
    pub(super) fn limit(&self) -> u64 {
        self.header.limit().0
    }

    /// Returns the offset of a position in the file.
    pub(super) fn offset(&self, at: u64) -> u64 {
        at.saturating_sub(self.first()) + BLOCK_BYTES as u64
    }

    /// Verifies and decrypts the stored data of a record, in place.
    pub(super) fn open<'a>(
        &self,
        at: JournalPosition,
        header: &RecordHeader,
        stored: &'a mut [u8],
    ) -> std::result::Result<&'a [u8], Unsound> {
        header.verify_data(stored).map_err(Unsound::Checksum)?;
        match &self.key {
            None => Ok(stored),
            Some(key) => {
                let opened = key.open_in_place(nonce(at), &header.associated_data(), stored);
                opened.map(|data| &*data).ok_or(Unsound::Seal)
            }
        }
    }

    /// Returns the file. It is set for every use that was written or found.
    pub(super) fn file(&self) -> Result<&Arc<SlotFile>> {
        let missing = || StoreError::corruption("journal", self.name(), "it has no file");
        self.file.get().ok_or_else(missing)
    }

    /// Returns the name of the file.
    pub(super) fn name(&self) -> String {
        slot_name(self.header.slot)
    }
}

/// Why a record's data is not valid.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsound {
    /// The bytes are not those that were written.
    #[error(transparent)]
    Checksum(format::bytes::FormatError),
    /// The bytes were written without the key.
    #[error("the seal does not verify")]
    Seal,
}

fn key_of(header: &SlotHeader, master: &MasterKey) -> Option<SealKey> {
    master.journal_key(header.seal, &header.salt)
}

/// Returns the nonce of a record: its position, which is unique.
pub(super) fn nonce(at: JournalPosition) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&at.0.to_le_bytes());
    nonce
}

/// Directory of the slots.
pub(super) const DIR: &str = "journal";

/// Returns the name of a slot's file.
pub(super) fn slot_name(slot: u32) -> String {
    format!("{DIR}/{slot:02}")
}

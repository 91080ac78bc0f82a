//! Where the files of a journal are: which disks have the slots, beside the pool's own disk.
//!
//! Volumes make this, from the record of the journal's place; opening and inspecting take it.
//! Invariant: at least one disk has slots. The record of the reach is always on the pool's disk, so
//! that it survives the loss of the others.

use format::journal_place::JournalPlace;
use media::{Disk, Media};
use std::sync::Arc;

/// Disks of a journal. See the module's head.
#[derive(Clone)]
pub struct JournalDisks {
    /// Of the pool: has the record of the reach.
    pub(crate) media: Media,
    /// Have the slots, all of them the same. The first is read first.
    pub(crate) slots: Vec<Arc<dyn Disk>>,
    /// Which disks these are.
    pub(crate) place: JournalPlace,
}

impl JournalDisks {
    /// The pool's own disk has the slots.
    pub fn pool(media: &Media) -> Self {
        Self {
            media: media.clone(),
            slots: Vec::from([Arc::clone(&media.disk)]),
            place: JournalPlace::Pool,
        }
    }

    /// Only `fast` has the slots.
    pub fn fast(media: &Media, fast: Arc<dyn Disk>) -> Self {
        Self {
            media: media.clone(),
            slots: Vec::from([fast]),
            place: JournalPlace::Fast,
        }
    }

    /// `fast` and the pool's own disk have the slots: each is written and synced on both.
    pub fn mirrored(media: &Media, fast: Arc<dyn Disk>) -> Self {
        Self {
            media: media.clone(),
            slots: Vec::from([fast, Arc::clone(&media.disk)]),
            place: JournalPlace::Mirrored,
        }
    }
}

impl From<&Media> for JournalDisks {
    fn from(media: &Media) -> Self {
        Self::pool(media)
    }
}

//! Defines a dirty page in its slot. `shard` and `lists` use it.
//!
//! Invariant: a slot has 40 bytes. Class and neighbours lie where there was nothing.

use crate::extent::Run;
use std::sync::Arc;
use units::IoClass;

/// Bits of a page's number that count within a shard.
pub(super) const SLOT_BITS: u32 = 24;
/// A page, in exactly this version.
pub(super) struct Page {
    pub object: u64,
    pub page: u64,
    pub version: u64,
    /// `None` in a free slot; then `page` is the next free one.
    pub run: Option<Arc<Run>>,
    pub used: bool,
    /// Class of the write.
    pub class: IoClass,
    /// Without meaning while the shard has no lists.
    pub links: Links,
}

const _: () = assert!(size_of::<Page>() == 40);

/// A slot number in three bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot([u8; 3]);

const _: () = assert!(SLOT_BITS == 24);

impl Slot {
    pub fn of(id: u32) -> Self {
        let [a, b, c, _] = id.to_le_bytes();
        Self([a, b, c])
    }

    pub fn id(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_le_bytes([a, b, c, 0])
    }
}

/// Neighbours of a page in its list.
#[derive(Clone, Copy)]
pub(super) struct Links {
    pub older: Slot,
    pub newer: Slot,
}

impl Links {
    pub const NONE: Self = Self {
        older: Slot([0xff; 3]),
        newer: Slot([0xff; 3]),
    };
}

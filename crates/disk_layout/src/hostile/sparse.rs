//! A disk of zeroes, of what was written to it, and of a tile that repeats.
//!
//! Invariant: whole pages only; reading past the end or in a damaged range fails.

use crate::source::{Unreadable, VolumeSource};
use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 4096;

/// See the module.
#[derive(Clone, Default)]
pub struct Sparse {
    /// Size, bytes.
    pub size_bytes: u64,
    /// Bytes that cannot be read.
    pub damage: Option<Range<u64>>,
    pages: BTreeMap<u64, Vec<u8>>,
    /// Pages that appear every so many pages.
    tile: Option<(u64, BTreeMap<u64, Vec<u8>>)>,
}

fn put(pages: &mut BTreeMap<u64, Vec<u8>>, offset_bytes: u64, bytes: &[u8]) {
    let mut at = offset_bytes;
    let mut rest = bytes;
    while !rest.is_empty() {
        let inside = (at % PAGE) as usize;
        let (now, later) = rest.split_at(rest.len().min(PAGE as usize - inside));
        let page = pages.entry(at / PAGE);
        let page = page.or_insert_with(|| vec![0; PAGE as usize]);
        for (to, from) in page.iter_mut().skip(inside).zip(now) {
            *to = *from;
        }
        at = at.saturating_add(now.len() as u64);
        rest = later;
    }
}

impl Sparse {
    /// All zeroes.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            ..Self::default()
        }
    }

    /// Writes bytes.
    pub fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        put(&mut self.pages, offset_bytes, bytes);
    }

    /// Writes bytes that appear again every `every_bytes`, wherever nothing else was written.
    pub fn tile(&mut self, every_bytes: u64, offset_bytes: u64, bytes: &[u8]) {
        let (_, pages) = self
            .tile
            .get_or_insert_with(|| ((every_bytes / PAGE).max(1), BTreeMap::new()));
        put(pages, offset_bytes, bytes);
    }

    /// Offsets of pages that are not zero, as many as there are of one kind each.
    pub fn pages(&self) -> Vec<u64> {
        let tile = self.tile.iter().flat_map(|(_, pages)| pages.keys());
        self.pages
            .keys()
            .chain(tile)
            .map(|page| page * PAGE)
            .collect()
    }

    /// Offsets and bytes of pages that are not zero; at most `repeats` times what repeats.
    pub fn contents(&self, repeats: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let own = self.pages.keys().copied();
        let tile = self.tile.iter().flat_map(move |(every, pages)| {
            let places = pages.keys();
            places.flat_map(move |at| (0..repeats).map(move |n| n.saturating_mul(*every) + at))
        });
        let end = self.size_bytes / PAGE;
        let all = own.chain(tile).filter(move |number| *number < end);
        all.filter_map(|number| Some((number * PAGE, self.page(number)?.as_slice())))
    }

    fn page(&self, number: u64) -> Option<&Vec<u8>> {
        let tiled = || {
            let (every, pages) = self.tile.as_ref()?;
            pages.get(&(number % every))
        };
        self.pages.get(&number).or_else(tiled)
    }
}

impl VolumeSource for Sparse {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        let end = offset_bytes
            .checked_add(bytes.len() as u64)
            .ok_or(Unreadable)?;
        let hits = |damage: &Range<u64>| offset_bytes < damage.end && damage.start < end;
        if end > self.size_bytes || self.damage.as_ref().is_some_and(hits) {
            return Err(Unreadable);
        }
        let mut at = offset_bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            let inside = (at % PAGE) as usize;
            let len = rest.len().min(PAGE as usize - inside);
            let (now, later) = rest.split_at_mut(len);
            match self.page(at / PAGE) {
                Some(page) => {
                    now.copy_from_slice(page.get(inside..inside + len).ok_or(Unreadable)?)
                }
                None => now.fill(0),
            }
            at = at.saturating_add(len as u64);
            rest = later;
        }
        Ok(())
    }
}

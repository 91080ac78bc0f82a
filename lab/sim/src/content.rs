//! The bytes of one simulated file: copies share pages, and hashes are computed once. `image`,
//! `file` and the crash model use it.
//!
//! Invariant: bytes past the length are zero within the last page and absent beyond it, so that
//! growing shows zeroes. Equal bytes have equal hashes, whatever produced them.

use crate::seed::mix;
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_64;

const PAGE: usize = 4096;
/// The unit that a disk writes completely or not at all.
pub(crate) const SECTOR: u64 = 512;
/// Longest file: bounds the page table for a wild offset.
pub(crate) const LEN_MAX: u64 = 4 << 30;

#[derive(Clone, Debug)]
struct Page {
    bytes: [u8; PAGE],
    hash: OnceLock<u64>,
}

static ZERO_PAGE: [u8; PAGE] = [0; PAGE];

impl Page {
    fn zero() -> Arc<Self> {
        Arc::new(Self {
            bytes: ZERO_PAGE,
            hash: OnceLock::new(),
        })
    }
}

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    len: u64,
    pages: Vec<Option<Arc<Page>>>,
    hash: OnceLock<u64>,
}

impl Content {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns false if the range ends past the end of the file.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        match offset.checked_add(into.len() as u64) {
            Some(end) if end <= self.len => {}
            _ => return into.is_empty(),
        }
        let mut at = offset as usize;
        let mut rest = into;
        while !rest.is_empty() {
            let within = at % PAGE;
            let (piece, after) = rest.split_at_mut(rest.len().min(PAGE - within));
            match &self.pages[at / PAGE] {
                Some(page) => piece.copy_from_slice(&page.bytes[within..within + piece.len()]),
                None => piece.fill(0),
            }
            at += piece.len();
            rest = after;
        }
        true
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Writes, growing the file. The caller has checked [`LEN_MAX`].
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.hash.take();
        self.grow(offset + data.len() as u64);
        let mut at = offset as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let within = at % PAGE;
            let (piece, after) = rest.split_at(rest.len().min(PAGE - within));
            let page = Arc::make_mut(self.pages[at / PAGE].get_or_insert_with(Page::zero));
            page.hash.take();
            page.bytes[within..within + piece.len()].copy_from_slice(piece);
            at += piece.len();
            rest = after;
        }
    }

    /// Truncates, or grows with zeroes.
    pub(crate) fn set_len(&mut self, len: u64) {
        self.hash.take();
        if len >= self.len {
            return self.grow(len);
        }
        self.len = len;
        self.pages.truncate((len as usize).div_ceil(PAGE));
        let within = len as usize % PAGE;
        if within > 0
            && let Some(Some(page)) = self.pages.last_mut()
        {
            let page = Arc::make_mut(page);
            page.hash.take();
            page.bytes[within..].fill(0);
        }
    }

    /// Grows to at least `len`.
    pub(crate) fn grow(&mut self, len: u64) {
        if len > self.len {
            self.hash.take();
            self.len = len;
            self.pages.resize((len as usize).div_ceil(PAGE), None);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            self.pages.iter().fold(self.len, |hash, page| {
                let page = page.as_ref().map_or_else(zero_hash, |page| {
                    *page.hash.get_or_init(|| xxh3_64(&page.bytes))
                });
                mix(hash, page)
            })
        })
    }
}

fn zero_hash() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| xxh3_64(&ZERO_PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_and_growing_shows_zeroes() {
        let mut content = Content::from_bytes(&[7; 5000]);
        content.set_len(4100);
        content.set_len(5000);
        let mut expected = vec![7; 4100];
        expected.resize(5000, 0);
        assert_eq!(content.to_vec(), expected);
        assert_eq!(content.hash(), Content::from_bytes(&expected).hash());
        assert!(!content.read(4999, &mut [0; 2]));
    }

    #[test]
    fn copies_share_and_differ() {
        let old = Content::from_bytes(&[1; 9000]);
        let mut new = old.clone();
        new.write(4095, &[2; 2]);
        assert_eq!(old.to_vec(), [1; 9000]);
        assert_ne!(old.hash(), new.hash());
        new.write(4095, &[1; 2]);
        assert_eq!(old.hash(), new.hash());
    }

    #[test]
    fn a_hole_equals_zeroes() {
        let mut hole = Content::default();
        hole.set_len(8192);
        assert_eq!(hole.hash(), Content::from_bytes(&[0; 8192]).hash());
    }
}

//! Provides helpers for the tests of this crate: contents that identify themselves, and a listener
//! that refuses impossible events.
#![allow(dead_code, reason = "each test uses some of it")]

use page_cache::{NoEvents, PageCache, PageCacheOptions, PageEvents, Place, S3Fifo};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use units::Fingerprint;

/// Numbers from a seed (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns distinct fingerprints for distinct numbers.
pub fn fingerprint(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (word, salt) in bytes.chunks_exact_mut(8).zip(1u64..) {
        word.copy_from_slice(&mix(n.wrapping_mul(5).wrapping_add(salt)).to_le_bytes());
    }
    Fingerprint(bytes)
}

/// Returns unique bytes: `n` and their own length, over and over.
pub fn content(n: u64, len: usize) -> Vec<u8> {
    let word = mix(n ^ (len as u64) << 40).to_le_bytes();
    word.iter().copied().cycle().take(len).collect()
}

/// Returns the content of a dirty page.
pub fn page(object: u64, page: u64, version: u64) -> [u8; 4096] {
    let word = mix(mix(mix(object) ^ page) ^ version).to_le_bytes();
    let mut bytes = [0; 4096];
    bytes
        .chunks_exact_mut(8)
        .for_each(|c| c.copy_from_slice(&word));
    bytes
}

/// Replays events: it holds the contents of memory according to them.
#[derive(Default)]
pub struct Recorder {
    pub places: Mutex<HashSet<Place>>,
    pub pages: Mutex<HashSet<(u64, u64)>>,
}

impl PageEvents for Recorder {
    fn added(&self, place: Place) {
        let is_new = self.places.lock().insert(place);
        assert!(is_new, "{place:?} is added twice");
    }

    fn removed(&self, place: Place) {
        let was = self.places.lock().remove(&place);
        assert!(was, "{place:?} is removed and was not there");
    }

    fn dirtied(&self, object: u64, page: u64) {
        let is_new = self.pages.lock().insert((object, page));
        assert!(is_new, "page {page} of {object} is dirtied twice");
    }

    fn flushed(&self, object: u64, page: u64) {
        let was = self.pages.lock().remove(&(object, page));
        assert!(was, "page {page} of {object} is flushed and was not there");
    }

    fn spilled(&self, object: u64, page: u64) {
        self.flushed(object, page);
    }
}

/// Returns a cache and its listener.
pub fn recorded(bytes_max: u64) -> (PageCache, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let policy = Box::new(S3Fifo::new(bytes_max));
    let events: Arc<Recorder> = Arc::clone(&recorder);
    (
        PageCache::new(PageCacheOptions::new(bytes_max, 42), policy, events),
        recorder,
    )
}

/// Returns a cache without a listener.
pub fn silent(bytes_max: u64) -> PageCache {
    let policy = Box::new(S3Fifo::new(bytes_max));
    PageCache::new(
        PageCacheOptions::new(bytes_max, 42),
        policy,
        Arc::new(NoEvents),
    )
}

//! Hashes of pages: the splitmix64 finalizer twice, so that all bits depend on all bits. The table
//! calls this.
//!
//! Invariant: the hash depends only on the seed and on the page.

use crate::page::Page;

pub(crate) fn hash(seed: u64, page: &Page) -> u64 {
    let object = page.object ^ (u64::from(page.generation) << 24) ^ ((page.space as u64) << 60);
    mix(mix(object ^ seed).wrapping_add(page.index))
}

pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

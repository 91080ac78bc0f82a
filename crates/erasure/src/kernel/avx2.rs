//! Implements the kernel with AVX2. `kernel` calls this.
//!
//! `vpshufb` computes 32 products at a time (Plank, Greenan, Miller: Screaming Fast Galois Field
//! Arithmetic, FAST 2013). The butterflies of a transform stay in registers.
//! Invariant: an [`Avx2`] exists only where the processor has AVX2. That makes its calls sound.

use crate::factors::{Factor, Triple};
use crate::{Block, Shards, Sums, TOGETHER, Width};
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

/// Proof that the processor has AVX2.
pub struct Avx2(());

impl Avx2 {
    /// Returns `None` where the processor lacks the instructions.
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// See `Kernel`.
    pub fn add(&self, width: Width, factors: &[Triple; 2], shards: Shards, sums: &mut Sums) {
        for (factors, shards) in factors.iter().zip(shards) {
            let tables = factors.map(Tables::new);
            match width {
                // SAFETY: `self` exists only where the processor has AVX2.
                Width::Two => unsafe { add::<false>(&tables, shards, sums) },
                // SAFETY: `self` exists only where the processor has AVX2.
                Width::Four => unsafe { add::<true>(&tables, shards, sums) },
            }
        }
    }

    /// See `Kernel`.
    pub fn finish(&self, width: Width, factors: &Triple, sums: &mut Sums) {
        let tables = factors.map(Tables::new);
        match width {
            // SAFETY: `self` exists only where the processor has AVX2.
            Width::Two => unsafe { finish::<false>(&tables, sums) },
            // SAFETY: `self` exists only where the processor has AVX2.
            Width::Four => unsafe { finish::<true>(&tables, sums) },
        }
    }
}

/// Products of a factor with every half byte at its four places: their low and high bytes.
struct Tables {
    low: [[u8; 16]; 4],
    high: [[u8; 16]; 4],
}

impl Tables {
    fn new(Factor(products): Factor) -> Self {
        let (mut low, mut high) = ([[0; 16]; 4], [[0; 16]; 4]);
        let (of_quarters, _) = products.as_chunks::<4>();
        for ((of_bits, low), high) in of_quarters.iter().zip(&mut low).zip(&mut high) {
            for (x, (low, high)) in low.iter_mut().zip(high).enumerate() {
                let is_set = |(n, product): (usize, &u16)| product * (x >> n & 1) as u16;
                let product = of_bits.iter().enumerate().map(is_set);
                [*low, *high] = product.fold(0, |sum, part| sum ^ part).to_le_bytes();
            }
        }
        Self { low, high }
    }
}

/// Low bytes and high bytes of 32 elements.
#[derive(Clone, Copy)]
struct Elements(__m256i, __m256i);

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> Elements {
    let (low, high) = block.split_at(32);
    // SAFETY: both have 32 bytes; the instruction needs no alignment.
    unsafe {
        Elements(
            _mm256_loadu_si256(low.as_ptr().cast()),
            _mm256_loadu_si256(high.as_ptr().cast()),
        )
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(block: &mut Block, elements: Elements) {
    let (low, high) = block.split_at_mut(32);
    // SAFETY: both have 32 bytes; the instruction needs no alignment.
    unsafe {
        _mm256_storeu_si256(low.as_mut_ptr().cast(), elements.0);
        _mm256_storeu_si256(high.as_mut_ptr().cast(), elements.1);
    }
}

/// Puts the table into both halves of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(table: &[u8; 16]) -> __m256i {
    // SAFETY: the table has 16 bytes; the instruction needs no alignment.
    let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
    _mm256_broadcastsi128_si256(table)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(a: Elements, b: Elements) -> Elements {
    Elements(_mm256_xor_si256(a.0, b.0), _mm256_xor_si256(a.1, b.1))
}

/// Computes the contribution of one half byte of the elements to their products.
#[inline]
#[target_feature(enable = "avx2")]
fn part(quarter: __m256i, low: &[u8; 16], high: &[u8; 16]) -> Elements {
    Elements(
        _mm256_shuffle_epi8(twice(low), quarter),
        _mm256_shuffle_epi8(twice(high), quarter),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn product(elements: Elements, tables: &Tables) -> Elements {
    let half = _mm256_set1_epi8(0x0f);
    let Elements(low, high) = elements;
    let [l0, l1, l2, l3] = &tables.low;
    let [h0, h1, h2, h3] = &tables.high;
    let p0 = part(_mm256_and_si256(low, half), l0, h0);
    let p1 = part(_mm256_and_si256(_mm256_srli_epi64::<4>(low), half), l1, h1);
    let p2 = part(_mm256_and_si256(high, half), l2, h2);
    let p3 = part(_mm256_and_si256(_mm256_srli_epi64::<4>(high), half), l3, h3);
    xor(xor(p0, p1), xor(p2, p3))
}

/// Adds the inverse transform of four shards to `sums`. With one layer: of two pairs.
#[target_feature(enable = "avx2")]
fn add<const TWO_LAYERS: bool>(
    tables: &[Tables; 3],
    shards: [&[Block]; TOGETHER],
    sums: &mut Sums,
) {
    let ([d0, d1, d2, d3], [s0, s1, s2, s3]) = (shards, sums);
    let [first, both, second] = tables;
    let data = d0.iter().zip(d1).zip(d2.iter().zip(d3));
    let sums = s0
        .iter_mut()
        .zip(&mut **s1)
        .zip(s2.iter_mut().zip(&mut **s3));
    for (((d0, d1), (d2, d3)), ((s0, s1), (s2, s3))) in data.zip(sums) {
        let (mut a, mut b, mut c, mut d) = (load(d0), load(d1), load(d2), load(d3));
        b = xor(b, a);
        a = xor(a, product(b, first));
        d = xor(d, c);
        c = xor(c, product(d, second));
        if TWO_LAYERS {
            c = xor(c, a);
            a = xor(a, product(c, both));
            d = xor(d, b);
            b = xor(b, product(d, both));
        }
        store(s0, xor(load(s0), a));
        store(s1, xor(load(s1), b));
        store(s2, xor(load(s2), c));
        store(s3, xor(load(s3), d));
    }
}

/// Transforms the sums. With one layer: both pairs together.
#[target_feature(enable = "avx2")]
fn finish<const TWO_LAYERS: bool>(tables: &[Tables; 3], sums: &mut Sums) {
    let [s0, s1, s2, s3] = sums;
    let [first, both, second] = tables;
    let sums = s0
        .iter_mut()
        .zip(&mut **s1)
        .zip(s2.iter_mut().zip(&mut **s3));
    for ((s0, s1), (s2, s3)) in sums {
        let (mut a, mut b, mut c, mut d) = (load(s0), load(s1), load(s2), load(s3));
        if TWO_LAYERS {
            a = xor(a, product(c, both));
            c = xor(c, a);
            b = xor(b, product(d, both));
            d = xor(d, b);
        } else {
            a = xor(a, c);
            b = xor(b, d);
        }
        a = xor(a, product(b, first));
        b = xor(b, a);
        c = xor(c, product(d, second));
        d = xor(d, c);
        store(s0, a);
        store(s1, b);
        store(s2, c);
        store(s3, d);
    }
}

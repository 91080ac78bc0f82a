//! Implements the kernel with AVX-512 and GFNI. `kernel` calls this.
//!
//! Multiplication by a constant is a matrix of bits. One instruction multiplies 64 bytes by 8 x 8
//! bits, so memory is the limit.
//! Invariant: a [`Gfni`] exists only where the processor has both. That makes its calls sound.

use crate::factors::{Factor, Triple};
use crate::{Block, Shards, Sums, TOGETHER, Width};
use std::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set_epi64,
    _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_xor_si512,
};

/// Proof that the processor has AVX-512 and GFNI.
pub struct Gfni(());

impl Gfni {
    /// Returns `None` where the processor lacks the instructions.
    pub fn detect() -> Option<Self> {
        let is_there = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("gfni");
        is_there.then_some(Self(()))
    }

    /// See `Kernel`.
    pub fn add(&self, width: Width, factors: &[Triple; 2], shards: Shards, sums: &mut Sums) {
        match width {
            // SAFETY: `self` exists only where the processor has these instructions.
            Width::Two => unsafe { add::<false>(factors, shards, sums) },
            // SAFETY: `self` exists only where the processor has these instructions.
            Width::Four => unsafe { add::<true>(factors, shards, sums) },
        }
    }

    /// See `Kernel`.
    pub fn finish(&self, width: Width, factors: &Triple, sums: &mut Sums) {
        match width {
            // SAFETY: `self` exists only where the processor has these instructions.
            Width::Two => unsafe { finish::<false>(factors, sums) },
            // SAFETY: `self` exists only where the processor has these instructions.
            Width::Four => unsafe { finish::<true>(factors, sums) },
        }
    }
}

/// Returns the matrix from byte `from` of an element to byte `to` of its product.
///
/// The instruction expects the row of bit 0 in the highest byte.
fn matrix(Factor(products): &Factor, from: usize, to: usize) -> i64 {
    let mut rows = [0u8; 8];
    for (n, product) in products.iter().skip(8 * from).take(8).enumerate() {
        let byte = (product >> (8 * to)) as u8;
        for (bit, row) in rows.iter_mut().enumerate() {
            *row |= (byte >> bit & 1) << n;
        }
    }
    i64::from_be_bytes(rows)
}

/// A factor for 32 elements, low bytes before high bytes.
#[derive(Clone, Copy)]
struct Matrices {
    /// Matrices from low bytes to low bytes and from high bytes to high bytes.
    straight: __m512i,
    /// Matrices from high bytes to low bytes and from low bytes to high bytes.
    crossed: __m512i,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn matrices(factor: &Factor) -> Matrices {
    let halves = |low, high| _mm512_set_epi64(high, high, high, high, low, low, low, low);
    Matrices {
        straight: halves(matrix(factor, 0, 0), matrix(factor, 1, 1)),
        crossed: halves(matrix(factor, 1, 0), matrix(factor, 0, 1)),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn load(block: &Block) -> __m512i {
    // SAFETY: a block has 64 bytes; the instruction needs no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn store(block: &mut Block, elements: __m512i) {
    // SAFETY: a block has 64 bytes; the instruction needs no alignment.
    unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), elements) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn xor(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn product(elements: __m512i, by: &Matrices) -> __m512i {
    const HALVES_SWAPPED: i32 = 0b01_00_11_10;
    let swapped = _mm512_shuffle_i64x2::<HALVES_SWAPPED>(elements, elements);
    xor(
        _mm512_gf2p8affine_epi64_epi8::<0>(elements, by.straight),
        _mm512_gf2p8affine_epi64_epi8::<0>(swapped, by.crossed),
    )
}

/// Computes the inverse transform of four shards. With one layer: of two pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn inverse<const TWO_LAYERS: bool>(
    [first, both, second]: &[Matrices; 3],
    [mut a, mut b, mut c, mut d]: [__m512i; TOGETHER],
) -> [__m512i; TOGETHER] {
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
    [a, b, c, d]
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn add<const TWO_LAYERS: bool>(factors: &[Triple; 2], shards: Shards, sums: &mut Sums) {
    let [[a0, a1, a2, a3], [b0, b1, b2, b3]] = shards;
    let [f0, f1] = factors;
    let by_a = [matrices(&f0[0]), matrices(&f0[1]), matrices(&f0[2])];
    let by_b = [matrices(&f1[0]), matrices(&f1[1]), matrices(&f1[2])];
    let [s0, s1, s2, s3] = sums;
    let a = a0.iter().zip(a1).zip(a2.iter().zip(a3));
    let b = b0.iter().zip(b1).zip(b2.iter().zip(b3));
    let sums = s0
        .iter_mut()
        .zip(&mut **s1)
        .zip(s2.iter_mut().zip(&mut **s3));
    for ((a, b), ((s0, s1), (s2, s3))) in a.zip(b).zip(sums) {
        let ((a0, a1), (a2, a3)) = a;
        let ((b0, b1), (b2, b3)) = b;
        let a = inverse::<TWO_LAYERS>(&by_a, [load(a0), load(a1), load(a2), load(a3)]);
        let b = inverse::<TWO_LAYERS>(&by_b, [load(b0), load(b1), load(b2), load(b3)]);
        store(s0, xor(load(s0), xor(a[0], b[0])));
        store(s1, xor(load(s1), xor(a[1], b[1])));
        store(s2, xor(load(s2), xor(a[2], b[2])));
        store(s3, xor(load(s3), xor(a[3], b[3])));
    }
}

/// Transforms the sums. With one layer: both pairs together.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn finish<const TWO_LAYERS: bool>(factors: &Triple, sums: &mut Sums) {
    let [s0, s1, s2, s3] = sums;
    let [first, both, second] = factors;
    let (first, both, second) = (matrices(first), matrices(both), matrices(second));
    let sums = s0
        .iter_mut()
        .zip(&mut **s1)
        .zip(s2.iter_mut().zip(&mut **s3));
    for ((s0, s1), (s2, s3)) in sums {
        let (mut a, mut b, mut c, mut d) = (load(s0), load(s1), load(s2), load(s3));
        if TWO_LAYERS {
            a = xor(a, product(c, &both));
            c = xor(c, a);
            b = xor(b, product(d, &both));
            d = xor(d, b);
        } else {
            a = xor(a, c);
            b = xor(b, d);
        }
        a = xor(a, product(b, &first));
        b = xor(b, a);
        c = xor(c, product(d, &second));
        d = xor(d, c);
        store(s0, a);
        store(s1, b);
        store(s2, c);
        store(s3, d);
    }
}

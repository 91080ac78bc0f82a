//! Selects the arithmetic of the code by processor. The encoder calls this.
//!
//! Invariant: a kernel value exists only on a processor that has its instructions.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;

use super::{Shards, Sums, Width, factors::Triple};

/// A kernel that this processor can run. Other processors have none; the library supports them.
pub enum Kernel {
    /// GFNI and AVX-512: Intel since 2019 (Ice Lake), AMD since 2022 (Zen 4).
    #[cfg(target_arch = "x86_64")]
    Gfni(gfni::Gfni),
    /// AVX2: Intel since 2013, AMD since 2015.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
}

impl Kernel {
    /// Yields the kernels that the processor can run, the fastest first.
    pub fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [
            gfni::Gfni::detect().map(Self::Gfni),
            avx2::Avx2::detect().map(Self::Avx2),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let all: [Option<Self>; 0] = [];
        all.into_iter().flatten()
    }

    /// Adds the contribution of `shards` to `sums`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    pub fn add(&self, width: Width, factors: &[Triple; 2], shards: Shards, sums: &mut Sums) {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni(ref kernel) => kernel.add(width, factors, shards, sums),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(ref kernel) => kernel.add(width, factors, shards, sums),
        }
    }

    /// Turns the sums into parity.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    pub fn finish(&self, width: Width, factors: &Triple, sums: &mut Sums) {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni(ref kernel) => kernel.finish(width, factors, sums),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(ref kernel) => kernel.finish(width, factors, sums),
        }
    }
}

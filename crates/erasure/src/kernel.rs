//! The arithmetic of the code, by what the processor can do.
//!
//! Invariant: a kernel exists only where its instructions do. Called by the encoder.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;

use super::{Shards, Sums, Width, factors::Triple};

/// See the module's head. None on other processors: the library knows them.
pub enum Kernel {
    /// Since 2019 at Intel (Ice Lake), 2022 at AMD (Zen 4).
    #[cfg(target_arch = "x86_64")]
    Gfni(gfni::Gfni),
    /// Since 2013 at Intel, 2015 at AMD.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
}

impl Kernel {
    /// Those that the processor can run, the fastest first.
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

    /// Adds what `shards` contribute to `sums`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    pub fn add(&self, width: Width, factors: &[Triple; 2], shards: Shards, sums: &mut Sums) {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni(ref kernel) => kernel.add(width, factors, shards, sums),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(ref kernel) => kernel.add(width, factors, shards, sums),
        }
    }

    /// Makes parity of what was added up.
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

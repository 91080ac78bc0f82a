//! Compresses and decompresses regions with reused contexts. The store's containers call this.
//!
//! Invariant: bytes that do not shrink are stored as they are. Decompression never yields more than
//! the caller's limit.

use crate::{noise, x86_branches};
use std::io::Cursor;
use zstd::zstd_safe::CParameter;

/// Compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Stores bytes as they are.
    None,
    /// LZ4 block.
    Lz4,
    /// zstd at a level (-7 to 19).
    Zstd(i32),
    /// zstd level 1 with matches of at least six bytes, a larger hash table for them, and a window
    /// over the whole region (`docs/decisions/`, compression).
    Default,
    /// zstd level 3 with matches of at least four bytes and small tables, for regions of 128 KiB:
    /// they have little history to find long matches in.
    SmallRegions,
}

/// Encoding of compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// One zstd frame.
    Zstd,
    /// One LZ4 block.
    Lz4,
    /// One zstd frame of the output of the x86 branch filter.
    ZstdX86,
}

/// The compressed bytes are damaged, or exceed the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the compressed bytes are damaged")]
pub struct CompressError;

/// Compresses regions, one after another.
pub struct Compressor {
    with: Compression,
    filtering: bool,
    /// LZ4's output before it is appended. Zeroed once instead of for every region.
    scratch: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// Fails only when the level does not exist or memory is short.
    ///
    /// With `filtering`, machine code passes the x86 branch filter before zstd.
    pub fn new(with: Compression, filtering: bool) -> Result<Self, CompressError> {
        let (level, tuned): (i32, &[CParameter]) = match with {
            Compression::None | Compression::Lz4 => {
                return Ok(Self {
                    with,
                    filtering: false,
                    scratch: Vec::new(),
                    zstd: None,
                });
            }
            Compression::Zstd(level) => (level, &[]),
            Compression::Default => (
                1,
                &[
                    CParameter::MinMatch(6),
                    CParameter::HashLog(15),
                    CParameter::WindowLog(21),
                ],
            ),
            Compression::SmallRegions => (
                3,
                &[
                    CParameter::MinMatch(4),
                    CParameter::HashLog(15),
                    CParameter::ChainLog(13),
                    CParameter::WindowLog(21),
                ],
            ),
        };
        let mut context = zstd::bulk::Compressor::new(level).map_err(|_| CompressError)?;
        for parameter in tuned {
            context
                .set_parameter(*parameter)
                .map_err(|_| CompressError)?;
        }
        // Regions carry their own checksum, size and type.
        context.include_checksum(false).map_err(|_| CompressError)?;
        context
            .include_contentsize(false)
            .map_err(|_| CompressError)?;
        Ok(Self {
            with,
            filtering,
            scratch: Vec::new(),
            zstd: Some(context),
        })
    }

    /// Appends the compressed form of `raw` to `out` and returns its encoding. Appends nothing and
    /// returns `None` when the result would not be smaller.
    ///
    /// After `None`, `raw` is unchanged. Otherwise its contents are undefined.
    pub fn compress(&mut self, raw: &mut [u8], out: &mut Vec<u8>) -> Option<Packed> {
        if noise::is_noise(raw) {
            return None;
        }
        let filtered = self.filtering && x86_branches::pays(raw);
        if filtered {
            x86_branches::absolute(raw);
        }
        let start = out.len();
        let (packed, smaller) = match &mut self.zstd {
            Some(context) => {
                let packed = if filtered {
                    Packed::ZstdX86
                } else {
                    Packed::Zstd
                };
                (packed, append_zstd(context, raw, out))
            }
            None if self.with == Compression::Lz4 => {
                (Packed::Lz4, append_lz4(&mut self.scratch, raw, out))
            }
            None => return None,
        };
        if smaller {
            return Some(packed);
        }
        out.truncate(start);
        if filtered {
            x86_branches::relative(raw);
        }
        None
    }
}

/// Returns false when the bytes did not get smaller. The appended bytes are then meaningless.
fn append_zstd(
    context: &mut zstd::bulk::Compressor<'static>,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    // Write directly behind the existing bytes: a buffer between would be read and written once
    // more.
    let start = out.len();
    out.reserve(raw.len());
    let mut place = Cursor::new(std::mem::take(out));
    place.set_position(start as u64);
    let written = context.compress_to_buffer(raw, &mut place);
    *out = place.into_inner();
    written.is_ok_and(|len| len < raw.len())
}

/// Does the same with LZ4, which needs initialised memory.
fn append_lz4(scratch: &mut Vec<u8>, raw: &[u8], out: &mut Vec<u8>) -> bool {
    let room = lz4_flex::block::get_maximum_output_size(raw.len());
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    let written = lz4_flex::block::compress_into(raw, scratch).ok();
    let packed = written.and_then(|len| scratch.get(..len));
    out.extend_from_slice(packed.unwrap_or_default());
    packed.is_some_and(|packed| packed.len() < raw.len())
}

/// Decompresses regions, one after another.
pub struct Decompressor {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Decompressor {
    /// Fails only when memory is short.
    pub fn new() -> Result<Self, CompressError> {
        let zstd = zstd::bulk::Decompressor::new().map_err(|_| CompressError)?;
        Ok(Self { zstd })
    }

    /// Unpacks bytes that are exactly `raw_len` long, into the memory of `raw`.
    pub fn unpack(
        &mut self,
        packed: Packed,
        stored: &[u8],
        raw_len: usize,
        raw: Vec<u8>,
    ) -> Result<Vec<u8>, CompressError> {
        match packed {
            Packed::Zstd => self.zstd(stored, raw_len, raw),
            Packed::Lz4 => Self::lz4(stored, raw_len, raw),
            Packed::ZstdX86 => {
                let mut raw = self.zstd(stored, raw_len, raw)?;
                x86_branches::relative(&mut raw);
                Ok(raw)
            }
        }
    }

    fn zstd(
        &mut self,
        stored: &[u8],
        raw_len: usize,
        mut raw: Vec<u8>,
    ) -> Result<Vec<u8>, CompressError> {
        raw.clear();
        raw.reserve_exact(raw_len);
        let len = self
            .zstd
            .decompress_to_buffer(stored, &mut raw)
            .map_err(|_| CompressError)?;
        if len == raw_len {
            Ok(raw)
        } else {
            Err(CompressError)
        }
    }

    fn lz4(stored: &[u8], raw_len: usize, mut raw: Vec<u8>) -> Result<Vec<u8>, CompressError> {
        // The old contents of the buffer need not be zeroed.
        raw.resize(raw_len, 0);
        let len = lz4_flex::block::decompress_into(stored, &mut raw).map_err(|_| CompressError)?;
        if len == raw_len {
            Ok(raw)
        } else {
            Err(CompressError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns calls of a few functions, as a compiler writes them.
    fn code() -> Vec<u8> {
        let mut code = Vec::new();
        for n in 0..20_000u32 {
            code.extend([0x89, 0xC7, (n % 251) as u8, 0xE8]);
            let target = n * n % 17 * 1000;
            code.extend(target.wrapping_sub(code.len() as u32 + 4).to_le_bytes());
        }
        code
    }

    #[test]
    fn round_trips_and_refuses_damage() {
        let raw: Vec<u8> = (0..200_000u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        for (with, raw, expected) in [
            (Compression::Lz4, &raw, Packed::Lz4),
            (Compression::Lz4, &code(), Packed::Lz4),
            (Compression::Zstd(1), &raw, Packed::Zstd),
            (Compression::Zstd(-3), &raw, Packed::Zstd),
            (Compression::Zstd(3), &code(), Packed::ZstdX86),
            (Compression::Default, &code(), Packed::ZstdX86),
        ] {
            let mut out = vec![1, 2, 3];
            let mut compressor = Compressor::new(with, true).unwrap();
            let packed = compressor.compress(&mut raw.clone(), &mut out);
            assert_eq!(packed, Some(expected), "{with:?}");
            assert!(out.len() < raw.len());
            let stored = &out[3..];
            let mut d = Decompressor::new().unwrap();
            let mut back = |s: &[u8], len| d.unpack(expected, s, len, vec![7; 9]);
            assert_eq!(&back(stored, raw.len()).unwrap(), raw);
            assert!(back(stored, raw.len() - 1).is_err());
            assert!(back(&stored[..stored.len() / 2], raw.len()).is_err());
        }
    }

    #[test]
    fn the_filter_makes_code_smaller_and_can_be_left_out() {
        let packed = |filtering| {
            let mut out = Vec::new();
            let mut compressor = Compressor::new(Compression::Default, filtering).unwrap();
            let packed = compressor.compress(&mut code(), &mut out);
            (packed, out.len())
        };
        let (plain, filtered) = (packed(false), packed(true));
        assert_eq!(
            (plain.0, filtered.0),
            (Some(Packed::Zstd), Some(Packed::ZstdX86))
        );
        assert!(filtered.1 * 3 < plain.1 * 2, "{plain:?} {filtered:?}");
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1u64;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        // This noise looks like code to the detector.
        let mut calls = noise(100_000);
        for call in calls.chunks_exact_mut(50) {
            (call[0], call[4]) = (0xE8, 0);
        }
        assert!(x86_branches::pays(&calls));
        // These few constant bytes save less than zstd's headers take without literal compression.
        let with = Compression::Zstd(-5);
        for (with, raw) in [(Compression::Zstd(1), noise(100_000)), (with, calls)] {
            let mut out = Vec::new();
            let mut same = raw.clone();
            let mut compressor = Compressor::new(with, true).unwrap();
            assert_eq!(compressor.compress(&mut same, &mut out), None);
            assert!(out.is_empty() && same == raw);
        }
    }
}

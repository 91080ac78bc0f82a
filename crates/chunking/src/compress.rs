//! Compression of regions with reused contexts.
//!
//! Invariant: what does not shrink is stored as it is; decompression never yields more than the
//! caller's limit.

use std::fmt;
use zstd::zstd_safe::CParameter;

/// What to compress with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Store as it is.
    None,
    /// LZ4 block.
    Lz4,
    /// zstd at a level (-7 to 19).
    Zstd(i32),
    /// zstd level 1 with a larger hash table and matches of at least six bytes: 3 % smaller than
    /// level 1 for 10 % more time (`docs/decisions/`, compression). For file trees.
    Default,
    /// zstd level 3 with smaller tables and matches of at least six bytes: 5 % smaller than level 1
    /// for 35 % more time. For disk images, which peers compress as well as this.
    Dense,
}

/// Damaged compressed bytes, or more than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressError;

impl fmt::Display for CompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compressed bytes are damaged")
    }
}

impl std::error::Error for CompressError {}

/// Compresses one region after another.
pub struct Compressor {
    with: Compression,
    /// Output before it is appended: zeroed once, not for every region.
    scratch: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// Fails only when the level does not exist or memory is short.
    pub fn new(with: Compression) -> Result<Self, CompressError> {
        let (level, tuned): (i32, &[CParameter]) = match with {
            Compression::None | Compression::Lz4 => {
                return Ok(Self {
                    with,
                    scratch: Vec::new(),
                    zstd: None,
                });
            }
            Compression::Zstd(level) => (level, &[]),
            Compression::Default => (1, &[CParameter::MinMatch(6), CParameter::HashLog(15)]),
            Compression::Dense => (
                3,
                &[
                    CParameter::MinMatch(6),
                    CParameter::HashLog(16),
                    CParameter::ChainLog(15),
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
        let zstd = Some(context);
        Ok(Self {
            with,
            scratch: Vec::new(),
            zstd,
        })
    }

    /// Appends the compressed form of `raw` to `out` and returns true, or appends nothing and
    /// returns false when it would not be smaller.
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> bool {
        let room = match self.with {
            Compression::None => return false,
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
            // What does not fit is no smaller, and zstd says so early.
            Compression::Zstd(_) | Compression::Default | Compression::Dense => raw.len(),
        };
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        let into = self.scratch.get_mut(..room).unwrap_or_default();
        let written = match &mut self.zstd {
            None => lz4_flex::block::compress_into(raw, into).ok(),
            Some(context) => context.compress_to_buffer(raw, into).ok(),
        };
        let smaller = written
            .filter(|len| *len < raw.len())
            .and_then(|len| self.scratch.get(..len));
        out.extend_from_slice(smaller.unwrap_or_default());
        smaller.is_some()
    }
}

/// Decompresses one region after another.
pub struct Decompressor {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Decompressor {
    /// Fails only when memory is short.
    pub fn new() -> Result<Self, CompressError> {
        let zstd = zstd::bulk::Decompressor::new().map_err(|_| CompressError)?;
        Ok(Self { zstd })
    }

    /// A zstd frame of exactly `raw_len` bytes, in the memory of `raw`.
    pub fn zstd(
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

    /// An LZ4 block of exactly `raw_len` bytes, in the memory of `raw`.
    pub fn lz4(
        &mut self,
        stored: &[u8],
        raw_len: usize,
        mut raw: Vec<u8>,
    ) -> Result<Vec<u8>, CompressError> {
        // What it held already need not be zeroed.
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

    #[test]
    fn round_trips_and_refuses_damage() {
        let raw: Vec<u8> = (0..200_000u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        for with in [
            Compression::Lz4,
            Compression::Zstd(1),
            Compression::Zstd(-3),
        ] {
            let mut out = vec![1, 2, 3];
            assert!(Compressor::new(with).unwrap().compress(&raw, &mut out));
            assert!(out.len() < raw.len());
            let stored = &out[3..];
            let mut d = Decompressor::new().unwrap();
            let back = |d: &mut Decompressor, s: &[u8], len| match with {
                Compression::Lz4 => d.lz4(s, len, vec![7; 9]),
                _ => d.zstd(s, len, vec![7; 9]),
            };
            assert_eq!(back(&mut d, stored, raw.len()).unwrap(), raw);
            assert!(back(&mut d, stored, raw.len() - 1).is_err());
            assert!(back(&mut d, &stored[..stored.len() / 2], raw.len()).is_err());
        }
    }

    #[test]
    fn noise_is_left_alone() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut out = Vec::new();
        assert!(
            !Compressor::new(Compression::Zstd(1))
                .unwrap()
                .compress(&noise, &mut out)
        );
        assert!(out.is_empty());
    }
}

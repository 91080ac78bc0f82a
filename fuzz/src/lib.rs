//! What the fuzz targets run. The decoders and the crafted pools are those of the seeded tests, so
//! that both say the same thing about the same bytes.

#[path = "../../crates/store/tests/crafted/mod.rs"]
pub mod crafted;
#[path = "../../crates/format/tests/decoders/mod.rs"]
pub mod decoders;

use chunking::{Compression, Compressor, Decompressor};
use media::Disk;
use sim::{Image, SimDisk};
use std::sync::LazyLock;
use store::OpenMode;

/// Largest raw length that decompression is asked for here, bytes.
const RAW_BYTES_MAX: usize = 1 << 20;

/// Decompresses `data` as if it claimed the length in its first three bytes, and compresses it.
pub fn compression(data: &[u8]) {
    let Some(([codec, a, b], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let raw_len = (usize::from(*a) << 12 | usize::from(*b)).min(RAW_BYTES_MAX);
    let mut decompressor = Decompressor::new().expect("memory");
    let mut back = |lz4: bool, stored: &[u8], len| match lz4 {
        true => decompressor.lz4(stored, len),
        false => decompressor.zstd(stored, len),
    };
    for lz4 in [false, true] {
        if let Ok(raw) = back(lz4, rest, raw_len) {
            assert_eq!(raw.len(), raw_len);
        }
        let with = match (lz4, codec % 3) {
            (true, _) => Compression::Lz4,
            (false, 0) => Compression::Zstd(1),
            (false, 1) => Compression::Zstd(-5),
            (false, _) => Compression::Zstd(5),
        };
        let mut stored = Vec::new();
        if Compressor::new(with)
            .expect("memory")
            .compress(rest, &mut stored)
        {
            assert!(stored.len() < rest.len());
            assert_eq!(back(lz4, &stored, rest.len()).as_deref(), Ok(rest));
            assert!(rest.is_empty() || back(lz4, &stored, rest.len() - 1).is_err());
        }
    }
}

/// A small pool with files damaged as `data` says.
pub fn pool(data: &[u8]) {
    static SMALL: LazyLock<Image> = LazyLock::new(crafted::small);
    let Some((mode, steps)) = data.split_first() else {
        return;
    };
    let mode = match mode % 2 {
        0 => OpenMode::Read,
        _ => OpenMode::Write,
    };
    crafted::exercise(&crafted::mutated(&SMALL, steps), mode);
}

/// A pool whose nodes `data` made: every checksum is right.
pub fn crafted_pool(data: &[u8]) {
    static EMPTY: LazyLock<Image> = LazyLock::new(crafted::empty);
    let disk = SimDisk::unrecorded(EMPTY.clone());
    let _ = crafted::craft(&disk, data);
    crafted::exercise(&disk, OpenMode::Read);
}

/// The whole of `data` as the bytes of one file of a small pool: its first byte says which.
pub fn replaced_file(data: &[u8]) {
    static SMALL: LazyLock<Image> = LazyLock::new(crafted::small);
    let Some((number, bytes)) = data.split_first() else {
        return;
    };
    let files = SMALL.files();
    let disk = SimDisk::unrecorded(SMALL.clone());
    disk.plant(&files[usize::from(*number) % files.len()].0, bytes);
    assert!(disk.list("").is_ok());
    crafted::exercise(&disk, OpenMode::Read);
}

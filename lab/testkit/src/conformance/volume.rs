//! Tests the contract of every [`Volume`], on each implementation and decorator.
//!
//! Tests of the crates that implement `Volume` call these suites. A suite panics at the first wrong
//! answer.
//! Invariant: a check looks only at answers of the interface. It therefore holds for memory, for
//! the store and for any decorator.

mod abilities;
mod changes;
mod file;
mod model;
mod served;
#[cfg(test)]
mod tests;

pub use abilities::{Able, abilities_suite};
pub use changes::changes_suite;
pub use file::FileVolume;
pub use served::{Failed, ServedDisk};

use std::ops::ControlFlow;
use volume::{Checked, Durability, Extent, RequestContext, Volume, VolumeErrorKind};

/// Volume sizes that a suite tries: tiny, odd, whole blocks, some MiB.
const SIZES: [u64; 6] = [1, 511, 4096, 65_537, 1 << 20, (3 << 20) + 17];

/// Runs every check on writable volumes. `make` returns a new volume of the given size that reads
/// as zeroes. Sizes are in bytes and not whole blocks.
pub fn volume_suite(make: &dyn Fn(u64) -> Box<dyn Volume>) {
    for size_bytes in SIZES {
        let fresh = || Checked::new(make(size_bytes));
        let volume = fresh();
        information(&volume, size_bytes);
        assert!(!volume.info().read_only, "volume is writable");
        content(&volume, &vec![0; size_bytes as usize]);
        edges(&volume);
        writes_stay_in_their_range(&fresh());
        model::follows_the_model(&fresh(), size_bytes);
    }
    zeroes_and_discards(&Checked::new(make(1 << 20)));
    model::threads_do_not_disturb_each_other(&Checked::new(make(4 << 20)));
}

/// Runs every check that a read-only volume can pass. `expected` is its whole content.
pub fn read_only_volume_suite(volume: Box<dyn Volume>, expected: &[u8]) {
    let volume = Checked::new(volume);
    let context = RequestContext::default();
    information(&volume, expected.len() as u64);
    assert!(volume.info().read_only, "volume is read-only");
    edges(&volume);
    content(&volume, expected);
    if !expected.is_empty() {
        let byte = expected[0].wrapping_add(1);
        let write = volume.write(context, 0, &[byte], Durability::Durable);
        assert_eq!(write.unwrap_err().kind, VolumeErrorKind::ReadOnly);
        let discard = volume.discard(context, 0, 1);
        assert_eq!(discard.unwrap_err().kind, VolumeErrorKind::ReadOnly);
        let zeroes = volume.write_zeroes(context, 0, 1, true, Durability::Volatile);
        assert_eq!(zeroes.unwrap_err().kind, VolumeErrorKind::ReadOnly);
    }
    volume.flush(context).expect("flush of a read-only volume");
    content(&volume, expected);
}

/// Sizes agree with each other and block sizes are powers of two.
fn information(volume: &dyn Volume, size_bytes: u64) {
    let info = volume.info();
    assert_eq!(info.size_bytes, size_bytes, "size in info");
    assert_eq!(volume.size_bytes(), size_bytes, "size without info");
    assert!(info.block_bytes_min.is_power_of_two(), "minimum block");
    assert!(
        info.block_bytes_preferred.is_power_of_two(),
        "preferred block"
    );
    assert!(info.block_bytes_min <= info.block_bytes_preferred);
}

/// Reads of the whole, of unequal pieces and through extents return `expected`.
fn content(volume: &dyn Volume, expected: &[u8]) {
    let context = RequestContext::default();
    let mut all = vec![0xa5; expected.len()];
    volume.read(context, 0, &mut all).expect("read of it all");
    assert!(all == expected, "content as a whole");
    let mut at = 0;
    for len in [1, 511, 512, 513, 4095, 4097, 65_536, 70_001].repeat(64) {
        let Some(piece) = expected.get(at..) else {
            break;
        };
        let piece = &piece[..len.min(piece.len())];
        let mut bytes = vec![0x5a; piece.len()];
        let offset = at as u64;
        // Hints may come at any time and change nothing.
        let able = volume.capabilities();
        able.prefetch(context, offset, piece.len() as u64);
        let _ = able.is_cached(context, offset, piece.len() as u64);
        volume
            .read(context, offset, &mut bytes)
            .expect("read of a piece");
        assert!(bytes == piece, "piece of {len} bytes at {at}");
        at += len;
    }
    extents_agree(volume, 0, expected);
    let skip = expected.len() / 3;
    extents_agree(volume, skip as u64, &expected[skip..]);
}

/// Pieces cover the range (the wrapper checks order and gaps) and zeroes are zeroes.
fn extents_agree(volume: &dyn Volume, offset_bytes: u64, expected: &[u8]) {
    let context = RequestContext::default();
    let mut pieces: Vec<Extent> = Vec::new();
    volume
        .extents(context, offset_bytes, expected.len() as u64, &mut |piece| {
            pieces.push(piece);
            ControlFlow::Continue(())
        })
        .expect("extents");
    let end = offset_bytes + expected.len() as u64;
    let reached = pieces
        .last()
        .map_or(offset_bytes, |p| p.offset_bytes + p.len_bytes);
    assert!(reached >= end, "extents cover the range");
    for piece in pieces.iter().filter(|p| p.zero) {
        let from = (piece.offset_bytes - offset_bytes) as usize;
        let until = (piece.offset_bytes + piece.len_bytes).min(end) - offset_bytes;
        let bytes = &expected[from..until as usize];
        assert!(bytes.iter().all(|b| *b == 0), "zero extent {piece:?}");
    }
    let mut seen = 0;
    volume
        .extents(context, offset_bytes, expected.len() as u64, &mut |_| {
            seen += 1;
            ControlFlow::Break(())
        })
        .expect("extents, first one only");
    assert_eq!(seen, usize::from(!expected.is_empty()), "a break is obeyed");
}

/// Requests past the end are refused; empty ones do nothing.
fn edges(volume: &dyn Volume) {
    let context = RequestContext::default();
    let size = volume.size_bytes();
    volume
        .read(context, size, &mut [])
        .expect("empty read at the end");
    for (offset, len) in [(size, 1), (size - 1, 2), (size + 1, 0), (u64::MAX - 1, 4)] {
        let read = volume.read(context, offset, &mut vec![0; len]);
        assert_eq!(read.unwrap_err().kind, VolumeErrorKind::OutOfRange);
        let extents = volume.extents(context, offset, len as u64, &mut |_| {
            panic!("an extent of a range that does not exist")
        });
        assert_eq!(extents.unwrap_err().kind, VolumeErrorKind::OutOfRange);
        let able = volume.capabilities();
        able.prefetch(context, offset, len as u64);
    }
}

/// A write changes its own bytes and no others.
fn writes_stay_in_their_range(volume: &dyn Volume) {
    let context = RequestContext::default();
    let size = volume.size_bytes();
    let mut expected = vec![0; size as usize];
    let places = [
        (0, 1),
        (510, 4),
        (4095, 2),
        (4096, 4096),
        (65_530, 12),
        (131_000, 9000),
        (size - 1, 1),
    ];
    for (number, (offset, len)) in places.into_iter().enumerate() {
        let Some(target) = expected.get_mut(offset as usize..offset as usize + len) else {
            let write = volume.write(context, offset, &vec![9; len], Durability::Volatile);
            assert_eq!(write.unwrap_err().kind, VolumeErrorKind::OutOfRange);
            continue;
        };
        target.fill(number as u8 + 1);
        let durability = if number % 2 == 0 {
            Durability::Volatile
        } else {
            Durability::Durable
        };
        volume
            .write(context, offset, target, durability)
            .expect("write");
    }
    content(volume, &expected);
    volume.flush(context).expect("flush");
    content(volume, &expected);
}

/// Discarded and zeroed ranges read as zeroes at any alignment; others keep their bytes.
fn zeroes_and_discards(volume: &dyn Volume) {
    let context = RequestContext::default();
    let size = volume.size_bytes();
    let mut expected = vec![0xee; size as usize];
    volume
        .write(context, 0, &expected, Durability::Volatile)
        .expect("fill");
    let places = [(1, 1), (4096, 4096), (10_000, 70_000), (200_001, 262_144)];
    for (number, (offset, len)) in places.into_iter().enumerate() {
        for (shift, way) in [0, 300_000, 500_000].into_iter().zip(0..3) {
            let offset = offset + shift + number as u64 * 3;
            let done = match way {
                0 => volume.discard(context, offset, len),
                1 => volume.write_zeroes(context, offset, len, true, Durability::Volatile),
                _ => volume.write_zeroes(context, offset, len, false, Durability::Durable),
            };
            done.expect("zeroes");
            expected[offset as usize..(offset + len) as usize].fill(0);
        }
    }
    content(volume, &expected);
    let past = volume.write_zeroes(context, size, 1, true, Durability::Volatile);
    assert_eq!(past.unwrap_err().kind, VolumeErrorKind::OutOfRange);
    let past = volume.discard(context, size - 1, 2);
    assert_eq!(past.unwrap_err().kind, VolumeErrorKind::OutOfRange);
    content(volume, &expected);
}

//! Runs random operations against a plain vector, and against other threads. The suites call this.
//!
//! Invariant: the same seed gives the same operations on every machine.

use super::content;
use std::ops::ControlFlow;
use std::thread;
use volume::{Durability, RequestContext, Volume};

const OPERATIONS: u64 = 400;

/// A small generator (SplitMix64, Steele et al. 2014). It is good enough to pick operations.
pub(super) struct Seeded(pub u64);

impl Seeded {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// After operations in any order, the volume holds the bytes that a vector would.
pub(super) fn follows_the_model(volume: &dyn Volume, size_bytes: u64) {
    let context = RequestContext::default();
    let mut seeded = Seeded(size_bytes);
    let mut model = vec![0_u8; size_bytes as usize];
    for step in 0..OPERATIONS {
        let longest = [1, 600, 5000, 200_000][seeded.below(4) as usize];
        let mut offset = seeded.below(size_bytes);
        if seeded.below(3) == 0 {
            offset &= !4095;
        }
        let len = (1 + seeded.below(longest)).min(size_bytes - offset);
        let range = offset as usize..(offset + len) as usize;
        let durability = match seeded.below(4) {
            0 => Durability::Durable,
            _ => Durability::Volatile,
        };
        let done = match seeded.below(8) {
            0 => {
                model[range].fill(0);
                volume.discard(context, offset, len)
            }
            1 | 2 => {
                model[range].fill(0);
                volume.write_zeroes(context, offset, len, seeded.below(2) == 0, durability)
            }
            3 => volume.flush(context),
            4 => {
                let mut bytes = vec![0xdd; len as usize];
                let done = volume.read(context, offset, &mut bytes);
                assert!(bytes == model[range], "step {step}: read at {offset}");
                done
            }
            5 => volume.extents(context, offset, len, &mut |piece| {
                let end = (piece.offset_bytes + piece.len_bytes).min(offset + len);
                let bytes = &model[piece.offset_bytes as usize..end as usize];
                assert!(
                    !piece.zero || bytes.iter().all(|b| *b == 0),
                    "step {step}: {piece:?}"
                );
                ControlFlow::Continue(())
            }),
            _ => {
                let byte = step as u8 | 1;
                model[range.clone()].fill(byte);
                let data = &model[range];
                let able = volume.capabilities();
                match seeded.below(2) == 0 && able.write_now(context, offset, data).unwrap() {
                    true => Ok(()),
                    false => volume.write(context, offset, data, durability),
                }
            }
        };
        done.unwrap_or_else(|e| panic!("step {step}: {e}"));
    }
    content(volume, &model);
}

/// Writers of neighbouring ranges keep their bytes. A reader of a contended block sees, for every
/// 512 bytes, one write or another.
pub(super) fn threads_do_not_disturb_each_other(volume: &dyn Volume) {
    const WRITERS: u64 = 4;
    const PIECE_BYTES: u64 = 5000;
    let context = RequestContext::default();
    let shared = volume.size_bytes() - 8192;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for round in 0..100 {
                    let offset = (round * WRITERS + writer) * PIECE_BYTES;
                    let data = vec![writer as u8 + 1; PIECE_BYTES as usize];
                    let write = volume.write(context, offset, &data, Durability::Volatile);
                    write.expect("write");
                    let data = vec![writer as u8 + 1; 8192];
                    let write = volume.write(context, shared, &data, Durability::Volatile);
                    write.expect("contended write");
                }
            });
        }
        scope.spawn(move || {
            let mut bytes = vec![0; 8192];
            for _ in 0..200 {
                volume
                    .read(context, shared, &mut bytes)
                    .expect("contended read");
                for block in bytes.chunks(512) {
                    let whole = block.iter().all(|b| *b == block[0]);
                    assert!(whole && u64::from(block[0]) <= WRITERS, "torn block");
                }
            }
        });
    });
    let mut piece = vec![0; PIECE_BYTES as usize];
    for number in 0..100 * WRITERS {
        volume
            .read(context, number * PIECE_BYTES, &mut piece)
            .expect("read");
        let expected = (number % WRITERS) as u8 + 1;
        assert!(piece.iter().all(|b| *b == expected), "piece {number}");
    }
}

//! Samples of cache blocks of the fast tier.

use super::super::POOL;
use format::config::Seal;
use format::tier::{
    BLOCK_HEADER_BYTES, BlockHeader, FrameHeader, TierEntry, TierKind, TierSeed, frame_bytes,
    frames_at,
};
use units::{Fingerprint, UnixNanos};

/// Returns blocks of a few short chunks.
pub fn blocks() -> Vec<Vec<u8>> {
    vec![
        block(TierKind::Data, 7, &[b"one", b"twenty-two", &[9; 300]]),
        block(TierKind::Directory, 0, &[b"one"]),
        block(TierKind::Recipe, 0, &[]),
    ]
}

fn block(kind: TierKind, class: u8, payloads: &[&[u8]]) -> Vec<u8> {
    let seed = TierSeed::new(POOL, &[6; 32]);
    let (mut directory, mut frames) = (Vec::new(), Vec::new());
    let frames_at = frames_at(payloads.len() as u32);
    for (n, payload) in (1u8..).zip(payloads) {
        let entry = TierEntry {
            fingerprint: Fingerprint([n; 32]),
            offset: frames_at as u32 + frames.len() as u32,
            payload_bytes: payload.len() as u32,
        };
        entry.encode(&mut directory);
        let header = FrameHeader {
            payload_bytes: entry.payload_bytes,
        };
        let end = frames.len() + frame_bytes(payload.len());
        frames.extend_from_slice(&header.encode());
        frames.extend_from_slice(payload);
        let bound = header.bound(9, entry.offset, &entry.fingerprint);
        frames.extend_from_slice(&seed.trailer(&bound, payload));
        frames.resize(end, 0);
    }
    let mut header = BlockHeader {
        pool: POOL,
        sequence: 9,
        written: UnixNanos(1_790_000_000_000_000_000),
        salt: [6; 32],
        slot: 4,
        block_bytes: 1 << 20,
        chunk_count: payloads.len() as u32,
        used_bytes: frames_at as u32 + frames.len() as u32,
        kind,
        class,
        seal: Seal::None,
        trailer: [0; 16],
    };
    header.trailer = seed.trailer(&header.bound(), &directory);
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(&directory);
    bytes.resize(bytes.len().max(BLOCK_HEADER_BYTES).next_multiple_of(16), 0);
    bytes.extend_from_slice(&frames);
    bytes
}

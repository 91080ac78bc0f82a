use super::*;

fn header() -> BlockHeader {
    BlockHeader {
        pool: PoolId([3; 16]),
        sequence: 9,
        written: UnixNanos(77),
        salt: [5; 32],
        slot: 4,
        block_bytes: 1 << 20,
        chunk_count: 2,
        used_bytes: 6000,
        kind: TierKind::Data,
        class: 7,
        seal: Seal::Aes256Gcm,
        trailer: [8; 16],
    }
}

fn decode(bytes: &[u8]) -> Result<BlockHeader> {
    BlockHeader::decode(bytes, PoolId([3; 16]), 4, 1 << 20)
}

#[test]
fn a_header_belongs_to_its_pool_and_slot() {
    let bytes = header().encode();
    assert_eq!(decode(&bytes), Ok(header()));
    let misplaced = |pool, slot, block_bytes| {
        let found = BlockHeader::decode(&bytes, pool, slot, block_bytes);
        assert_eq!(found.map_err(|e| e.fault), Err(Fault::Misplaced));
    };
    misplaced(PoolId([4; 16]), 4, 1 << 20);
    misplaced(PoolId([3; 16]), 5, 1 << 20);
    misplaced(PoolId([3; 16]), 4, 2 << 20);
    for at in 0..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 4;
        assert!(decode(&damaged).is_err(), "byte {at}");
        assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn impossible_headers_are_refused() {
    let refused = |change: fn(&mut BlockHeader)| {
        let mut header = header();
        change(&mut header);
        assert!(decode(&header.encode()).is_err(), "{header:?}");
    };
    refused(|h| h.used_bytes = h.block_bytes + 1);
    refused(|h| h.chunk_count = u32::MAX);
    refused(|h| h.chunk_count = 200);
    refused(|h| h.kind = TierKind::Recipe);
}

#[test]
fn entries_lie_in_their_block_one_after_another() {
    let entry = |n: u8, offset, payload_bytes| TierEntry {
        fingerprint: Fingerprint([n; 32]),
        offset,
        payload_bytes,
    };
    let decode = |entries: &[TierEntry]| {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        TierEntry::decode_all(&bytes, &header())
    };
    let good = [entry(1, 208, 4096), entry(2, 208 + 4128, 1)];
    assert_eq!(decode(&good), Ok(good.to_vec()));
    for bad in [
        [entry(0, 208, 4096), good[1]],
        [entry(1, 192, 4096), good[1]],
        [entry(1, 209, 4096), good[1]],
        [entry(1, 208, 0), good[1]],
        [entry(1, 208, 4097), good[1]],
        [good[0], entry(2, 6000 - 32, 1)],
        [good[1], good[0]],
    ] {
        assert!(decode(&bad).is_err(), "{bad:?}");
    }
    assert!(decode(&good[..1]).is_err());
}

#[test]
fn a_frame_comes_apart_again() {
    let header = FrameHeader { payload_bytes: 5 };
    let mut frame = header.encode().to_vec();
    frame.extend_from_slice(b"hello");
    frame.extend_from_slice(&[7; 16]);
    frame.resize(frame_bytes(5), 0);
    assert_eq!(
        FrameHeader::split(&frame),
        Ok((header, b"hello".as_slice(), [7; 16]))
    );
    for len in 0..frame.len() {
        assert!(FrameHeader::split(&frame[..len]).is_err());
    }
    frame.resize(frame.len() + 16, 0);
    assert!(FrameHeader::split(&frame).is_err());
}

#[test]
fn trailers_depend_on_pool_use_place_and_name() {
    let seed = TierSeed::new(PoolId([1; 16]), &[2; 32]);
    let frame = FrameHeader { payload_bytes: 1 };
    let name = Fingerprint([9; 32]);
    let first = seed.trailer(&frame.bound(1, 208, &name), b"x");
    let others = [
        TierSeed::new(PoolId([2; 16]), &[2; 32]).trailer(&frame.bound(1, 208, &name), b"x"),
        TierSeed::new(PoolId([1; 16]), &[3; 32]).trailer(&frame.bound(1, 208, &name), b"x"),
        seed.trailer(&frame.bound(2, 208, &name), b"x"),
        seed.trailer(&frame.bound(1, 224, &name), b"x"),
        seed.trailer(&frame.bound(1, 208, &Fingerprint([8; 32])), b"x"),
        seed.trailer(&frame.bound(1, 208, &name), b"y"),
    ];
    assert!(others.iter().all(|other| *other != first));
}

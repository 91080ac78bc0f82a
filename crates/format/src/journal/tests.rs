use super::*;
use crate::bytes::Fault;
use crate::config::Seal;
use units::VolumeId;

const POOL: PoolId = PoolId([7; 16]);
const AT: JournalPosition = JournalPosition(1 << 37);

fn seed() -> Seed {
    Seed::new(&POOL, &[1; 32])
}

fn record(kind: RecordKind) -> RecordHeader {
    let (data_bytes, len) = match kind {
        RecordKind::Write => (4096, 4096),
        RecordKind::Zero => (0, 1 << 40),
        RecordKind::Chunks => (64, 2),
    };
    RecordHeader {
        kind,
        data_bytes,
        volume: VolumeId([9; 16]),
        start: 12345,
        len,
        data_checksum: 77,
    }
}

fn header(first: u64) -> SlotHeader {
    SlotHeader {
        pool: POOL,
        slot: 3,
        seal: Seal::Aes256Gcm,
        first: JournalPosition(first),
        slot_bytes: 1 << 20,
        previous: JournalPosition(4096),
        continues_from: JournalPosition(8192),
        salt: [5; 32],
        tag: [6; 16],
    }
}

#[test]
fn records_and_batches_check_only_at_their_place() {
    for kind in [RecordKind::Write, RecordKind::Zero, RecordKind::Chunks] {
        let good = record(kind).encode(seed(), AT);
        assert_eq!(RecordHeader::decode(&good, seed(), AT), Ok(record(kind)));
        let elsewhere = JournalPosition(AT.0 + 16);
        assert!(RecordHeader::decode(&good, seed(), elsewhere).is_err());
        let other_use = Seed::new(&POOL, &[2; 32]);
        assert!(RecordHeader::decode(&good, other_use, AT).is_err());
        assert!(BatchHeader::decode(&good, seed(), AT).is_err());
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 4;
            assert!(RecordHeader::decode(&bad, seed(), AT).is_err(), "{at}");
        }
    }
    let batch = BatchHeader {
        used_bytes: 4160,
        at: AT,
        durable: JournalPosition(AT.0 - 4096),
    };
    let good = batch.encode(seed());
    assert_eq!(BatchHeader::decode(&good, seed(), AT), Ok(batch));
    assert_eq!(batch.batch_bytes(), 8192);
    assert!(RecordHeader::decode(&good, seed(), AT).is_err());
    for at in 0..good.len() {
        let mut bad = good;
        bad[at] ^= 4;
        assert!(BatchHeader::decode(&bad, seed(), AT).is_err(), "{at}");
    }
}

#[test]
fn what_no_writer_writes_is_refused() {
    let refused = |header: RecordHeader| {
        let bytes = header.encode(seed(), AT);
        RecordHeader::decode(&bytes, seed(), AT).is_err()
    };
    let write = record(RecordKind::Write);
    assert!(refused(RecordHeader { len: 4095, ..write }));
    let huge = 64 * 1024 + 1;
    assert!(refused(RecordHeader {
        len: huge,
        data_bytes: huge as u32,
        ..write
    }));
    let start = u64::MAX - 4095;
    assert!(refused(RecordHeader { start, ..write }));
    let zero = record(RecordKind::Zero);
    assert!(refused(RecordHeader { len: 0, ..zero }));
    let data_bytes = 1;
    assert!(refused(RecordHeader { data_bytes, ..zero }));
    let chunks = record(RecordKind::Chunks);
    assert!(refused(RecordHeader { len: 3, ..chunks }));
    assert!(refused(RecordHeader {
        len: u64::MAX,
        ..chunks
    }));
}

#[test]
fn either_copy_of_a_slot_header_is_enough() {
    let good = header(1 << 20).encode_page();
    assert_eq!(good.len(), BLOCK_BYTES);
    let used = |damaged| Ok(SlotPage::Used(header(1 << 20), damaged));
    assert_eq!(SlotHeader::decode_page(&good, 3), used(false));
    for at in (0..512).chain(2048..2560) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        // The checksum covers reserved bytes of the preamble like all others.
        assert_eq!(SlotHeader::decode_page(&bad, 3), used(true), "{at}");
    }
    let elsewhere = SlotHeader::decode_page(&good, 4).unwrap_err();
    assert_eq!(elsewhere.fault, Fault::Misplaced);
    for len in 0..good.len() {
        let _ = SlotHeader::decode_page(&good[..len], 3);
    }
    assert_eq!(
        SlotHeader::decode_page(&vec![0; 4096], 3),
        Ok(SlotPage::Unused)
    );
}

#[test]
fn a_torn_page_holds_the_old_use_or_the_new() {
    let (old, new) = (header(1 << 20).encode_page(), header(2 << 20).encode_page());
    let torn = [&old[..2048], &new[2048..]].concat();
    let newer = Ok(SlotPage::Used(header(2 << 20), false));
    assert_eq!(SlotHeader::decode_page(&torn, 3), newer);
    let torn = [&new[..2048], &old[2048..]].concat();
    assert_eq!(SlotHeader::decode_page(&torn, 3), newer);
    let torn = [&new[..2048], &[0; 2048]].concat();
    assert_eq!(SlotHeader::decode_page(&torn, 3), newer);
}

#[test]
fn impossible_slots_are_refused() {
    let refused = |header: SlotHeader| SlotHeader::decode_page(&header.encode_page(), 3).is_err();
    assert!(!refused(header(1 << 20)));
    assert!(refused(header(0)));
    assert!(refused(header((1 << 20) + 512)));
    assert!(refused(header(u64::MAX - 4095)));
    let slot_bytes = (1 << 20) + 1;
    assert!(refused(SlotHeader {
        slot_bytes,
        ..header(1 << 20)
    }));
    let continues_from = JournalPosition((1 << 20) + 1);
    assert!(refused(SlotHeader {
        continues_from,
        ..header(1 << 20)
    }));
    let previous = JournalPosition(8193);
    assert!(refused(SlotHeader {
        previous,
        ..header(1 << 20)
    }));
}

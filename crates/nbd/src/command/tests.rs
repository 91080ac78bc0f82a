//! Tests every command over a real session, in all reply styles.

use crate::test_client::{Client, serving};
use crate::wire::constants::{EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};
use crate::wire::constants::{chunk, command_flag as flag};
use crate::wire::requests::Command;
use std::sync::Arc;
use volume::{
    Durability, Failure, Faulty, MemoryVolume, Operation, ReadOnly, RequestContext, Volume,
    VolumeErrorKind,
};

const SIZE: u64 = 1 << 20;
/// Options that lead to simple, structured and extended replies.
const STYLES: [&[u32]; 3] = [&[], &[8, 10], &[11, 10]];

fn disk() -> Arc<MemoryVolume> {
    let volume = MemoryVolume::new(SIZE);
    let data: Vec<u8> = (0..65_536_u32).map(|i| (i % 251) as u8 + 1).collect();
    let write = volume.write(
        RequestContext::default(),
        131_072,
        &data,
        Durability::Volatile,
    );
    write.unwrap();
    Arc::new(volume)
}

/// Every reply to a read has the form that was agreed on, that to an empty one and an error too.
#[test]
fn reads_are_answered_in_the_form_that_was_agreed_on() {
    let magics = [
        SIMPLE_REPLY_MAGIC,
        STRUCTURED_REPLY_MAGIC,
        EXTENDED_REPLY_MAGIC,
    ];
    for (style, magic) in STYLES.into_iter().zip(magics) {
        let (mut client, _thread, _) = serving(disk(), style);
        for (offset, len) in [(0, 0), (SIZE, 0), (0, 1), (SIZE + 1, 0), (SIZE, 1)] {
            let cookie = client.ask(Command::Read, 0, offset, len);
            let reply = client.reply(len as usize);
            assert_eq!(reply.magic, magic, "{style:?} {offset} {len}");
            assert_eq!((reply.cookie, reply.done), (cookie, true));
            assert_eq!(reply.error != 0, offset + len > SIZE);
            if len == 0 && reply.error == 0 {
                assert_eq!((reply.kind, reply.payload.len()), (chunk::NONE, 0));
            }
        }
    }
}

/// Reads and joins all chunks.
fn read(client: &mut Client, flags: u16, offset: u64, len: usize) -> (Vec<u8>, Vec<u16>) {
    let cookie = client.ask(Command::Read, flags, offset, len as u64);
    let mut bytes = vec![0xcc; len];
    let mut kinds = Vec::new();
    loop {
        let reply = client.reply(len);
        assert_eq!((reply.cookie, reply.error), (cookie, 0));
        kinds.push(reply.kind);
        let place = |payload: &[u8]| {
            let at = u64::from_be_bytes(payload[..8].try_into().unwrap());
            (at - offset) as usize
        };
        match reply.kind {
            chunk::OFFSET_DATA => {
                let at = place(&reply.payload);
                let data = &reply.payload[8..];
                bytes[at..at + data.len()].copy_from_slice(data);
            }
            chunk::OFFSET_HOLE => {
                let at = place(&reply.payload);
                let hole = u32::from_be_bytes(reply.payload[8..].try_into().unwrap());
                bytes[at..at + hole as usize].fill(0);
            }
            _ if !reply.payload.is_empty() => bytes.copy_from_slice(&reply.payload),
            _ => {}
        }
        if reply.done {
            return (bytes, kinds);
        }
    }
}

#[test]
fn reads_are_right_in_every_style() {
    let volume = disk();
    for style in STYLES {
        let (mut client, thread, _) = serving(volume.clone(), style);
        for (offset, len) in [
            (0, 0),
            (131_000, 500),
            (0, SIZE as usize),
            (131_072 + 65_000, 70_000),
            (SIZE - 1, 1),
        ] {
            for flags in [0, flag::FUA, flag::DF] {
                if flags == flag::DF && style.is_empty() {
                    continue;
                }
                let mut expected = vec![0; len];
                volume
                    .read(RequestContext::default(), offset, &mut expected)
                    .unwrap();
                let (bytes, kinds) = read(&mut client, flags, offset, len);
                assert!(bytes == expected, "{style:?} {offset} {len}");
                assert!(flags != flag::DF || kinds.len() == 1);
            }
        }
        client.ask(Command::Disconnect, 0, 0, 0);
        assert!(client.closed());
        thread.join().unwrap();
    }
}

#[test]
fn holes_are_sent_as_holes() {
    let (mut client, _thread, _) = serving(disk(), &[8]);
    let (_, kinds) = read(&mut client, 0, 0, 1 << 20);
    let (data, hole) = (chunk::OFFSET_DATA, chunk::OFFSET_HOLE);
    assert_eq!(kinds, [hole, data, hole]);
    let (_, kinds) = read(&mut client, flag::DF, 0, 1 << 20);
    assert_eq!(kinds, [data]);
    let (_, kinds) = read(&mut client, 0, 0, 4096);
    assert_eq!(kinds, [data], "small reads do not look for holes");
}

#[test]
fn writes_zeroes_and_trims() {
    for style in STYLES {
        let volume = Arc::new(MemoryVolume::new(SIZE));
        let (mut client, _thread, counters) = serving(volume, style);
        let payload = if client.extended {
            flag::PAYLOAD_LEN
        } else {
            0
        };
        let data = vec![7; 100_000];
        client.ask(Command::Write, payload, 5000, 100_000);
        client.send(&data);
        assert_eq!(client.reply(0).error, 0);
        assert_eq!(read(&mut client, 0, 5000, 100_000).0, data);
        client.ask(Command::Write, payload | flag::FUA, 5000, 1);
        client.send(&[8]);
        assert_eq!(client.reply(0).error, 0);
        assert_eq!(client.errno(Command::Flush, 0, 0, 0), 0);
        assert_eq!(client.errno(Command::Trim, flag::FUA, 5001, 10), 0);
        assert_eq!(
            client.errno(Command::WriteZeroes, flag::NO_HOLE, 5011, 10),
            0
        );
        assert_eq!(
            client.errno(Command::WriteZeroes, flag::FAST_ZERO, 5021, 10),
            0
        );
        let both = flag::FAST_ZERO | flag::NO_HOLE;
        assert_eq!(client.errno(Command::WriteZeroes, both, 5031, 10), 95);
        assert_eq!(client.errno(Command::Cache, 0, 0, SIZE), 0);
        let expected = [&[0, 8][..], &[0; 30], &[7; 10]].concat();
        assert_eq!(read(&mut client, 0, 4999, 42).0, expected);
        let stats = counters.snapshot(0);
        assert_eq!(stats.written_bytes_total, 100_001);
        assert_eq!(stats.errors_total, 1);
    }
}

#[test]
fn what_is_wrong_is_refused_and_the_connection_lives() {
    for style in STYLES {
        let (mut client, _thread, _) = serving(disk(), style);
        assert_eq!(client.errno(Command::Read, 0, SIZE, 1), 22);
        assert_eq!(client.errno(Command::Read, 0, u64::MAX, 4096), 22);
        assert_eq!(client.errno(Command::Read, 0, 0, (32 << 20) + 1), 22);
        assert_eq!(client.errno(Command::Read, flag::NO_HOLE, 0, 1), 22);
        assert_eq!(client.errno(Command::Read, 1 << 15, 0, 1), 22);
        assert_eq!(client.errno(Command::Trim, 0, SIZE - 1, 2), 22);
        assert_eq!(client.errno(Command::Cache, 0, SIZE, 1), 22);
        assert_eq!(client.errno(Command::WriteZeroes, 0, SIZE, 1), 28);
        assert_eq!(client.errno(Command::BlockStatus, 0, 0, 0), 22);
        assert_eq!(client.errno(Command::BlockStatus, 0, SIZE, 1), 22);
        let payload = if client.extended { 32 } else { 0 };
        client.ask(Command::Write, payload, SIZE - 1, 2);
        client.send(&[1, 1]);
        assert_eq!(client.reply(0).error, 28);
        if client.extended {
            client.ask(Command::Read, flag::PAYLOAD_LEN, 0, 5);
            client.send(b"bytes");
            assert_eq!(client.reply(0).error, 22);
            // qemu does the same.
            client.ask(Command::Write, 0, 100, 5);
            client.send(b"bytes");
            assert_eq!(client.reply(0).error, 0);
            assert_eq!(read(&mut client, 0, 100, 5).0, b"bytes");
        }
        assert_eq!(read(&mut client, 0, 0, 10).0, [0; 10]);
    }
}

#[test]
fn a_read_only_export_stays_as_it_is() {
    let (mut client, _thread, _) = serving(Arc::new(ReadOnly::new(disk())), &[8]);
    client.ask(Command::Write, 0, 0, 3);
    client.send(b"abc");
    assert_eq!(client.reply(0).error, 1);
    assert_eq!(client.errno(Command::Trim, 0, 0, 3), 1);
    assert_eq!(client.errno(Command::WriteZeroes, 0, 0, 3), 1);
    assert_eq!(client.errno(Command::Flush, 0, 0, 0), 0);
    assert_eq!(read(&mut client, 0, 0, 3).0, [0; 3]);
}

#[test]
fn block_status_describes_extents() {
    let (hole, data) = (3, 0);
    let (mut client, _thread, _) = serving(disk(), &[8, 10]);
    client.ask(Command::BlockStatus, 0, 1000, SIZE - 1000);
    let reply = client.reply(0);
    assert_eq!((reply.kind, reply.done), (chunk::BLOCK_STATUS, true));
    let words = |bytes: &[u8]| -> Vec<u32> {
        let word = |b: &[u8]| u32::from_be_bytes(b.try_into().unwrap());
        bytes.chunks(4).map(word).collect()
    };
    let rest = (SIZE - 131_072 - 65_536) as u32;
    let expected = [1, 130_072, hole, 65_536, data, rest, hole];
    assert_eq!(words(&reply.payload), expected);
    client.ask(Command::BlockStatus, flag::REQ_ONE, 0, 1000);
    assert_eq!(words(&client.reply(0).payload), [1, 1000, hole]);

    let (mut client, _thread, _) = serving(disk(), &[11, 10]);
    client.ask(Command::BlockStatus, 0, 131_072, 65_537);
    let reply = client.reply(0);
    assert_eq!(reply.kind, chunk::BLOCK_STATUS_EXT);
    let expected = [1, 2, 0, 65_536, 0, data, 0, 1, 0, hole];
    assert_eq!(words(&reply.payload), expected);

    let (mut client, _thread, _) = serving(disk(), &[8]);
    assert_eq!(
        client.errno(Command::BlockStatus, 0, 0, 1),
        22,
        "not chosen"
    );
}

#[test]
fn extended_lengths_go_beyond_32_bits() {
    let volume = Arc::new(MemoryVolume::new(1 << 45));
    let (mut client, _thread, _) = serving(volume, &[11, 10]);
    assert_eq!(client.errno(Command::Cache, 0, 0, 1 << 45), 0);
    client.ask(Command::BlockStatus, 0, 0, 1 << 34);
    let payload = client.reply(0).payload;
    assert_eq!(payload[8..16], (1_u64 << 34).to_be_bytes());
    assert_eq!(client.errno(Command::Read, 0, 0, 1 << 34), 22);
}

#[test]
fn each_error_kind_has_its_number() {
    for (kind, number) in [
        (VolumeErrorKind::Io, 5),
        (VolumeErrorKind::Failed, 5),
        (VolumeErrorKind::NoSpace, 28),
        (VolumeErrorKind::Unsupported, 95),
        (VolumeErrorKind::ReadOnly, 1),
    ] {
        for style in STYLES {
            let all = [
                Operation::Read,
                Operation::Write,
                Operation::Flush,
                Operation::Discard,
                Operation::WriteZeroes,
                Operation::Extents,
            ];
            let failures = all.map(|operation| Failure::always(operation, kind));
            let faulty = Faulty::new(disk(), failures.to_vec());
            let (mut client, _thread, _) = serving(Arc::new(faulty), style);
            // This also holds when half of the data is already in the output.
            assert_eq!(client.errno(Command::Read, 0, 0, 4096), number);
            assert_eq!(client.errno(Command::Read, 0, 0, SIZE), number);
            assert_eq!(client.errno(Command::Flush, 0, 0, 0), number);
            assert_eq!(client.errno(Command::Trim, 0, 0, 1), number);
            assert_eq!(client.errno(Command::WriteZeroes, 0, 0, 1), number);
            if !style.is_empty() {
                assert_eq!(client.errno(Command::BlockStatus, 0, 0, 1), number);
            }
        }
    }
}

use super::constants::opcode;
use super::replies::{
    Agreement, Attributes, DirectoryLine, Node, Statistics, Time, directory_line, line_bytes,
};
use super::requests::{Offer, Operation, Range, RequestHeader, decode, decode_header};
use super::{Handle, NodeId, replies};
use crate::test_kernel::{long_at, longs, offer, range, request, word_at, words};
use rustix::fs::OFlags;
use std::time::Duration;

fn operation(code: u32, body: &[u8]) -> Option<Operation<'static>> {
    let bytes = request(code, NodeId(7), 9, body).leak();
    let (header, operation) = decode(bytes)?;
    let expected = RequestHeader {
        opcode: code,
        unique: 9,
        node: NodeId(7),
        uid: 1000,
        gid: 1001,
        pid: 4242,
    };
    assert_eq!(header, expected);
    Some(operation)
}

/// Returns every layout with the length that the kernel's header gives it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn bodies() -> Vec<(u32, Vec<u8>, Operation<'static>)> {
    let handle = Handle(5);
    let some = Range {
        handle,
        offset: 6,
        len: 7,
        is_direct: false,
    };
    let past_cache = Range {
        is_direct: true,
        ..some
    };
    let direct = OFlags::DIRECT.bits();
    let name = b"name\0".to_vec();
    vec![
        (
            opcode::LOOKUP,
            name.clone(),
            Operation::Lookup { name: b"name" },
        ),
        (
            opcode::FORGET,
            longs(&[3]),
            Operation::Forget { lookups: 3 },
        ),
        (opcode::GETATTR, longs(&[0, 0]), Operation::GetAttributes),
        (
            opcode::SETATTR,
            [words(&[8, 0]), longs(&[5, 600]), vec![0; 64]].concat(),
            Operation::SetAttributes {
                valid: 8,
                size: 600,
            },
        ),
        (opcode::READLINK, Vec::new(), Operation::ReadLink),
        (
            opcode::OPEN,
            words(&[2, 0]),
            Operation::Open {
                flags: 2,
                directory: false,
            },
        ),
        (
            opcode::OPENDIR,
            words(&[0, 0]),
            Operation::Open {
                flags: 0,
                directory: true,
            },
        ),
        (opcode::READ, range(5, 6, 7), Operation::Read(some)),
        (
            opcode::READ,
            [longs(&[5, 6]), words(&[7, 0, 0, 0, direct, 0])].concat(),
            Operation::Read(past_cache),
        ),
        (
            opcode::WRITE,
            [
                longs(&[5, 6]),
                words(&[7, 0, 0, 0, direct | 1, 0]),
                b"content".to_vec(),
            ]
            .concat(),
            Operation::Write {
                range: past_cache,
                data: b"content",
                is_synchronous: false,
            },
        ),
        (
            opcode::WRITE,
            [range(5, 6, 7), b"content".to_vec()].concat(),
            Operation::Write {
                range: some,
                data: b"content",
                is_synchronous: false,
            },
        ),
        (
            opcode::WRITE,
            // The flags of O_WRONLY and RWF_DSYNC.
            [
                longs(&[5, 6]),
                words(&[7, 0, 0, 0, 0x1001, 0]),
                b"content".to_vec(),
            ]
            .concat(),
            Operation::Write {
                range: some,
                data: b"content",
                is_synchronous: true,
            },
        ),
        (
            opcode::READDIRPLUS,
            range(5, 6, 7),
            Operation::ReadDirectory {
                range: some,
                plus: true,
            },
        ),
        (
            opcode::RELEASE,
            longs(&[5, 0, 0]),
            Operation::Release {
                handle,
                directory: false,
            },
        ),
        (
            opcode::FSYNC,
            longs(&[5, 1]),
            Operation::Sync {
                handle,
                directory: false,
            },
        ),
        (
            opcode::GETXATTR,
            [words(&[8, 0]), name].concat(),
            Operation::GetXattr {
                name: b"name",
                room: 8,
            },
        ),
        (
            opcode::LISTXATTR,
            words(&[8, 0]),
            Operation::ListXattrs { room: 8 },
        ),
        (opcode::STATFS, Vec::new(), Operation::Statistics),
        (
            opcode::FALLOCATE,
            [longs(&[5, 6, 7]), words(&[3, 0])].concat(),
            Operation::Allocate {
                handle,
                offset: 6,
                len: 7,
                mode: 3,
            },
        ),
        (
            opcode::LSEEK,
            [longs(&[5, 6]), words(&[4, 0])].concat(),
            Operation::Seek {
                handle,
                offset: 6,
                whence: 4,
            },
        ),
    ]
}

#[test]
fn requests_as_the_kernel_lays_them_out() {
    for (code, body, expected) in bodies() {
        assert_eq!(operation(code, &body), Some(expected), "opcode {code}");
        // A newer kernel appends fields.
        let longer = [body, vec![0xee; 16]].concat();
        assert_eq!(operation(code, &longer), Some(expected), "opcode {code}");
    }
    assert_eq!(operation(opcode::DESTROY, &[]), Some(Operation::Destroy));
    assert_eq!(operation(999, b"anything"), Some(Operation::Other));
}

#[test]
fn short_requests_are_refused() {
    for (code, body, expected) in bodies() {
        let read_to = match expected {
            Operation::GetAttributes | Operation::Statistics | Operation::ReadLink => continue,
            // Their last fields are ignored.
            Operation::Open { .. } | Operation::ListXattrs { .. } => 4,
            Operation::Release { .. } | Operation::Sync { .. } => 8,
            Operation::Allocate { .. } | Operation::Seek { .. } => body.len() - 4,
            _ => body.len(),
        };
        for len in 0..read_to {
            assert_eq!(operation(code, &body[..len]), None, "opcode {code}, {len}");
        }
    }
    let whole = request(opcode::DESTROY, NodeId(1), 1, &[]);
    for len in 0..whole.len() {
        assert_eq!(decode_header(&whole[..len]), None);
    }
}

#[test]
fn batches_of_forgets() {
    let body = [words(&[2, 0]), longs(&[3, 1, 4, 10])].concat();
    let Some(Operation::BatchForget(forgets)) = operation(opcode::BATCH_FORGET, &body) else {
        panic!("not a batch");
    };
    let all: Vec<_> = forgets.iter().collect();
    assert_eq!(all, [(NodeId(3), 1), (NodeId(4), 10)]);
    let lies = [words(&[3, 0]), longs(&[3, 1, 4, 10])].concat();
    assert_eq!(operation(opcode::BATCH_FORGET, &lies), None);
    let lies = [words(&[u32::MAX, 0]), longs(&[3, 1])].concat();
    assert_eq!(operation(opcode::BATCH_FORGET, &lies), None);
}

#[test]
fn offers() {
    let short = words(&[7, 27, 4096, 3]);
    let expected = Offer {
        major: 7,
        minor: 27,
        readahead_bytes_max: 4096,
        flags: 3,
    };
    assert_eq!(
        operation(opcode::INIT, &short),
        Some(Operation::Init(expected))
    );
    let long = [words(&[7, 45, 4096, 1 << 30 | 3, 5]), vec![0; 44]].concat();
    let Some(Operation::Init(found)) = operation(opcode::INIT, &long) else {
        panic!("not an offer");
    };
    assert_eq!(found.flags, 5 << 32 | 1 << 30 | 3);
    assert!(operation(opcode::INIT, &offer(38)).is_some());
}

/// Checks lengths and offsets of `include/uapi/linux/fuse.h`.
#[test]
fn replies_as_the_kernel_lays_them_out() {
    let attributes = Attributes {
        inode: 11,
        size_bytes: 12,
        blocks: 13,
        modified: Time {
            seconds: -14,
            nanos: 15,
        },
        changed: Time {
            seconds: 16,
            nanos: 17,
        },
        mode: 0o100_644,
        links: 18,
        uid: 19,
        gid: 20,
        device: 21,
        block_bytes: 22,
    };
    let valid = Duration::new(23, 24);
    let mut to = Vec::new();
    replies::attributes(&mut to, &attributes, valid);
    assert_eq!(to.len(), 16 + 88);
    assert_eq!((long_at(&to, 0), word_at(&to, 8)), (23, 24));
    let attr = &to[16..];
    let longs: Vec<u64> = (0..6).map(|n| long_at(attr, n * 8)).collect();
    assert_eq!(longs, [11, 12, 13, -14i64 as u64, -14i64 as u64, 16]);
    let words: Vec<u32> = (0..10).map(|n| word_at(attr, 48 + n * 4)).collect();
    assert_eq!(words, [15, 15, 17, 0o100_644, 18, 19, 20, 21, 22, 0]);

    let node = Node {
        node: NodeId(25),
        attributes,
        valid,
    };
    let mut entry = Vec::new();
    replies::node(&mut entry, &node);
    assert_eq!(entry.len(), 128);
    let head: Vec<u64> = (0..4).map(|n| long_at(&entry, n * 8)).collect();
    assert_eq!(head, [25, 0, 23, 23]);
    assert_eq!((word_at(&entry, 32), word_at(&entry, 36)), (24, 24));
    assert_eq!(&entry[40..], attr);

    let mut line = Vec::new();
    let shown = DirectoryLine {
        name: b"abc",
        inode: 11,
        mode: 0o040_755,
        next: 26,
    };
    directory_line(&mut line, &shown, Some(&node));
    assert_eq!(
        (line.len(), &line[..128]),
        (line_bytes(3, true), &entry[..])
    );
    let plain = &line[128..];
    assert_eq!(plain.len(), line_bytes(3, false));
    assert_eq!(plain.len() % 8, 0);
    assert_eq!((long_at(plain, 0), long_at(plain, 8)), (11, 26));
    assert_eq!((word_at(plain, 16), word_at(plain, 20)), (3, 4));
    assert_eq!(&plain[24..27], b"abc");

    let mut to = Vec::new();
    let numbers = Statistics {
        blocks: 31,
        blocks_free: 32,
        block_bytes: 33,
    };
    replies::statistics(&mut to, &numbers);
    assert_eq!(to.len(), 80);
    assert_eq!(
        (long_at(&to, 0), long_at(&to, 8), word_at(&to, 40)),
        (31, 32, 33)
    );
    for (encode, expected) in [
        (
            &(|to: &mut Vec<u8>| replies::opened(to, Handle(1), 2)) as &dyn Fn(&mut Vec<u8>),
            16,
        ),
        (&|to| replies::length(to, 1), 8),
        (&|to| replies::position(to, 1), 8),
    ] {
        let mut to = Vec::new();
        encode(&mut to);
        assert_eq!(to.len(), expected);
    }
}

#[test]
fn agreements() {
    let agreed = Agreement {
        minor: 38,
        readahead_bytes_max: 1,
        flags: 2 << 32 | 3,
        background_max: 4,
        congestion_threshold: 5,
        write_bytes_max: 6,
        pages_max: 7,
    };
    let mut to = Vec::new();
    replies::agreement(&mut to, &agreed);
    assert_eq!(to.len(), 64);
    let words: Vec<u32> = (0..4).map(|n| word_at(&to, n * 4)).collect();
    assert_eq!(words, [7, 38, 1, 3]);
    assert_eq!(
        (word_at(&to, 20), word_at(&to, 24), word_at(&to, 32)),
        (6, 1, 2)
    );
    assert_eq!(u16::from_ne_bytes([to[16], to[17]]), 4);
    assert_eq!(u16::from_ne_bytes([to[28], to[29]]), 7);
}

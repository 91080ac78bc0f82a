//! The client against this crate's server, and against servers that lie.
//!
//! Invariant: every lie is an error; no test waits for a liar longer than its connection lasts.

use super::*;
use crate::exports::FixedExports;
use crate::test_client;
use crate::wire::constants::{MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC};
use std::collections::VecDeque;
use std::sync::Arc;
use volume::{Durability, MemoryVolume, RequestContext, Volume};

/// A server whose every byte is decided beforehand.
struct Liar {
    says: VecDeque<u8>,
}

impl Read for Liar {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.says.read(into)
    }
}

impl Write for Liar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn numbers(parts: &[(u64, usize)]) -> Vec<u8> {
    let of = |(number, len): &(u64, usize)| number.to_be_bytes()[8 - len..].to_vec();
    parts.iter().flat_map(of).collect()
}

fn option_reply(option: u64, kind: u64, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u64;
    let mut bytes = numbers(&[(OPTION_REPLY_MAGIC, 8), (option, 4), (kind, 4), (len, 4)]);
    bytes.extend(data);
    bytes
}

fn greeting() -> Vec<u8> {
    numbers(&[(MAGIC, 8), (OPTION_MAGIC, 8), (3, 2)])
}

/// A handshake with all abilities, an export of `size` bytes and blocks of `blocks`.
fn handshake(size: u64, blocks: [u64; 3]) -> Vec<u8> {
    let mut bytes = greeting();
    bytes.extend(option_reply(8, 1, &[]));
    let mut context = numbers(&[(7, 4)]);
    context.extend(b"base:allocation");
    bytes.extend(option_reply(10, 4, &context));
    bytes.extend(option_reply(10, 1, &[]));
    bytes.extend(option_reply(7, 3, &numbers(&[(0, 2), (size, 8), (1, 2)])));
    let [least, usual, most] = blocks;
    let blocks = numbers(&[(3, 2), (least, 4), (usual, 4), (most, 4)]);
    bytes.extend(option_reply(7, 3, &blocks));
    bytes.extend(option_reply(7, 1, &[]));
    bytes
}

fn chunk_of(cookie: u64, flags: u64, kind: u64, data: &[u8]) -> Vec<u8> {
    let magic = u64::from(STRUCTURED_REPLY_MAGIC);
    let len = data.len() as u64;
    let mut bytes = numbers(&[(magic, 4), (flags, 2), (kind, 2), (cookie, 8), (len, 4)]);
    bytes.extend(data);
    bytes
}

fn data(offset: u64, bytes: &[u8]) -> Vec<u8> {
    [numbers(&[(offset, 8)]), bytes.to_vec()].concat()
}

const DONE: u64 = 1;

fn connect(says: Vec<u8>) -> Result<Client<Liar>> {
    let says = says.into();
    Client::connect(Liar { says }, "x")
}

/// The first read of 8 bytes at 4 of an export of 4096.
fn read(answer: &[Vec<u8>]) -> Result<[u8; 8]> {
    let says = [handshake(4096, [1, 4096, 1 << 20]), answer.concat()].concat();
    let mut into = [0xee; 8];
    connect(says)?.read(4, &mut into)?;
    Ok(into)
}

fn extents(answer: &[Vec<u8>]) -> Result<Vec<ExportExtent>> {
    let says = [handshake(4096, [1, 4096, 1 << 20]), answer.concat()].concat();
    connect(says)?.extents(0)
}

#[test]
fn own_server_is_understood() {
    let volume = Arc::new(MemoryVolume::new(1 << 20));
    let context = RequestContext::default();
    volume
        .write(context, 5000, b"hello", Durability::Volatile)
        .unwrap();
    let exports = Arc::new(FixedExports::default().with("disk", volume));
    let (far, thread, _) = test_client::session(exports, |_| {});
    let mut client = Client::connect(&far.stream, "disk").unwrap();
    assert_eq!(client.size(), 1 << 20);
    let mut into = vec![9; 300_000];
    client.read(4999, &mut into).unwrap();
    assert_eq!(&into[..7], b"\0hello\0");
    let mut at = 0;
    while at < client.size() {
        at += client
            .extents(at)
            .unwrap()
            .iter()
            .map(|e| e.len)
            .sum::<u64>();
    }
    assert_eq!(at, client.size());
    client.disconnect();
    thread.join().unwrap();
    let exports = Arc::new(FixedExports::default());
    let (far, _thread, _) = test_client::session(exports, |_| {});
    let refused = Client::connect(&far.stream, "other").err().unwrap();
    assert!(matches!(refused, ClientError::Refused(_)), "{refused}");
}

#[test]
fn lies_of_a_handshake_are_errors() {
    let ack = |option| option_reply(option, 1, &[]);
    let long = numbers(&[(OPTION_REPLY_MAGIC, 8), (8, 4), (1, 4), (1 << 30, 4)]);
    let endless = option_reply(7, 3, &numbers(&[(9, 2)])).repeat(100);
    let unsupported = |option| option_reply(option, (1 << 31) | 1, &[]);
    let cases: [(&str, Vec<u8>); 10] = [
        ("nothing", Vec::new()),
        (
            "another protocol",
            b"SSH-2.0-OpenSSH_9.2\r\n and more".to_vec(),
        ),
        ("old", numbers(&[(MAGIC, 8), (OPTION_MAGIC, 8), (0, 2)])),
        ("reply to another option", [greeting(), ack(9)].concat()),
        ("long reply", [greeting(), long].concat()),
        ("no end", [greeting(), unsupported(8), endless].concat()),
        ("no size", [greeting(), unsupported(8), ack(7)].concat()),
        ("absurd size", handshake(u64::MAX, [1, 4096, 4096])),
        ("absurd blocks", handshake(4096, [0, 0, 0])),
        ("largest below smallest", handshake(4096, [4096, 4096, 512])),
    ];
    for (what, says) in cases {
        let error = connect(says).err().expect(what);
        let is_expected = matches!(error, ClientError::Protocol(_) | ClientError::Closed);
        assert!(is_expected, "{what}: {error}");
    }
    let tls = [greeting(), option_reply(8, (1 << 31) | 5, b"no")].concat();
    let error = connect(tls).err().unwrap().to_string();
    assert!(error.contains("TLS") && error.contains("ssh"), "{error}");
}

#[test]
fn a_read_is_what_was_asked_for_or_an_error() {
    let whole = || chunk_of(1, DONE, 1, &data(4, b"abcdefgh"));
    assert_eq!(&read(&[whole()]).unwrap(), b"abcdefgh");
    let (late, early) = (data(8, b"efgh"), numbers(&[(4, 8), (4, 4)]));
    let parts = [chunk_of(1, 0, 1, &late), chunk_of(1, DONE, 2, &early)];
    assert_eq!(&read(&parts).unwrap(), b"\0\0\0\0efgh");
    for (what, answer) in [
        (
            "wrong handle",
            vec![chunk_of(2, DONE, 1, &data(4, b"abcdefgh"))],
        ),
        ("short", vec![chunk_of(1, DONE, 1, &data(4, b"abcd"))]),
        (
            "gap",
            vec![
                chunk_of(1, 0, 1, &data(4, b"ab")),
                chunk_of(1, DONE, 1, &data(8, b"efgh")),
            ],
        ),
        (
            "twice",
            vec![chunk_of(1, 0, 1, &data(4, b"abcdefgh")), whole()],
        ),
        ("outside", vec![chunk_of(1, DONE, 1, &data(0, b"abcdefgh"))]),
        ("long", vec![chunk_of(1, DONE, 1, &data(4, b"abcdefghi"))]),
        (
            "far away",
            vec![chunk_of(1, DONE, 1, &data(u64::MAX, b"abcdefgh"))],
        ),
        (
            "hole without bytes",
            vec![chunk_of(1, DONE, 2, &numbers(&[(4, 8), (0, 4)]))],
        ),
        ("nothing", vec![chunk_of(1, DONE, 0, &[])]),
        ("an unknown chunk", vec![chunk_of(1, DONE, 77, &[])]),
        (
            "no error",
            vec![chunk_of(1, DONE, 0x8001, &numbers(&[(0, 4), (0, 2)]))],
        ),
        (
            "no end",
            vec![chunk_of(1, 0, 0, &[]).repeat(CHUNKS_MAX + 1)],
        ),
        ("no magic", vec![vec![0; 100]]),
        ("silence", vec![]),
    ] {
        let error = read(&answer).expect_err(what);
        let is_expected = matches!(error, ClientError::Protocol(_) | ClientError::Closed);
        assert!(is_expected, "{what}: {error}");
    }
}

#[test]
fn errors_of_a_request_leave_the_connection_usable() {
    let failed = chunk_of(1, DONE, 0x8001, &numbers(&[(5, 4), (0, 2)]));
    let simple = numbers(&[(u64::from(SIMPLE_REPLY_MAGIC), 4), (5, 4), (2, 8)]);
    let fine = chunk_of(3, DONE, 1, &data(0, b"ab"));
    let says = [handshake(4096, [1, 1, 4096]), failed, simple, fine].concat();
    let mut client = connect(says).unwrap();
    let mut into = [0; 2];
    for _ in 0..2 {
        let error = client.read(0, &mut into).unwrap_err();
        assert!(matches!(error, ClientError::Request(5)), "{error}");
    }
    client.read(0, &mut into).unwrap();
    assert_eq!(&into, b"ab");
}

#[test]
fn blocks_are_asked_for_whole() {
    let block = [7; 512];
    let first = chunk_of(1, DONE, 1, &data(0, &block));
    let second = chunk_of(2, DONE, 1, &data(512, &[8; 488]));
    let says = [handshake(1000, [512, 512, 512]), first, second].concat();
    let mut into = [0; 20];
    connect(says).unwrap().read(502, &mut into).unwrap();
    assert_eq!(into, [[7; 10], [8; 10]].concat()[..]);
}

#[test]
fn zeroes_are_believed_only_in_order() {
    let status = |parts: &[(u64, usize)]| chunk_of(1, DONE, 5, &numbers(parts));
    let found = extents(&[status(&[(7, 4), (1024, 4), (3, 4), (9000, 4), (1, 4)])]).unwrap();
    let extent = |len, zero| ExportExtent { len, zero };
    assert_eq!(found, [extent(1024, true), extent(3072, false)]);
    for (what, answer) in [
        ("of another context", status(&[(8, 4), (4096, 4), (0, 4)])),
        ("of no length", status(&[(7, 4), (0, 4), (3, 4)])),
        (
            "behind the end",
            status(&[(7, 4), (4096, 4), (0, 4), (1, 4), (3, 4)]),
        ),
        ("cut", status(&[(7, 4), (4096, 4)])),
        ("empty", status(&[(7, 4)])),
        ("nothing", chunk_of(1, DONE, 0, &[])),
        (
            "huge",
            numbers(&[
                (u64::from(STRUCTURED_REPLY_MAGIC), 4),
                (1, 2),
                (5, 2),
                (1, 8),
                (1 << 30, 4),
            ]),
        ),
    ] {
        let error = extents(&[answer]).expect_err(what);
        assert!(matches!(error, ClientError::Protocol(_)), "{what}: {error}");
    }
    let failed = chunk_of(1, DONE, 0x8001, &numbers(&[(5, 4), (0, 2)]));
    assert!(matches!(extents(&[failed]), Err(ClientError::Request(5))));
}

//! Tests golden bytes of every layout.

use super::constants::chunk;
use super::options::{self, InfoRequest, OptionHeader, OptionKind, ReplyKind};
use super::replies::{self, ChunkHeader, Errno, Style};
use super::requests::{self, Command, NbdRequest};

#[test]
fn greeting() {
    assert_eq!(&options::encode_greeting(), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn option_header() {
    let bytes = b"IHAVEOPT\0\0\0\x07\0\0\x01\x02";
    let header = OptionHeader {
        option: OptionKind::Go as u32,
        data_bytes: 258,
    };
    assert_eq!(options::decode_header(bytes), Some(header));
    assert_eq!(options::decode_header(&bytes[..15]), None);
    assert_eq!(options::decode_header(b"IHAVEOPS\0\0\0\x07\0\0\0\0"), None);
}

#[test]
fn option_reply() {
    let mut out = Vec::new();
    options::encode_reply(&mut out, 7, ReplyKind::ErrUnknown, &[b"n", b"o"]);
    let expected = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x06\0\0\0\x02no";
    assert_eq!(out, expected);
}

#[test]
fn export_name_reply() {
    let mut out = Vec::new();
    options::encode_export(&mut out, 0x0102, 0x0304, true);
    assert_eq!(out, b"\0\0\0\0\0\0\x01\x02\x03\x04");
    options::encode_export(&mut out, 1, 2, false);
    assert_eq!(out.len(), 10 + 10 + 124);
}

#[test]
fn info_request() {
    let bytes = b"\0\0\0\x02hi\0\x03\0\x03\0\x01\xff\xff";
    let request = InfoRequest {
        name: "hi",
        wants_name: true,
        wants_description: false,
    };
    assert_eq!(options::decode_info(bytes), Some(request));
    for end in 0..bytes.len() {
        assert_eq!(options::decode_info(&bytes[..end]), None, "cut at {end}");
    }
    assert_eq!(
        options::decode_info(b"\0\0\0\0\0\0x"),
        None,
        "trailing byte"
    );
    assert_eq!(options::decode_info(b"\0\0\0\x01\xff\0\0"), None, "UTF-8");
    assert_eq!(options::decode_info(b"\xff\xff\xff\xff\0\0"), None);
}

#[test]
fn context_request() {
    let bytes = b"\0\0\0\x01e\0\0\0\x02\0\0\0\x05base:\0\0\0\0";
    let request = options::decode_contexts(bytes).unwrap();
    assert_eq!(request.name, "e");
    assert_eq!(request.queries, ["base:", ""]);
    for end in 0..bytes.len() {
        assert_eq!(options::decode_contexts(&bytes[..end]), None);
    }
    let many = b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0";
    assert_eq!(options::decode_contexts(many), None);
}

#[test]
fn names_have_a_limit() {
    assert!(options::decode_name(&[b'a'; 4096]).is_some());
    assert!(options::decode_name(&[b'a'; 4097]).is_none());
}

#[test]
fn compact_request() {
    let bytes = b"\x25\x60\x95\x13\0\x01\0\x01COOKIE..\0\0\0\0\0\0\x10\0\0\0\x02\0";
    let request = NbdRequest {
        flags: 1,
        command: Command::Write as u16,
        cookie: u64::from_be_bytes(*b"COOKIE.."),
        offset_bytes: 4096,
        len_bytes: 512,
    };
    assert_eq!(requests::decode(bytes, false), Some(request));
    assert_eq!(requests::encode(&request, false), bytes);
    assert_eq!(requests::decode(bytes, true), None);
    assert_eq!(requests::decode(&bytes[..27], false), None);
    assert_eq!(request.payload_bytes(false), 512);
}

#[test]
fn status_filter() {
    let bytes = b"\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03";
    let filter = requests::decode_status_filter(bytes).unwrap();
    assert_eq!((filter.len_bytes, filter.ids), (1 << 32, vec![2, 3]));
    for end in (0..12).chain(13..16) {
        assert_eq!(requests::decode_status_filter(&bytes[..end]), None, "{end}");
    }
    assert_eq!(requests::decode_status_filter(&[0; 4104]), None);
}

#[test]
fn extended_request() {
    let bytes = b"\x21\xe4\x1c\x71\0\x20\0\x01COOKIE..\0\0\0\0\0\0\x10\0\0\0\0\x01\0\0\0\x02";
    let request = NbdRequest {
        flags: 0x20,
        command: 1,
        cookie: u64::from_be_bytes(*b"COOKIE.."),
        offset_bytes: 4096,
        len_bytes: 0x1_0000_0002,
    };
    assert_eq!(requests::decode(bytes, true), Some(request));
    assert_eq!(requests::encode(&request, true), bytes);
    assert_eq!(request.payload_bytes(true), 0x1_0000_0002);
    let without = NbdRequest {
        flags: 0,
        ..request
    };
    assert_eq!(without.payload_bytes(true), 0x1_0000_0002, "as qemu does");
    let flagged = NbdRequest {
        command: Command::Read as u16,
        ..request
    };
    assert_eq!(flagged.payload_bytes(true), 0x1_0000_0002);
    assert_eq!(flagged.payload_bytes(false), 0);
    let read = NbdRequest {
        command: Command::Read as u16,
        ..without
    };
    assert_eq!(read.payload_bytes(true), 0);
}

#[test]
fn every_command_has_its_number() {
    for (number, command) in Command::ALL.into_iter().enumerate() {
        assert_eq!(command as usize, number);
        assert_eq!(Command::from_number(number as u16), Some(command));
    }
    assert_eq!(Command::from_number(8), None);
}

#[test]
fn replies_of_every_style() {
    let cookie = u64::from_be_bytes(*b"COOKIE..");
    let simple = replies::simple(cookie, Some(Errno::Invalid));
    assert_eq!(simple.as_bytes(), b"\x67\x44\x66\x98\0\0\0\x16COOKIE..");
    let header = ChunkHeader {
        kind: chunk::OFFSET_DATA,
        done: true,
        cookie,
        offset_bytes: 4096,
        payload_bytes: 520,
    };
    let structured = replies::chunk_header(Style::Structured, header);
    let expected = b"\x66\x8e\x33\xef\0\x01\0\x01COOKIE..\0\0\x02\x08";
    assert_eq!(structured.as_bytes(), expected);
    let extended = replies::chunk_header(Style::Extended, header);
    let expected = b"\x6e\x8a\x27\x8c\0\x01\0\x01COOKIE..\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x02\x08";
    assert_eq!(extended.as_bytes(), expected);
    let error = ChunkHeader {
        kind: chunk::ERROR,
        done: false,
        ..header
    };
    let error = replies::chunk_header(Style::Structured, error);
    assert_eq!(error.as_bytes().get(4..8), Some(&b"\0\0\x80\x01"[..]));
}

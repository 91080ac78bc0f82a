//! Tests options one by one, and in orders that clients should not use.

use super::*;
use crate::exports::FixedExports;
use crate::wire::cursor::Cursor;
use volume::{MemoryVolume, ReadOnly};

const ACK: u32 = 1;
const UNSUPPORTED: u32 = (1 << 31) | 1;
const POLICY: u32 = (1 << 31) | 2;
const INVALID: u32 = (1 << 31) | 3;
const UNKNOWN: u32 = (1 << 31) | 6;
const EXTENDED_REQUIRED: u32 = (1 << 31) | 10;

fn two() -> FixedExports {
    FixedExports::default()
        .with("disk", Arc::new(MemoryVolume::new(5000)))
        .with("snap", Arc::new(ReadOnly::new(MemoryVolume::new(1 << 40))))
}

/// Returns kinds and data of the replies to `option`.
fn ask(negotiation: &mut Negotiation<'_>, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    negotiation.option(option, data, &mut out);
    let mut cursor = Cursor::new(&out);
    let mut replies = Vec::new();
    while !cursor.is_empty() {
        assert_eq!(cursor.u64(), Some(0x0003_e889_0455_65a9));
        assert_eq!(cursor.u32(), Some(option));
        let kind = cursor.u32().unwrap();
        let len = cursor.u32().unwrap() as usize;
        replies.push((kind, cursor.take(len).unwrap().to_vec()));
    }
    replies
}

fn last(negotiation: &mut Negotiation<'_>, option: u32, data: &[u8]) -> u32 {
    ask(negotiation, option, data).last().unwrap().0
}

fn named(name: &str, rest: &[u8]) -> Vec<u8> {
    let len = (name.len() as u32).to_be_bytes();
    [&len, name.as_bytes(), rest].concat()
}

#[test]
fn list_names_every_export() {
    let exports = two();
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    let replies = ask(&mut negotiation, 3, &[]);
    assert_eq!(replies[0], (2, b"\0\0\0\x04diskmemory".to_vec()));
    assert_eq!(replies[1], (2, b"\0\0\0\x04snapmemory".to_vec()));
    assert_eq!(replies[2].0, ACK);
    assert_eq!(last(&mut negotiation, 3, b"x"), INVALID);
}

#[test]
fn info_describes_and_go_starts() {
    let exports = two();
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    let replies = ask(&mut negotiation, 6, &named("snap", b"\0\x02\0\x01\0\x02"));
    let flags = flag::HAS_FLAGS | flag::READ_ONLY | flag::SEND_FLUSH | flag::SEND_FUA;
    let flags = flags | flag::SEND_CACHE | flag::CAN_MULTI_CONN;
    let [high, low] = flags.to_be_bytes();
    let export = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, high, low];
    assert_eq!(replies[0], (3, export.to_vec()));
    assert_eq!(replies[1], (3, b"\0\x01snap".to_vec()));
    assert_eq!(replies[2], (3, b"\0\x02memory".to_vec()));
    let sizes = b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0";
    assert_eq!(replies[3], (3, sizes.to_vec()));
    assert_eq!(replies[4].0, ACK);
    let mut out = Vec::new();
    let step = negotiation.option(7, &named("disk", b"\0\0"), &mut out);
    assert!(matches!(step, Step::Start(agreed) if agreed.volume.size_bytes() == 5000));
    assert_eq!(last(&mut negotiation, 7, &named("none", b"\0\0")), UNKNOWN);
    assert_eq!(
        last(&mut negotiation, 7, &named("disk", b"\0\x01")),
        INVALID
    );
}

#[test]
fn the_empty_name_is_the_only_export_or_the_chosen_one() {
    let go =
        |exports: &FixedExports| last(&mut Negotiation::new(exports, &|_| {}, true), 7, &[0; 6]);
    assert_eq!(go(&two()), UNKNOWN);
    assert_eq!(go(&two().with_default("snap")), ACK);
    let one = FixedExports::default().with("x", Arc::new(MemoryVolume::new(1)));
    assert_eq!(go(&one), ACK);
}

#[test]
fn export_name_answers_with_or_without_zeroes() {
    let exports = two();
    for (no_zeroes, len) in [(true, 10), (false, 134)] {
        let mut out = Vec::new();
        let mut negotiation = Negotiation::new(&exports, &|_| {}, no_zeroes);
        let step = negotiation.option(1, b"disk", &mut out);
        assert!(matches!(step, Step::Start(_)));
        assert_eq!(out.len(), len);
        assert_eq!(&out[..8], &5000_u64.to_be_bytes());
    }
    let mut out = Vec::new();
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    let step = negotiation.option(1, b"none", &mut out);
    assert!(matches!(step, Step::Drop) && out.is_empty());
    negotiation.option(11, &[], &mut out);
    assert!(matches!(
        negotiation.option(1, b"disk", &mut out),
        Step::Drop
    ));
}

#[test]
fn reply_styles_are_chosen_once() {
    let exports = two();
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    assert_eq!(last(&mut negotiation, 8, b"x"), INVALID);
    assert_eq!(last(&mut negotiation, 8, &[]), ACK);
    assert_eq!(last(&mut negotiation, 8, &[]), INVALID);
    assert_eq!(last(&mut negotiation, 11, b"x"), INVALID);
    assert_eq!(last(&mut negotiation, 11, &[]), ACK);
    assert_eq!(last(&mut negotiation, 11, &[]), INVALID);
    assert_eq!(last(&mut negotiation, 8, &[]), EXTENDED_REQUIRED);
}

#[test]
fn tls_and_unknown_options_are_refused_and_haggling_goes_on() {
    let exports = two();
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    assert_eq!(last(&mut negotiation, 5, &[]), POLICY);
    assert_eq!(last(&mut negotiation, 5, b"x"), INVALID);
    for unknown in [0, 4, 12, u32::MAX] {
        assert_eq!(last(&mut negotiation, unknown, b"what"), UNSUPPORTED);
    }
    assert_eq!(last(&mut negotiation, 7, &named("disk", b"\0\0")), ACK);
    let mut out = Vec::new();
    assert!(matches!(negotiation.option(2, &[], &mut out), Step::Close));
}

#[test]
fn contexts_are_listed_and_chosen() {
    let exports = two();
    let all = named("disk", b"\0\0\0\0");
    let base = named("disk", b"\0\0\0\x01\0\0\0\x05base:");
    let exact = named("disk", b"\0\0\0\x02\0\0\0\x03x:y\0\0\0\x0fbase:allocation");
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    assert_eq!(last(&mut negotiation, 9, &all), INVALID);
    assert_eq!(last(&mut negotiation, 10, &exact), INVALID);
    assert_eq!(last(&mut negotiation, 8, &[]), ACK);
    let context = |id: u8| (4, [&[0, 0, 0, id][..], b"base:allocation"].concat());
    assert_eq!(ask(&mut negotiation, 9, &all)[0], context(0));
    assert_eq!(ask(&mut negotiation, 9, &base)[0], context(0));
    assert_eq!(ask(&mut negotiation, 9, &exact)[0], context(0));
    assert_eq!(ask(&mut negotiation, 10, &base).len(), 1, "no wildcards");
    assert_eq!(ask(&mut negotiation, 10, &exact)[0], context(1));
    let none = named("none", b"\0\0\0\0");
    assert_eq!(last(&mut negotiation, 9, &none), UNKNOWN);
    let mut started = |name| {
        let mut out = Vec::new();
        match negotiation.option(7, &named(name, b"\0\0"), &mut out) {
            Step::Start(agreed) => agreed.contexts.len() == 1,
            _ => panic!("no start"),
        }
    };
    assert!(started("disk"));
    assert!(!started("snap"), "chosen for another export");
    assert_eq!(last(&mut negotiation, 10, &all), ACK);
    let mut out = Vec::new();
    let step = negotiation.option(7, &named("disk", b"\0\0"), &mut out);
    assert!(matches!(step, Step::Start(agreed) if agreed.contexts.is_empty()));
}

#[test]
fn long_descriptions_are_cut_at_a_character() {
    assert_eq!(limited("short"), b"short");
    let long = "ä".repeat(3000);
    assert_eq!(limited(&long).len(), 4096);
    let odd = format!("x{long}");
    assert_eq!(limited(&odd).len(), 4095);
}

/// Returns the names of the contexts in replies, and checks their ids.
fn names(replies: &[(u32, Vec<u8>)], first_id: u8) -> Vec<String> {
    let mut names = Vec::new();
    for (number, (kind, data)) in replies.iter().enumerate() {
        if *kind == ACK {
            assert_eq!(number + 1, replies.len());
            break;
        }
        assert_eq!(*kind, 4);
        let id = if first_id == 0 {
            0
        } else {
            first_id + number as u8
        };
        assert_eq!(data[..4], [0, 0, 0, id]);
        names.push(String::from_utf8(data[4..].to_vec()).unwrap());
    }
    names
}

/// Returns the data of an option about the contexts of "disk".
fn queries(queries: &[&str]) -> Vec<u8> {
    let mut data = (queries.len() as u32).to_be_bytes().to_vec();
    for query in queries {
        data.extend(named(query, b""));
    }
    named("disk", &data)
}

#[test]
fn changes_are_contexts() {
    let volume = MemoryVolume::new(1 << 20);
    for number in 0..3000 {
        volume.mark(&format!("s{number}"));
    }
    volume.mark(&"x".repeat(4096));
    let exports = FixedExports::default().with("disk", Arc::new(volume));
    let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
    assert_eq!(last(&mut negotiation, 8, &[]), ACK);

    let mut list = |asked: &[&str]| names(&ask(&mut negotiation, 9, &queries(asked)), 0);
    let all = list(&[]);
    assert_eq!(
        all.len(),
        1024,
        "the newest, without one whose name is too long"
    );
    assert_eq!(all[..2], ["base:allocation", "qemu:dirty-bitmap:s2999"]);
    assert_eq!(list(&["qemu:"]), all[1..]);
    assert_eq!(list(&["qemu:dirty-bitmap:"]), all[1..]);
    assert_eq!(list(&["base:", "qemu:dirty-bitmap:"]), all);
    let old = "qemu:dirty-bitmap:s0";
    assert_eq!(list(&[old, "qemu:dirty-bitmap:none", old]), [old]);
    assert!(list(&["x:", "qemu:allocation-depth", ":", ""]).is_empty());

    let mut set = |asked: &[&str]| names(&ask(&mut negotiation, 10, &queries(asked)), 1);
    assert!(set(&["qemu:", "qemu:dirty-bitmap:", "base:"]).is_empty());
    let both = [old, "base:allocation"];
    assert_eq!(set(&[old, "qemu:dirty-bitmap:none", old, both[1]]), both);
    let sixteen: Vec<String> = (0..16).map(|n| format!("qemu:dirty-bitmap:s{n}")).collect();
    let mut sixteen: Vec<&str> = sixteen.iter().map(String::as_str).collect();
    assert_eq!(set(&sixteen), sixteen);
    sixteen.push("base:allocation");
    let too_big = (1 << 31) | 9;
    assert_eq!(last(&mut negotiation, 10, &queries(&sixteen)), too_big);
    let mut out = Vec::new();
    let step = negotiation.option(7, &named("disk", b"\0\0"), &mut out);
    let none = |agreed: &Agreed| agreed.contexts.is_empty();
    assert!(matches!(step, Step::Start(agreed) if none(&agreed)));
    let many = queries(&["base:allocation"; 65]);
    assert_eq!(last(&mut negotiation, 9, &many), too_big);
    assert_eq!(last(&mut negotiation, 10, &many), too_big);
}

#[test]
fn an_export_is_claimed_before_it_is_opened() {
    use std::cell::RefCell;
    let claimed = RefCell::new(Vec::new());
    let exports = two().with_default("snap");
    let claim = |name: &str| claimed.borrow_mut().push(name.to_owned());
    let mut negotiation = Negotiation::new(&exports, &claim, true);
    for name in ["disk", "disk", "", "none", "disk"] {
        last(&mut negotiation, 6, &named(name, b"\0\0"));
    }
    assert_eq!(*claimed.borrow(), ["disk", "snap", "none", "disk"]);
}

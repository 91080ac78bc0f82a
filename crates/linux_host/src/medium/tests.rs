//! Tests of [`super`], on the file system of the checkout.

use super::*;
use std::io::Write;

const MIB: u64 = 1 << 20;

fn bytes(len: u64) -> Vec<u8> {
    (0..len).map(|n| ((n * n) >> 7) as u8).collect()
}

/// A file on the file system of the checkout, with its bytes on the disk.
fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile_in(".").unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    file
}

#[test]
fn ranges_of_any_alignment_up_to_the_end() {
    let content = bytes(MIB + 1234);
    let mut medium = Medium::of(file(&content)).unwrap();
    println!("way: {:?}", medium.way());
    for (start, end) in [
        (0, 10),
        (1, 4097),
        (4000, 70_000),
        (MIB - 5, MIB + 1234),
        (MIB, MIB + 9999),
        (MIB + 1234, MIB + 5000),
    ] {
        let read = medium.read(start..end).unwrap();
        let expected = &content[start as usize..content.len().min(end as usize)];
        assert_eq!(read.bytes.len(), expected.len(), "{start}..{end}");
        assert!(read.bytes == expected, "{start}..{end}");
    }
}

#[test]
fn what_was_in_memory_stays_and_the_rest_stays_out() {
    let content = bytes(8 * MIB);
    for forced in [None, Some(Way::Dropped)] {
        let mut medium = Medium::of(file(&content)).unwrap();
        medium.way = forced.unwrap_or(medium.way);
        medium.expect_random();
        if medium.way == Way::Memory || release(&medium.file, 0, None).unwrap_or(0) == 0 {
            println!("SKIPPED: pages of this file system cannot be dropped");
            return;
        }
        medium.set_direct(false).unwrap();
        medium
            .file
            .read_at(&mut vec![0; MIB as usize], MIB)
            .unwrap();
        let before = runs(&medium.file, &(0..8 * MIB)).unwrap();
        assert!(before.len() > 1, "{before:?}");
        // The ranges begin within pages and compressed extents.
        for start in (0..7).map(|n| n * MIB + 5000) {
            let read = medium.read(start..start + MIB).unwrap();
            assert!(read.bytes == &content[start as usize..(start + MIB) as usize]);
            assert_eq!(read.unproven, [], "{forced:?}");
        }
        assert_eq!(
            runs(&medium.file, &(0..8 * MIB)).unwrap(),
            before,
            "{forced:?}"
        );
    }
}

#[test]
fn reading_in_memory_reads_only_what_is_there() {
    let content = bytes(MIB);
    let mut medium = Medium::of(file(&content)).unwrap();
    let range = 1000..50_000;
    match medium.read_in_memory(range.clone()).unwrap() {
        Some(found) => assert!(found == &content[1000..50_000]),
        None => println!("SKIPPED: this file system cannot read without waiting"),
    }
    if release(&medium.file, 0, None).unwrap_or(0) > 0 {
        assert!(medium.read_in_memory(range).unwrap().is_none());
        assert_eq!(cached(&medium.file, 0, 0).unwrap().cached, 0);
    }
}

#[test]
fn memory_proves_nothing() {
    let Ok(mut file) = tempfile::tempfile_in("/dev/shm") else {
        println!("SKIPPED: no /dev/shm");
        return;
    };
    if !is_memory(&file).unwrap() {
        println!("SKIPPED: /dev/shm is on a disk");
        return;
    }
    file.write_all(&[7; 5000]).unwrap();
    let mut medium = Medium::of(file).unwrap();
    assert_eq!(medium.way(), Way::Memory);
    let read = medium.read(100..9000).unwrap();
    assert_eq!(read.bytes.len(), 4900);
    assert!(matches!(read.unproven[..], [ref all] if *all == (100..5000)));
}

#[test]
fn holes_end_where_data_begins() {
    let file = tempfile::tempfile_in(".").unwrap();
    file.set_len(4 * MIB).unwrap();
    file.write_all_at(&[1; 4096], 2 * MIB).unwrap();
    let medium = Medium::of(file).unwrap();
    let data = medium.next_data(0, 4 * MIB).unwrap();
    assert!(data == 2 * MIB || data == 0, "{data}");
    assert_eq!(medium.next_data(0, MIB).unwrap(), data.min(MIB));
    assert_eq!(medium.next_data(2 * MIB + 5, 4 * MIB).unwrap(), 2 * MIB + 5);
}

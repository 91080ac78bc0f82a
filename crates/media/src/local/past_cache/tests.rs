//! Tests reads and writes past the page cache, with a limit and without.

use super::*;
use std::io::{Read, Write};

/// Ranges of a file of 200,004 bytes: offset and length.
const RANGES: [(u64, usize); 6] = [
    (0, 1),
    (0, 4096),
    (1, 4096),
    (511, 9000),
    (4095, 2),
    (150_000, 50_004),
];
/// For reads that must end: nothing waits for it unless the test fails.
const LONG: Duration = Duration::from_secs(600);

/// Makes a file that is deleted when its handle is closed.
fn nameless(of: &str) -> File {
    let path = std::env::temp_dir().join(format!("past-cache-{of}-{}", std::process::id()));
    let mut file = File::options();
    let file = file.read(true).write(true).create(true).truncate(true);
    let file = file.open(&path).expect("open");
    std::fs::remove_file(&path).expect("remove");
    file
}

#[test]
fn writes_the_whole_blocks_or_none() {
    let mut file = nameless("writes");
    let Some(past) = PastCache::open(&file, Access::Write) else {
        println!("skipped: this file system has no writes past its cache");
        return;
    };
    let bytes: Vec<u8> = (0..(3u32 << 18) + 1).flat_map(u32::to_le_bytes).collect();
    let blocks = bytes.len() - bytes.len() % BLOCK_BYTES;
    match past.write_at(0, &bytes) {
        0 => return println!("refused"),
        written => assert_eq!(written, blocks, "in several requests"),
    }
    let mut found = Vec::new();
    file.read_to_end(&mut found).expect("read");
    assert!(found == bytes[..blocks]);
    assert_eq!(past.write_at(1, &bytes), 0);
    assert_eq!(past.write_at(4096, &bytes[..4095]), 0);
    assert_eq!(file.metadata().expect("stat").len(), blocks as u64);
}

/// A second read of that block would cost a disk a whole revolution.
#[test]
fn a_read_that_continues_does_not_read_the_block_at_the_boundary_again() {
    let mut file = nameless("continues");
    file.write_all(&[1; 5 * BLOCK_BYTES]).expect("write");
    file.sync_all().expect("sync");
    let Some(past) = PastCache::open(&file, Access::Read) else {
        println!("skipped: this file system has no reads past its cache");
        return;
    };
    let read = |offset: usize, len: usize| {
        let mut into = vec![0; len];
        past.read_at(offset as u64, &mut into).then_some(into)
    };
    let Some(first) = read(10, BLOCK_BYTES) else {
        return println!("refused");
    };
    assert!(first.iter().all(|byte| *byte == 1));
    // Other bytes on the device show which blocks are read from now on.
    file.write_all_at(&[2; 5 * BLOCK_BYTES], 0).expect("write");
    file.sync_all().expect("sync");
    let next = read(BLOCK_BYTES + 10, 2 * BLOCK_BYTES).expect("read");
    let kept = BLOCK_BYTES - 10;
    assert!(next[..kept].iter().all(|byte| *byte == 1), "read again");
    assert!(next[kept..].iter().all(|byte| *byte == 2));
    // A read that ended between two blocks leaves nothing to the next one.
    let whole = read(0, BLOCK_BYTES).expect("read");
    assert!(whole.iter().all(|byte| *byte == 2));
    file.write_all_at(&[4; 100], BLOCK_BYTES as u64)
        .expect("write");
    let next = read(BLOCK_BYTES, 100).expect("read");
    assert!(next.iter().all(|byte| *byte == 4), "the block before");
    file.write_all_at(&[2; 100], BLOCK_BYTES as u64)
        .expect("write");
    // A read that begins a little before the end of the last one goes on too. The same range again,
    // and one that begins earlier, come from the device.
    for (offset, is_kept) in [
        (BLOCK_BYTES + 60, true),
        (BLOCK_BYTES + 10, false),
        (BLOCK_BYTES + 9, false),
    ] {
        let fresh = |with: u8| {
            file.write_all_at(&[with; 200], BLOCK_BYTES as u64)
                .expect("write")
        };
        fresh(5);
        past.forget();
        read(BLOCK_BYTES + 10, 100).expect("read");
        fresh(2);
        let again = read(offset, 100).expect("read");
        let with = if is_kept { 5 } else { 2 };
        assert!(again.iter().all(|byte| *byte == with), "{offset}");
    }
    file.write_all_at(&[3; 5 * BLOCK_BYTES], 0).expect("write");
    past.forget();
    let written = read(4 * BLOCK_BYTES + 9, 100).expect("read");
    assert!(written.iter().all(|byte| *byte == 3));
}

#[test]
fn reads_any_range_like_a_plain_read_or_refuses() {
    let mut file = nameless("reads");
    let bytes: Vec<u8> = (0..50_001u32).flat_map(u32::to_le_bytes).collect();
    file.write_all(&bytes).expect("write");
    file.sync_all().expect("sync");
    let Some(past) = PastCache::open(&file, Access::Read) else {
        println!("skipped: this file system has no reads past its cache");
        return;
    };
    for (offset, len) in RANGES {
        let mut into = vec![0; len];
        if past.read_at(offset, &mut into) {
            assert!(
                into == bytes[offset as usize..][..len],
                "{len} bytes from {offset}"
            );
        } else {
            println!("refused: {len} bytes from {offset}");
        }
    }
    let beyond = &mut vec![0; 5000];
    assert!(!past.read_at(bytes.len() as u64 - 4999, beyond));
    assert!(!past.read_at(1 << 40, beyond));
    assert!(!past.read_at(0, &mut vec![0; READ_BYTES_MAX + 1]));
}

/// Opens a file of numbers; `None` where no read past the cache can have a limit.
fn with_limit(of: &str) -> Option<(PastCache, Vec<u8>)> {
    let mut file = nameless(of);
    let bytes: Vec<u8> = (0..50_001u32).flat_map(u32::to_le_bytes).collect();
    file.write_all(&bytes).expect("write");
    file.sync_all().expect("sync");
    let past = PastCache::open(&file, Access::Read)?;
    past.prepare();
    match past.read_within(0, &mut [0], LONG) {
        TimedRead::Done => Some((past, bytes)),
        TimedRead::Late(_) => panic!("not yet"),
        TimedRead::Unable(left) => {
            assert!(left > LONG / 2, "refused at once");
            None
        }
    }
}

#[test]
fn reads_any_range_within_a_limit_or_refuses() {
    let Some((past, bytes)) = with_limit("within") else {
        println!("skipped: this file system has no such reads");
        return;
    };
    for (offset, len) in RANGES {
        let mut into = vec![0; len];
        match past.read_within(offset, &mut into, LONG) {
            TimedRead::Done => assert!(into == bytes[offset as usize..][..len], "{offset}"),
            TimedRead::Late(_) => panic!("{len} bytes from {offset}"),
            TimedRead::Unable(_) => println!("refused: {len} bytes from {offset}"),
        }
    }
    let refused = |offset: u64, len: usize| {
        let read = past.read_within(offset, &mut vec![0; len], LONG);
        assert!(matches!(read, TimedRead::Unable(_)), "{len} from {offset}");
    };
    refused(bytes.len() as u64 - 4999, 5000);
    refused(1 << 40, 1);
    refused(u64::MAX, 1);
    refused(0, TIMED_BYTES_MAX + 1);
}

#[test]
fn a_late_read_keeps_its_memory_until_it_ends() {
    let Some((past, bytes)) = with_limit("late") else {
        println!("skipped: this file system has no such reads");
        return;
    };
    let mut late = Vec::new();
    for at in (0..40).map(|n| n * 4096) {
        let mut into = vec![0; 4096];
        match past.read_within(at, &mut into, Duration::ZERO) {
            // Devices may be that fast.
            TimedRead::Done => assert!(into == bytes[at as usize..][..4096]),
            TimedRead::Late(running) => late.push(running),
            // So many run already.
            TimedRead::Unable(left) => assert_eq!(left, Duration::ZERO),
        }
    }
    println!("{} were late", late.len());
    drop(late);
    let mut into = vec![0; 4096];
    assert!(matches!(
        past.read_within(100, &mut into, LONG),
        TimedRead::Done
    ));
    assert!(into == bytes[100..4196]);
}

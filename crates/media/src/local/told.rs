//! Reads through the page cache that say whether the device gave the bytes.
//!
//! The system is asked first how much of the range it has ([`super::resident`]). When it has a part, it is
//! asked to forget that part, and asked again. Where it cannot be asked, a read that does not wait
//! (`RWF_NOWAIT`) tells: what that refuses is not there. The file is one of which the system reads nothing
//! ahead: what it had brought by itself would look like what it remembers.
//!
//! Invariant: `Device` is said of no byte that the cache had when the read began. A page that another
//! read brings meanwhile comes from the device, too. In doubt `Cache` is said.
//! Called by local files.

use super::resident;
use crate::ReadFrom;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

/// No page is smaller.
const PAGE_BYTES_MIN: u64 = 4 << 10;
/// No page is larger where this runs.
const PAGE_BYTES: u64 = 64 << 10;

/// Fills `into` from `offset`.
pub(super) fn read_exact_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<ReadFrom> {
    let len = into.len() as u64;
    let from = match resident::pages(file, offset, len) {
        None => return read_asking(file, offset, into),
        Some(0) => ReadFrom::Device,
        // All of it: pages are 4 KiB at least.
        Some(pages) if pages.saturating_mul(PAGE_BYTES_MIN) >= len => ReadFrom::Cache,
        Some(_) => {
            let_go(file, offset, into.len());
            match resident::pages(file, offset, len) {
                Some(0) => ReadFrom::Device,
                _ => ReadFrom::Cache,
            }
        }
    };
    file.read_exact_at(into, offset)?;
    Ok(from)
}

/// The same, where the system does not say what it has.
fn read_asking(file: &File, offset: u64, into: &mut [u8]) -> io::Result<ReadFrom> {
    let mut let_go_of_neighbour = true;
    let from = loop {
        let parts = &mut [IoSliceMut::new(into)];
        match preadv2(file, parts, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            Ok(read) if read == into.len() => return Ok(ReadFrom::Cache),
            // Its first page came with what lies before it.
            Ok(read) if read as u64 <= PAGE_BYTES && let_go_of_neighbour => {
                let_go_of_neighbour = false;
                let_go(file, offset, into.len());
            }
            Err(Errno::AGAIN) => {
                let_go(file, offset, into.len());
                break ReadFrom::Device;
            }
            Ok(_) | Err(_) => break ReadFrom::Cache,
        }
    };
    file.read_exact_at(into, offset)?;
    Ok(from)
}

/// Asks the system to forget what it has of a range. It keeps what nobody has written out yet.
pub(super) fn let_go(file: &File, offset: u64, len: usize) {
    let start = offset - offset % PAGE_BYTES;
    let end = offset.saturating_add(len as u64);
    let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(end);
    // A wish: where it is not heard, a scrub reads again what readers have read.
    let _ = fadvise(file, start, NonZeroU64::new(end - start), Advice::DontNeed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    /// A file of the build directory, which is on a disk more often than the directory for temporary files.
    fn synced(of: &str) -> (File, Vec<u8>) {
        let dir = std::env::var("CARGO_TARGET_TMPDIR").unwrap_or_else(|_| ".".to_owned());
        let path = format!("{dir}/told-{of}-{}", std::process::id());
        let bytes: Vec<u8> = (0..BYTES).map(|n| (n >> 8) as u8).collect();
        std::fs::write(&path, &bytes).expect("write");
        let file = File::open(&path).expect("open");
        std::fs::remove_file(&path).expect("remove");
        file.sync_all().expect("sync");
        (file, bytes)
    }

    #[test]
    fn what_the_cache_has_is_not_from_the_device() {
        let (file, bytes) = synced("warm");
        let mut into = vec![0; 100_000];
        for _ in 0..2 {
            let from = read_exact_at(&file, 5000, &mut into).expect("read");
            assert_eq!(from, ReadFrom::Cache, "it was written a moment ago");
            assert_eq!(into, bytes[5000..105_000]);
        }
        assert!(
            read_exact_at(&file, BYTES as u64 - 10, &mut into).is_err(),
            "the end"
        );
    }

    #[test]
    fn what_the_cache_has_not_is_from_the_device_once() {
        let (file, bytes) = synced("cold");
        let_go(&file, 0, BYTES);
        let mut into = vec![0; 4096];
        let first = read_exact_at(&file, 512 << 10, &mut into).expect("read");
        assert_eq!(into, bytes[512 << 10..][..4096]);
        if first == ReadFrom::Cache {
            eprintln!("skipped: this file system does not say what it has, or keeps all of it");
            return;
        }
        let again = read_exact_at(&file, 512 << 10, &mut into).expect("read");
        assert_eq!(again, ReadFrom::Cache);
    }

    /// The end of a range is warm and its beginning is not: rot below the end must not count as seen.
    #[test]
    fn a_range_that_is_warm_in_part_is_read_anew_or_not_counted() {
        let (file, bytes) = synced("mixed");
        let_go(&file, 0, BYTES);
        let mut end = vec![0; 4096];
        file.read_exact_at(&mut end, (256 << 10) - 4096)
            .expect("read");
        let mut into = vec![0; 256 << 10];
        let from = read_exact_at(&file, 0, &mut into).expect("read");
        assert_eq!(into, bytes[..256 << 10]);
        if from == ReadFrom::Cache {
            eprintln!("skipped: this file system does not say what it has, or keeps all of it");
        }
    }
}

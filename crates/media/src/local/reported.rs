//! Reads through the page cache and reports whether the device gave the bytes. Local files call
//! this.
//!
//! First it asks the system how much of the range is cached ([`super::resident`]). If a part is
//! cached, it asks the system to drop that part, and asks again. Where the system does not answer,
//! it uses a read that does not wait (`RWF_NOWAIT`): bytes that this refuses are not cached. The
//! system must read nothing of the file ahead: read-ahead bytes would look like cached ones.
//!
//! Invariant: it never reports `Device` for a byte that was cached when the read began. A page that
//! a concurrent read brings also comes from the device. In doubt it reports `Cache`.

use super::resident;
use crate::ReadFrom;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

/// Smallest page size.
const PAGE_BYTES_MIN: u64 = 4 << 10;
/// Largest page size on supported systems.
const PAGE_BYTES: u64 = 64 << 10;

/// Fills `into` from `offset`.
pub(super) fn read_exact_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<ReadFrom> {
    let len = into.len() as u64;
    let from = match resident::pages(file, offset, len) {
        None => return read_asking(file, offset, into),
        Some(0) => ReadFrom::Device,
        // All pages are cached: a page has at least 4 KiB.
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

/// Does the same where the system does not report cached pages.
fn read_asking(file: &File, offset: u64, into: &mut [u8]) -> io::Result<ReadFrom> {
    let mut let_go_of_neighbour = true;
    let from = loop {
        let parts = &mut [IoSliceMut::new(into)];
        match preadv2(file, parts, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            Ok(read) if read == into.len() => return Ok(ReadFrom::Cache),
            // The first page came with the bytes before it.
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

/// Asks the system to drop its cached pages of a range. It keeps dirty ones.
pub(super) fn let_go(file: &File, offset: u64, len: usize) {
    let start = offset - offset % PAGE_BYTES;
    let end = offset.saturating_add(len as u64);
    let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(end);
    // This is advice. If it is ignored, a scrub reads bytes again that readers have read.
    let _ = fadvise(file, start, NonZeroU64::new(end - start), Advice::DontNeed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    /// Makes a file in the build directory, which is more often on a disk than the directory for
    /// temporary files.
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

    /// The end of a range is cached and its beginning is not. Bit rot below the end must not count
    /// as seen.
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

//! Data and holes of a file. Backup and import use it.
//!
//! Invariant: segments cover the file from 0 to its length in order, without gaps, and neighbours
//! differ. Without support by the file system, everything is data.

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// A run of data, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub offset: u64,
    /// Length in bytes, never 0.
    pub len: u64,
    /// Takes no space and reads as zeroes.
    pub hole: bool,
}

/// Returns the segments of the first `len` bytes of a file or block device. Moves the file's
/// position.
pub fn of(file: BorrowedFd<'_>, len: u64) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < len {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(len),
            // Only a hole from here on.
            Err(Errno::NXIO) => len,
            // Devices, pipes and old file systems.
            Err(Errno::INVAL | Errno::NOTSUP | Errno::SPIPE) => at,
            Err(e) => return Err(e.into()),
        };
        push(&mut segments, at, data, true);
        if data == len {
            break;
        }
        at = match rustix::fs::seek(file, SeekFrom::Hole(data)) {
            // The file may shrink or change meanwhile: always advance.
            Ok(hole) if hole > data => hole.min(len),
            Ok(_) | Err(Errno::NXIO | Errno::INVAL | Errno::NOTSUP | Errno::SPIPE) => len,
            Err(e) => return Err(e.into()),
        };
        push(&mut segments, data, at, false);
    }
    Ok(segments)
}

fn push(segments: &mut Vec<Segment>, from: u64, to: u64, hole: bool) {
    if from >= to {
        return;
    }
    match segments.last_mut() {
        Some(last) if last.hole == hole => last.len += to - from,
        _ => segments.push(Segment {
            offset: from,
            len: to - from,
            hole,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn data_between_holes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_at(&[1; 4096], 1 << 20).unwrap();
        let segments = of(file.as_fd(), 4 << 20).unwrap();
        let total: u64 = segments.iter().map(|s| s.len).sum();
        assert_eq!(total, 4 << 20);
        assert!(
            segments
                .iter()
                .any(|s| !s.hole && s.offset <= 1 << 20 && s.offset + s.len >= (1 << 20) + 4096)
        );
        for pair in segments.windows(2) {
            assert_eq!(pair[0].offset + pair[0].len, pair[1].offset);
            assert_ne!(pair[0].hole, pair[1].hole);
        }
    }

    #[test]
    fn only_a_hole_only_data_and_nothing() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(of(file.as_fd(), 0).unwrap(), []);
        file.set_len(1 << 20).unwrap();
        let whole = |hole| {
            [Segment {
                offset: 0,
                len: 1 << 20,
                hole,
            }]
        };
        assert_eq!(of(file.as_fd(), 1 << 20).unwrap(), whole(true));
        file.write_at(&vec![1; 1 << 20], 0).unwrap();
        assert_eq!(of(file.as_fd(), 1 << 20).unwrap(), whole(false));
    }

    #[test]
    fn what_knows_no_holes_is_data() {
        let null = File::open("/dev/zero").unwrap();
        let segments = of(null.as_fd(), 4096).unwrap();
        assert!(segments.iter().all(|s| !s.hole));
    }
}

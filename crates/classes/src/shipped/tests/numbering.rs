//! The two published numberings, with which the shipped policies are compared.
//!
//! Invariant: numbers are those of the sources and never change.

use units::IoClass;

/// Numbering of the successor of Differentiated Storage Services, as in Open CAS.
pub mod successor {
    use super::IoClass;

    /// Metadata of a file system.
    pub const METADATA: IoClass = IoClass(1);
    /// Journal of a file system.
    pub const JOURNAL: IoClass = IoClass(2);
    /// Entries of directories.
    pub const DIRECTORY: IoClass = IoClass(7);
    /// Smallest files; the classes up to [`FILE_LARGEST`] follow.
    pub const FILE_SMALLEST: IoClass = IoClass(11);
    /// Files up to 1 GiB.
    pub const FILE_LARGEST: IoClass = IoClass(20);
    /// Files beyond 1 GiB.
    pub const BULK: IoClass = IoClass(21);
    /// Files opened with `O_DIRECT`.
    pub const DIRECT: IoClass = IoClass(22);
    /// Contents that nobody could tell.
    pub const MISC: IoClass = IoClass(23);

    /// Returns the class of a file of this size: 4 KiB, and four times as much for each next class.
    pub const fn of_file_size(size_bytes: u64) -> IoClass {
        let mut class = FILE_SMALLEST.0;
        while class <= FILE_LARGEST.0 {
            if size_bytes <= size_bytes_max(class) {
                return IoClass(class);
            }
            class += 1;
        }
        BULK
    }

    /// Returns the size of the largest file of a class from 11 to 20, bytes.
    pub const fn size_bytes_max(class: u8) -> u64 {
        4096 << (2 * (class - FILE_SMALLEST.0) as u64)
    }
}

/// Numbering of the slides for ext3 (SOSP'11): data by its offset in the file.
pub mod ext3 {
    use super::IoClass;

    /// Metadata of the file system. It is 0, as everything without a class on the wire.
    pub const METADATA: IoClass = IoClass(0);
    /// Journal.
    pub const JOURNAL: IoClass = IoClass(1);
    /// Entries of directories.
    pub const DIRECTORY: IoClass = IoClass(2);
    /// First 4 KiB of a file.
    pub const FIRST_4K: IoClass = IoClass(3);
    /// Up to 16 KiB of a file.
    pub const FIRST_16K: IoClass = IoClass(4);
    /// Up to 64 KiB of a file.
    pub const FIRST_64K: IoClass = IoClass(5);
    /// Up to 256 KiB of a file.
    pub const FIRST_256K: IoClass = IoClass(6);
    /// The rest of a file.
    pub const BULK: IoClass = IoClass(7);

    /// Returns the class of a byte of a file, by its offset.
    pub const fn of_file_offset(offset_bytes: u64) -> IoClass {
        match offset_bytes {
            0..4096 => FIRST_4K,
            4096..16_384 => FIRST_16K,
            16_384..65_536 => FIRST_64K,
            65_536..262_144 => FIRST_256K,
            _ => BULK,
        }
    }
}

#[test]
fn sizes_grow_four_times_from_4k_to_1g() {
    assert_eq!(successor::size_bytes_max(11), 4096);
    assert_eq!(successor::size_bytes_max(20), 1 << 30);
    let of = successor::of_file_size;
    assert_eq!(
        (of(0), of(4096), of(4097)),
        (IoClass(11), IoClass(11), IoClass(12))
    );
    assert_eq!(
        (of(1 << 30), of((1 << 30) + 1)),
        (IoClass(20), successor::BULK)
    );
    assert_eq!(of(u64::MAX), successor::BULK);
}

#[test]
fn offsets_belong_to_one_class() {
    let of = ext3::of_file_offset;
    assert_eq!((of(4095), of(4096)), (ext3::FIRST_4K, ext3::FIRST_16K));
    assert_eq!((of(262_143), of(262_144)), (ext3::FIRST_256K, ext3::BULK));
}

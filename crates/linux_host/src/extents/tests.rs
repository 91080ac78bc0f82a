//! Tests of [`super`]. What FIEMAP reports of real files is tested by `tests/host`.

use super::*;

fn piece(offset: u64, len: u64, place: u64) -> Piece {
    Piece {
        offset,
        len,
        place,
        is_shared: false,
    }
}

#[test]
fn a_hole_is_no_break_and_neither_are_preallocated_blocks_in_their_place() {
    // Adjacent on the device, with a hole between them in the file.
    assert_eq!(fragments(&[piece(0, 4096, 0), piece(8192, 4096, 4096)]), 1);
    // As far apart on the device as in the file.
    assert_eq!(fragments(&[piece(0, 4096, 0), piece(8192, 4096, 8192)]), 1);
    assert_eq!(fragments(&[piece(0, 4096, 0), piece(8192, 4096, 12288)]), 2);
    // Backwards on the device.
    assert_eq!(fragments(&[piece(0, 4096, 4096), piece(4096, 4096, 0)]), 2);
    assert_eq!(fragments(&[]), 0);
}

#[test]
fn only_written_data_with_a_place_is_a_piece() {
    let extent = |flags| FileExtent {
        offset: 0,
        len: 4096,
        place: 8192,
        flags,
    };
    assert!(extent(0).piece().is_some());
    assert!(extent(FileExtent::SHARED).piece().unwrap().is_shared);
    for flags in [
        FileExtent::UNWRITTEN,
        FileExtent::UNKNOWN,
        FileExtent::DELALLOC | FileExtent::UNKNOWN,
        FileExtent::INLINE | FileExtent::NOT_ALIGNED,
        FileExtent::TAIL,
    ] {
        assert_eq!(extent(flags).piece(), None, "{flags:x}");
    }
}

#[test]
fn classes_double_and_the_last_is_open() {
    let mut histogram = Histogram::default();
    for bytes in [1024, 4096, 8191, 8192, 128 << 10, 256 << 20, 1 << 40] {
        histogram.count(Some(bytes));
    }
    histogram.count(None);
    let filled: Vec<(u64, u64)> = histogram
        .classes()
        .filter(|class| class.pieces > 0)
        .map(|class| (class.bytes_min, class.pieces))
        .collect();
    assert_eq!(filled, [(0, 3), (8192, 1), (128 << 10, 1), (256 << 20, 2)]);
    assert_eq!(histogram.pieces(), 7);
    let mut twice = histogram.clone();
    twice.add(&histogram);
    assert_eq!(twice.bytes(), 2 * histogram.bytes());
}

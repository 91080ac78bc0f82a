//! Tests of [`super`]. Migrations on real file systems are tested by `tests/host`.

use super::*;

fn piece(offset: u64, len: u64) -> Piece {
    Piece {
        offset,
        len,
        place: 0,
        is_shared: false,
    }
}

#[test]
fn runs_are_whole_units_of_written_bytes() {
    // Blocks of 1 KiB: the first page has a hole, the third is written by two pieces.
    let pieces = [
        piece(1024, 3072),
        piece(4096, 5120),
        piece(9216, 3072),
        piece(20480, 4096),
    ];
    assert_eq!(
        runs(&pieces, &(0..1 << 20), 4096),
        [4096..12288, 20480..24576]
    );
    assert_eq!(
        runs(&pieces, &(8192..28672), 4096),
        [8192..12288, 20480..24576]
    );
    assert!(runs(&pieces, &(12288..20480), 4096).is_empty());
}

#[test]
fn links_and_directories_are_not_opened() {
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("file", top.path().join("link")).unwrap();
    assert!(Target::open(&top.path().join("link")).is_err());
    let opened = Target::open(top.path()).err().unwrap();
    assert_eq!(opened.name(), "not_regular");
}

//! Defragmentation of real volumes: what it moves, what that brings, and what stays.
//!
//! Invariant: whatever is moved, every byte reads as it was written.

mod fragmented;

use fragmented::*;
use maintenance::DefragOptions;
use sim::SimDisk;

const BLOCKS: u64 = 32;

#[test]
fn bypass_moves_the_windows_that_lie_in_pieces() {
    let (disk, bytes) = made(BLOCKS);
    let before = read_cost(&disk, &bytes, &sequential(BLOCKS));
    let whole = SimDisk::unrecorded(disk.image());
    let volumes = open(&disk, 5);
    let report = defragment(&volumes, None, options());
    println!("{report:?}");
    assert_eq!(
        (report.wanted, report.failed, report.unfair),
        (BLOCKS, 0, 0)
    );
    assert_eq!(report.moved.bytes, BLOCKS * BLOCK / 2);
    assert!(report.before.runs > 20 * BLOCKS && report.after.runs == 2 * BLOCKS);
    is_sound(&volumes);
    // Nothing is left to do.
    let again = defragment(&volumes, None, options());
    assert_eq!((again.wanted, again.moved.bytes), (0, 0));
    drop(volumes);
    let after = read_cost(&disk, &bytes, &sequential(BLOCKS));

    let volumes = open(&whole, 6);
    let all = DefragOptions {
        rewrites_all: true,
        ..options()
    };
    let full = defragment(&volumes, None, all);
    drop(volumes);
    assert_eq!(full.moved.bytes, BLOCKS * BLOCK);
    let best = read_cost(&whole, &bytes, &sequential(BLOCKS));
    println!("regions: before {before}, after {after}, whole {best}");
    println!(
        "stored: {} of {}",
        report.moved.stored_bytes, full.moved.stored_bytes
    );
    assert!(after * 97 <= best * 100, "{after} regions, {best} at best");
    assert!(before * 10 > after * 15);
    assert!(report.moved.stored_bytes * 2 <= full.moved.stored_bytes + (64 << 10));
}

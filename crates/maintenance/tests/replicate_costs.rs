//! Cost of a copy: the nodes of recipes that it loads. Counts, not times.

use crate::copies;
use crate::small_volumes;

use copies::{copy, open_receiver, receiver, replication};
use small_volumes::{made, open, write};
use std::sync::Arc;
use testkit::specimen::noise;

const PART: u64 = 1 << 20;
const PARTS: u64 = 60;

/// Regression: to find the next part, a copy once loaded the nodes of all parts behind it, so that
/// a copy of a disk loaded as many nodes as the square of its parts.
#[test]
fn a_first_copy_loads_each_node_a_few_times() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("v", PARTS * PART, 12).expect("create");
    for part in 0..PARTS {
        write(&volume, part * PART, &noise(part, 4096));
    }
    let snapshot = volumes.snapshot("v", "s").expect("snapshot");
    let from = Arc::clone(volumes.pool());
    let to = open_receiver(&receiver(50), 51);
    let mut run = replication(&from, &to);
    let loads = || {
        let counts = from.reader().counts();
        counts.chunk_hits + counts.region_reads
    };
    let before = loads();
    copy(&mut run, &snapshot).expect("copied");
    let loaded = loads() - before;
    assert!(loaded <= 10 * PARTS, "{loaded} loads of {PARTS} parts");
}

//! Cost of a copy: the nodes of recipes that it loads. Counts, not times.

use crate::copies;
use crate::small_volumes;

use chunking::Compression;
use copies::{copy, open_receiver, receiver, replication};
use maintenance::{CopyNews, CopyOptions, MaintenanceTask, Replication, TaskStep};
use small_volumes::{made, open, write};
use specimen::noise;
use std::sync::Arc;

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

/// The rate limit counts what the receiving pool stores: compressed data hardly waits, and all that
/// was sent is paid before the commit.
#[test]
fn the_limit_is_for_what_is_sent() {
    const RATE: u64 = 100_000;
    let (_disk, pool) = specimen::new_pool();
    let from = Arc::new(pool);
    let text = b"the same words again and again, ".repeat(20_000);
    for (name, bytes) in [("noise", noise(1, 300_000)), ("text", text)] {
        specimen::store_image(&from, name, &bytes, Compression::Zstd(1));
    }
    let to = open_receiver(&receiver(60), 61);
    let options = CopyOptions {
        bytes_per_s: Some(RATE),
        ..copies::copy_options()
    };
    let all = from.snapshots().expect("snapshots");
    let mut run =
        Replication::new(Arc::clone(&from), all.clone(), to, options).expect("replication");
    for snapshot in &all {
        run.begin(snapshot).expect("begun");
        let (mut now_ns, began_ns) = (7_000_000_000, 7_000_000_000);
        let copied = loop {
            match run.step(now_ns, 10_000).expect("a step") {
                TaskStep::Waiting { until_ns } => now_ns = until_ns,
                TaskStep::News(CopyNews::Copied(copied)) => break copied,
                TaskStep::Worked { .. } | TaskStep::News(CopyNews::Sent(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        let (stored, plain) = (copied.snapshot.added_bytes, snapshot.root.len);
        let paid = (now_ns - began_ns) / 10_000;
        assert!(paid + 1 >= stored, "{paid} of {stored} bytes waited");
        let most = stored + (256 << 10);
        assert!(
            paid <= most,
            "{paid} bytes waited, {stored} sent of {plain}"
        );
        assert!(plain >= 300_000 && (snapshot.name != "text" || stored < plain / 8));
    }
}

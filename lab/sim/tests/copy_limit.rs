//! The rate limit of copies between pools, in virtual time. A test of `maintenance`, beside its
//! own.

use chunking::Compression;
use maintenance::{CopyLimits, CopyNews, CopyOptions, MaintenanceTask, Replication, TaskStep};
use sim::pool_histories::init_options;
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::noise;

/// An empty pool with its own keys.
fn receiver() -> Arc<Pool> {
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&testkit::specimen::media(&disk, 60), &init_options(&[])).expect("init");
    Arc::new(testkit::specimen::open(&disk, 61, None, OpenMode::Write).expect("open"))
}

/// The rate limit counts what the receiving pool stores: compressed data hardly waits, and all that
/// was sent is paid before the commit.
#[test]
fn the_limit_is_for_what_is_sent() {
    const RATE: u64 = 100_000;
    let (_disk, pool) = testkit::specimen::new_pool();
    let from = Arc::new(pool);
    let text = b"the same words again and again, ".repeat(20_000);
    for (name, bytes) in [("noise", noise(1, 300_000)), ("text", text)] {
        testkit::specimen::store_image(&from, name, &bytes, Compression::Zstd(1));
    }
    let to = receiver();
    let options = CopyOptions {
        bytes_per_s: Some(RATE),
        lane: testkit::specimen::options(Compression::Zstd(1)),
        limits: CopyLimits::default(),
        volumes: None,
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

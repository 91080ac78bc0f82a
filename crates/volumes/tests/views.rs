//! Objects of a pool that are served through the volumes' page cache: the conformance suite, and
//! what they share with volumes.

use chunking::Compression;
use format::recipe::{Layout, ObjectRoot};
use std::sync::Arc;
use store::ObjectBuilder;
use testkit::specimen::{noise, options};
use volume::{RequestContext, Volume};
use volumes::{AccessOptions, DirectLimits, JournalOptions, Thresholds, Volumes, VolumesOptions};

const CONTEXT: RequestContext = RequestContext::CLIENT;

fn volumes() -> Volumes {
    let (_, pool) = testkit::specimen::new_pool();
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: 4 << 20,
            slot_bytes: 512 << 10,
            buffer_bytes: 256 << 10,
        },
        memory_bytes: 16 << 20,
        thresholds: Thresholds::default(),
        lane: options(Compression::Lz4),
        direct: DirectLimits::default(),
        access: AccessOptions::default(),
    };
    Volumes::open(Arc::new(pool), &options).expect("volumes")
}

/// Returns noise with a hole that is longer than any chunk, and one at the end.
fn contents(len: usize) -> Vec<u8> {
    let mut bytes = noise(3, len);
    bytes[len / 3..len / 3 + 300_000].fill(0);
    bytes[len - 70_000..].fill(0);
    bytes
}

fn store(volumes: &Volumes, layout: Layout, bytes: &[u8]) -> ObjectRoot {
    let pool = volumes.pool();
    let mut session = pool.begin(options(Compression::Lz4)).expect("session");
    let lane = session.main();
    let mut builder = ObjectBuilder::new(layout);
    let step = match layout {
        Layout::Fixed(log2) => 1 << log2,
        Layout::Variable => 5_000,
    };
    for piece in bytes.chunks(step) {
        let mut padded = piece.to_vec();
        if layout != Layout::Variable {
            padded.resize(step, 0);
        }
        let chunk = lane.store_chunk(&padded).expect("chunk");
        builder
            .push(chunk, piece.len() as u64, &mut |n| lane.store_node(n))
            .expect("push");
    }
    let root = builder.finish(&mut |n| lane.store_node(n)).expect("finish");
    pool.commit(session, &[], &[]).expect("commit");
    root
}

#[test]
fn every_layout_passes_the_suite_of_read_only_volumes() {
    let volumes = volumes();
    let bytes = contents(4_300_123);
    for layout in [Layout::Variable, Layout::Fixed(12), Layout::Fixed(14)] {
        let root = store(&volumes, layout, &bytes);
        let view = volumes.view(root, "test".to_owned());
        testkit::conformance::volume::read_only_volume_suite(Box::new(view), &bytes);
    }
}

#[test]
fn what_a_volume_has_read_is_a_hit_for_a_view_of_its_snapshot() {
    let volumes = volumes();
    let volume = volumes.create("v", 1 << 20, 12).expect("create");
    let bytes = contents(1 << 20);
    volume
        .write(CONTEXT, 0, &bytes, volume::Durability::Volatile)
        .expect("write");
    let snapshot = volumes.snapshot("v", "one").expect("snapshot");
    let mut read = vec![0; bytes.len()];
    volume.read(CONTEXT, 0, &mut read).expect("read");
    let before = volumes.decision_counters();
    let view = volumes.view(snapshot.root, "v@one".to_owned());
    // The fetcher may still be reading ahead for the volume's read.
    let shared = volumes.cache_counters().bytes_shared;
    view.read(CONTEXT, 0, &mut read).expect("read");
    assert!(read == bytes);
    let after = volumes.decision_counters();
    assert_eq!(after.region_reads, before.region_reads);
    assert!(volumes.cache_counters().bytes_shared > shared + (600 << 10));
    assert!(view.capabilities().is_cached(CONTEXT, 0, 16 << 10));
    drop(view);
    assert!(volumes.cache_counters().bytes_shared <= shared);
}

//! Memory errors while a region is copied: damage is never sealed as good data.

use super::CopyCounts;
use crate::pool::Pool;
use crate::testing::{small, whole_run};
use crate::write_path::LaneOptions;
use chunk_store::container::flip::{self, When};
use chunk_store::recipe::ObjectBuilder;
use chunking::Compression;
use format::recipe::Layout;
use format::snapshot::{Snapshot, SnapshotKind};
use media::{Random, SeededRandom};
use sim::SimDisk;

const CHUNK: usize = 4096;

fn image(pool: &Pool, with: Compression, bytes: &[u8]) -> Snapshot {
    let lane = LaneOptions {
        compression: with,
        ..small::LANE
    };
    let mut session = pool.begin(lane).expect("begin");
    let lane = session.main();
    let mut builder = ObjectBuilder::new(Layout::Fixed(12));
    for chunk in bytes.chunks(CHUNK) {
        let name = lane.store_chunk(chunk).expect("store");
        let node = &mut |n: &[u8]| lane.store_node(n);
        builder.push(name, CHUNK as u64, node).expect("push");
    }
    let root = builder.finish(&mut |n| lane.store_node(n)).expect("finish");
    let snapshot = Snapshot {
        name: "image".to_owned(),
        ..Snapshot::new(
            pool.new_snapshot_id(),
            pool.now(),
            SnapshotKind::Image,
            root,
        )
    };
    let committed = pool.commit(session, std::slice::from_ref(&snapshot), &[]);
    committed.expect("commit");
    snapshot
}

fn collect(pool: &Pool, strike: Option<When>) -> CopyCounts {
    let before_copying = || strike.into_iter().for_each(flip::next);
    whole_run::collect(pool, None, small::LANE, before_copying)
}

/// Every second pair of chunks is still needed. Regions have two chunks, so each is live completely
/// or not at all.
#[test]
fn a_bit_that_flips_between_read_and_seal_is_not_sealed() {
    let mut noise = vec![0; 24 * CHUNK];
    SeededRandom::new(3).fill(&mut noise);
    let squeezable: Vec<u8> = noise
        .chunks(CHUNK)
        .flat_map(|c| [&c[..3000], &c[..1096]].concat())
        .collect();
    for with in [Compression::None, Compression::Zstd(1)] {
        for when in [When::Opened, When::Appended] {
            let bytes = if with == Compression::None {
                &noise
            } else {
                &squeezable
            };
            let disk = SimDisk::new();
            let pool = small::make(&disk);
            let all = image(&pool, with, bytes);
            let pairs = bytes.chunks(2 * CHUNK).step_by(2);
            let kept: Vec<u8> = pairs.flatten().copied().collect();
            let snapshot = image(&pool, with, &kept);
            pool.forget(&[all]).expect("forget");
            let counts = collect(&pool, Some(when));
            assert!(!flip::is_waiting(), "{when:?} {with:?}: nothing was copied");
            assert!(
                counts.containers_kept_back > 0,
                "{when:?} {with:?}: {counts:?}"
            );
            // The original still exists, and the next run copies it.
            let counts = collect(&pool, None);
            assert_eq!(
                counts.containers_kept_back, 0,
                "{when:?} {with:?}: {counts:?}"
            );
            assert!(counts.as_stored_bytes > 0, "{when:?} {with:?}: {counts:?}");
            collect(&pool, None);
            drop(pool);
            let pool = small::open(&disk);
            let mut back = vec![0; kept.len()];
            let read = pool.reader().read_object(&snapshot.root, 0, &mut back);
            read.expect("read");
            assert!(back == kept, "{when:?} {with:?}");
        }
    }
}

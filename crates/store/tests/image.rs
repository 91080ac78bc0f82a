//! Images, streams and files as volumes: every layout passes the suite of read-only volumes.

use chunking::Compression;
use format::recipe::{Layout, ObjectRoot};
use media::{Media, SeededRandom};
use sim::SimDisk;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{ImageVolume, InitOptions, LaneOptions, ObjectBuilder, OpenMode, Pool};
use units::{Fingerprint, UnixNanos};
use volume::{RequestContext, Volume};

fn pool() -> Pool {
    let media = Media::seeded(SimDisk::new(), UnixNanos::default(), 5);
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&media, &init).unwrap();
    Pool::open(media, None, OpenMode::Write, 32 << 20).unwrap()
}

/// Noise with runs of zeroes, one of them longer than any chunk.
fn bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    media::Random::fill(&SeededRandom::new(11), &mut bytes);
    for (from, to) in [(0, 5000), (len / 3, len / 3 + 300_000), (len - 70_000, len)] {
        bytes[from..to].fill(0);
    }
    bytes
}

fn serve(layout: Layout, bytes: &[u8]) -> ImageVolume {
    let pool = pool();
    let options = LaneOptions {
        compression: Compression::Default,
        region_bytes: 32 << 10,
        container_bytes: 256 << 10,
    };
    let mut session = pool.begin(options).unwrap();
    let lane = session.main();
    let root = match layout {
        // In pieces, so that there are many leaves and holes have entries of their own.
        Layout::Variable => {
            let mut builder = ObjectBuilder::new(layout);
            for piece in bytes.chunks(1500) {
                let chunk = lane.store_chunk(piece).unwrap();
                builder
                    .push(chunk, piece.len() as u64, &mut |n| lane.store_node(n))
                    .unwrap();
            }
            builder.finish(&mut |n| lane.store_node(n)).unwrap()
        }
        Layout::Fixed(log2) => {
            let mut builder = ObjectBuilder::new(layout);
            for piece in bytes.chunks(1 << log2) {
                let mut padded = piece.to_vec();
                padded.resize(1 << log2, 0);
                let chunk = lane.store_chunk(&padded).unwrap();
                builder
                    .push(chunk, piece.len() as u64, &mut |n| lane.store_node(n))
                    .unwrap();
            }
            builder.finish(&mut |n| lane.store_node(n)).unwrap()
        }
    };
    pool.commit(session, &[], &[]).unwrap();
    ImageVolume::new(Arc::clone(pool.reader()), root, "test".to_owned())
}

#[test]
fn every_layout_passes_the_suite() {
    let bytes = bytes(4_300_123);
    for layout in [Layout::Variable, Layout::Fixed(12), Layout::Fixed(14)] {
        let volume = serve(layout, &bytes);
        testkit::conformance::volume::read_only_volume_suite(Box::new(volume), &bytes);
    }
}

#[test]
fn holes_show_in_the_extents_and_are_not_read() {
    let bytes = bytes(4_300_123);
    for layout in [Layout::Variable, Layout::Fixed(12)] {
        let volume = serve(layout, &bytes);
        let mut holes = 0;
        let context = RequestContext::default();
        volume
            .extents(context, 0, bytes.len() as u64, &mut |extent| {
                let range =
                    extent.offset_bytes as usize..(extent.offset_bytes + extent.len_bytes) as usize;
                assert!(!extent.zero || bytes[range].iter().all(|b| *b == 0));
                holes += u64::from(extent.hole) * extent.len_bytes;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(holes > 360_000, "{layout:?}: {holes} bytes of holes told");
    }
}

#[test]
fn an_object_of_zeroes_needs_nothing_stored() {
    let root = ObjectRoot {
        fingerprint: Fingerprint::HOLE,
        len: 1 << 50,
        level: 5,
        layout: Layout::Fixed(12),
    };
    let volume = ImageVolume::new(Arc::clone(pool().reader()), root, String::new());
    let mut into = [7; 100];
    volume
        .read(RequestContext::default(), (1 << 50) - 100, &mut into)
        .unwrap();
    assert_eq!(into, [0; 100]);
}

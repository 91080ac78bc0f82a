//! Compares recipes with naive models: an object is what was pushed, a read is a slice of it.

mod naive;

use chunking::FingerprintKey;
use format::recipe::{Layout, ObjectRoot, RecipeNode};
use sim::Seed;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{ImageVolume, ObjectBuilder, Pool};
use testkit::specimen::{new_pool, options};
use units::Fingerprint;
use volume::{RequestContext, Volume};

/// A chunk: its fingerprint and the number of bytes it covers.
type Chunk = (Fingerprint, u64);

/// Returns chunks for any layout, with runs of holes. Few are different, so that nodes repeat.
fn chunks(seed: &mut Seed, layout: Layout, count: u64) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while (chunks.len() as u64) < count {
        let is_hole = seed.chance(60);
        let run = match seed.below(20) {
            0 => seed.below(700),
            _ => 1 + seed.below(3),
        };
        for _ in 0..run {
            let mut print = Fingerprint([0; 32]);
            if !is_hole {
                let name = 1 + seed.below(1 << 20);
                print.0[..8].copy_from_slice(&name.to_le_bytes());
                // The last bytes decide where nodes are cut. Cuts must be frequent here.
                print.0[30] = if seed.chance(8) { 0 } else { 1 };
            }
            let len = match layout {
                Layout::Variable => 1 + seed.below(50_000),
                Layout::Fixed(log2) => 1 << log2,
            };
            chunks.push((print, len));
        }
    }
    chunks.truncate(count as usize);
    if let (Layout::Fixed(log2), Some((_, last))) = (layout, chunks.last_mut()) {
        *last = 1 + seed.below(1 << log2);
    }
    chunks
}

/// Builds with the real builder, with nodes in memory.
fn build(layout: Layout, chunks: &[Chunk]) -> (ObjectRoot, HashMap<Fingerprint, RecipeNode>) {
    let key = FingerprintKey::new([1; 32]);
    let mut nodes = HashMap::new();
    let mut store = |bytes: &[u8]| {
        let print = key.fingerprint(bytes);
        nodes.insert(print, RecipeNode::decode(bytes).expect("a node"));
        Ok(print)
    };
    let mut builder = ObjectBuilder::new(layout);
    for (print, len) in chunks {
        builder.push(*print, *len, &mut store).expect("push");
    }
    (builder.finish(&mut store).expect("finish"), nodes)
}

#[test]
fn the_builder_agrees_with_the_naive_one_and_with_a_naive_walk() {
    let mut seed = Seed::new(5);
    for round in 0..300u64 {
        let layout = match round % 3 {
            0 => Layout::Variable,
            1 => Layout::Fixed(12),
            _ => Layout::Fixed(16),
        };
        let count = match round {
            0..30 => round,
            30..40 => 254 + round - 30,
            40..44 => 65_534 + round - 40,
            _ => seed.below(3000),
        };
        let chunks = chunks(&mut seed, layout, count);
        let (root, nodes) = build(layout, &chunks);
        assert_eq!(root, naive::root(layout, &chunks), "round {round}");
        assert_eq!(root.len, chunks.iter().map(|(_, len)| len).sum::<u64>());
        let walked = naive::leaves(&root, &nodes);
        assert_eq!(naive::runs(&walked), naive::runs(&chunks), "round {round}");
        for node in nodes.values() {
            assert_eq!(RecipeNode::decode(&node.encode()).as_ref(), Ok(node));
        }
    }
}

/// A pool with an object of known bytes.
struct Stored {
    pool: Pool,
    root: ObjectRoot,
    bytes: Vec<u8>,
}

fn stored(seed: &mut Seed, layout: Layout) -> Stored {
    let (_disk, pool) = new_pool();
    let mut session = pool
        .begin(options(chunking::Compression::Lz4))
        .expect("begin");
    let lane = session.main();
    let mut builder = ObjectBuilder::new(layout);
    let mut bytes = Vec::new();
    let count = match seed.below(4) {
        0 => seed.below(4),
        1 => 255 + seed.below(4),
        _ => seed.below(700),
    };
    for n in 0..count {
        let byte = match seed.below(3) {
            0 => 0,
            _ => seed.below(9) as u8,
        };
        let whole = match layout {
            Layout::Fixed(log2) => 1 << log2,
            Layout::Variable => 1 + seed.below(3000) as usize,
        };
        let used = match layout {
            Layout::Fixed(_) if n + 1 == count => 1 + seed.below(whole as u64) as usize,
            _ => whole,
        };
        let mut chunk = vec![byte; used];
        chunk[0] = byte.wrapping_mul(n as u8);
        bytes.extend_from_slice(&chunk);
        chunk.resize(whole, 0);
        let print = lane.store_chunk(&chunk).expect("store");
        let mut store = |node: &[u8]| lane.store_node(node);
        builder.push(print, used as u64, &mut store).expect("push");
    }
    let root = builder.finish(&mut |n| lane.store_node(n)).expect("finish");
    pool.commit(session, &[], &[]).expect("commit");
    Stored { pool, root, bytes }
}

#[test]
fn any_range_of_an_object_is_that_slice_of_its_bytes() {
    let mut seed = Seed::new(6);
    for round in 0..40 {
        let layout = if round % 2 == 0 {
            Layout::Variable
        } else {
            Layout::Fixed(12)
        };
        let Stored { pool, root, bytes } = stored(&mut seed, layout);
        let len = bytes.len() as u64;
        assert_eq!(root.len, len);
        let volume = ImageVolume::new(Arc::clone(pool.reader()), root, String::new());
        for _ in 0..40 {
            let from = seed.below(len + 10);
            let to = from + seed.below(len + 10 - from.min(len));
            let slice = |from: u64, to: u64| &bytes[from.min(len) as usize..to.min(len) as usize];
            // Pieces: in order, without gaps, each with the bytes of its place.
            let mut next = None;
            let visited =
                pool.reader()
                    .visit_pieces(&root, from, to, &mut |at, piece_len, print| {
                        assert!(
                            next.is_none_or(|next| next == at) && (next.is_some() || at <= from)
                        );
                        next = Some(at + piece_len);
                        let expected = slice(at, at + piece_len);
                        assert_eq!(expected.len() as u64, piece_len);
                        match print.is_hole() {
                            true => assert!(expected.iter().all(|b| *b == 0)),
                            false => {
                                let chunk = pool.reader().chunk(&print)?;
                                assert!(chunk[..piece_len as usize] == *expected);
                            }
                        }
                        Ok(ControlFlow::Continue(()))
                    });
            visited.unwrap();
            assert_eq!(next.is_some(), from < to.min(len));
            assert!(next.is_none_or(|end| end >= to.min(len)));
            // Bytes: as the slice, then zeroes.
            let mut read = vec![9; (to - from) as usize];
            pool.reader().read_object(&root, from, &mut read).unwrap();
            let (inside, beyond) = read.split_at(slice(from, to).len());
            assert!(inside == slice(from, to) && beyond.iter().all(|b| *b == 0));
            // The volume, within its size. Extents never report data as a hole.
            let (from, to) = (from.min(len), to.min(len));
            let mut served = vec![9; (to - from) as usize];
            let context = RequestContext::default();
            volume.read(context, from, &mut served).unwrap();
            assert!(served == slice(from, to));
            let mut next = from;
            let mut visit = |extent: volume::Extent| {
                assert_eq!(extent.offset_bytes, next);
                next += extent.len_bytes;
                let all_zero = slice(extent.offset_bytes, next).iter().all(|b| *b == 0);
                assert!(all_zero || !extent.hole);
                ControlFlow::Continue(())
            };
            volume
                .extents(context, from, to - from, &mut visit)
                .unwrap();
            assert!(next >= to || from == to);
        }
    }
}

#[test]
fn equal_bytes_have_equal_roots_and_a_change_changes_few_nodes() {
    let mut seed = Seed::new(7);
    for layout in [Layout::Variable, Layout::Fixed(12)] {
        let mut all = chunks(&mut seed, layout, 60_000);
        let (root, nodes) = build(layout, &all);
        assert_eq!(build(layout, &all).0, root);
        all[30_000].0 = Fingerprint([7; 32]);
        let (changed, after) = build(layout, &all);
        assert_ne!(changed, root);
        let new = after
            .keys()
            .filter(|print| !nodes.contains_key(print))
            .count();
        assert!((1..=6).contains(&new), "{layout:?}: {new} nodes changed");
    }
    // An insertion moves everything after it, but not into other nodes.
    let mut all = chunks(&mut seed, Layout::Variable, 60_000);
    let (_, nodes) = build(Layout::Variable, &all);
    all.insert(1000, (Fingerprint([7; 32]), 1234));
    let (_, after) = build(Layout::Variable, &all);
    let new = after
        .keys()
        .filter(|print| !nodes.contains_key(print))
        .count();
    assert!(new <= 8, "{new} of {} nodes changed", after.len());
}

#[test]
fn canary_the_model_notices_one_byte_and_one_chunk() {
    let mut seed = Seed::new(8);
    let all = chunks(&mut seed, Layout::Variable, 3000);
    let root = build(Layout::Variable, &all).0;
    let mut longer = all.clone();
    longer[1500].1 += 1;
    assert_ne!(naive::root(Layout::Variable, &longer), root);
    let mut fewer = all.clone();
    fewer.remove(1500);
    assert_ne!(naive::root(Layout::Variable, &fewer), root);
    assert_ne!(naive::runs(&fewer), naive::runs(&all));
}

//! Compares applying changes with building anew: the same root, and only the changed nodes are
//! stored.

use super::*;
use crate::recipe::ObjectBuilder;
use sim::Seed;
use std::collections::HashMap;

type Stored = HashMap<Fingerprint, Vec<u8>>;

fn chunk(number: u64) -> Fingerprint {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Fingerprint(bytes)
}

fn put(nodes: &mut Stored, bytes: &[u8]) -> Fingerprint {
    let fingerprint = Fingerprint(*blake3::hash(bytes).as_bytes());
    nodes.insert(fingerprint, bytes.to_vec());
    fingerprint
}

/// Builds an object. `chunks[n]` is chunk n; the last one may be used in part.
fn build(chunks: &[Fingerprint], len: u64, nodes: &mut Stored) -> ObjectRoot {
    let mut builder = ObjectBuilder::new(Layout::Fixed(12));
    let mut rest = len;
    for chunk in chunks {
        let now = rest.min(4096);
        rest -= now;
        let mut store = |bytes: &[u8]| Ok(put(nodes, bytes));
        builder.push(*chunk, now, &mut store).expect("push");
    }
    builder
        .finish(&mut |bytes| Ok(put(nodes, bytes)))
        .expect("finish")
}

/// Returns the root after the changes, and how many nodes were read and stored for it.
fn applied(
    root: &ObjectRoot,
    len: u64,
    edits: &[ChunkRun],
    nodes: &mut Stored,
) -> (ObjectRoot, usize, usize) {
    let old = nodes.clone();
    let (mut reads, mut writes) = (0, 0);
    let mut load = |f: &Fingerprint| {
        reads += 1;
        let bytes = old.get(f).map(Vec::as_slice).unwrap_or_default();
        RecipeNode::decode(bytes).map_err(|e| StoreError::corruption("node", f, e))
    };
    let result = apply(root, len, edits, &mut load, &mut |bytes| {
        writes += 1;
        Ok(put(nodes, bytes))
    });
    (result.expect("fold"), reads, writes)
}

fn overwrite(chunks: &mut Vec<Fingerprint>, len: u64, edits: &[ChunkRun]) {
    let count = usize::try_from(len.div_ceil(4096)).expect("count");
    chunks.resize(count, Fingerprint::HOLE);
    for edit in edits {
        for at in edit.first..edit.first + edit.count {
            if let Some(chunk) = chunks.get_mut(at as usize) {
                *chunk = edit.fingerprint;
            }
        }
    }
}

/// Returns random edits, ascending and not overlapping, some of them long runs of holes.
fn edits(seed: &mut Seed, chunks: u64) -> Vec<ChunkRun> {
    let mut at = 0;
    let mut out = Vec::new();
    for _ in 0..seed.below(12) {
        at += seed.below(700);
        if at >= chunks {
            break;
        }
        let (count, fingerprint) = match seed.below(3) {
            0 => (1 + seed.below(400), Fingerprint::HOLE),
            _ => (1, chunk(at * 7 + 1)),
        };
        out.push(ChunkRun {
            first: at,
            count,
            fingerprint,
        });
        at += count;
    }
    out
}

/// Returns lengths around those at which a tree gets another level.
fn size(seed: &mut Seed) -> u64 {
    let chunks = match seed.below(5) {
        0 => seed.below(4),
        1 => 250 + seed.below(10),
        2 => 500 + seed.below(20),
        3 => 65_530 + seed.below(10),
        _ => 66_000 + seed.below(1000),
    };
    chunks * 4096 + seed.below(2) * seed.below(4096)
}

#[test]
fn applying_gives_what_building_anew_gives() {
    for number in 0..150 {
        let mut seed = Seed::new(number);
        let (had, wanted) = (size(&mut seed), size(&mut seed));
        let fill = seed.below(4);
        let mut nodes = Stored::new();
        let mut chunks: Vec<_> = (0..had.div_ceil(4096))
            .map(|n| match n % 5 < fill {
                true => chunk(n),
                false => Fingerprint::HOLE,
            })
            .collect();
        let root = build(&chunks, had, &mut nodes);
        let edits = edits(&mut seed, wanted.div_ceil(4096));
        let (now, _, _) = applied(&root, wanted, &edits, &mut nodes);
        overwrite(&mut chunks, wanted, &edits);
        let mut fresh = Stored::new();
        let expected = build(&chunks, wanted, &mut fresh);
        assert_eq!(now.len, wanted, "seed {number}");
        if wanted > 0 {
            assert_eq!(now, expected, "seed {number}, {had} to {wanted}");
        }
        // Every node that the new root needs is stored.
        assert!(fresh.keys().all(|f| nodes.contains_key(f)), "seed {number}");
    }
}

#[test]
fn one_chunk_costs_one_node_a_level() {
    let mut nodes = Stored::new();
    let chunks: Vec<_> = (0..66_000).map(chunk).collect();
    let root = build(&chunks, 66_000 * 4096, &mut nodes);
    let edit = ChunkRun {
        first: 40_000,
        count: 1,
        fingerprint: chunk(1 << 40),
    };
    let (_, reads, writes) = applied(&root, root.len, &[edit], &mut nodes);
    assert_eq!((reads, writes), (3, 3));
}

#[test]
fn a_petabyte_becomes_a_hole_without_being_read() {
    let mut nodes = Stored::new();
    let root = hole(1 << 50, 12);
    let edit = |first, count, fingerprint| ChunkRun {
        first,
        count,
        fingerprint,
    };
    let some = [edit(5, 1, chunk(5)), edit(1 << 37, 1, chunk(6))];
    let (root, reads, writes) = applied(&root, root.len, &some, &mut nodes);
    assert_eq!(reads, 0);
    assert!(writes <= 10, "{writes}");
    let all = [edit(0, 1 << 38, Fingerprint::HOLE)];
    let (root, reads, writes) = applied(&root, root.len, &all, &mut nodes);
    assert_eq!((reads, writes), (0, 0));
    assert_eq!(root, hole(1 << 50, 12));
}

/// Each chunk and node that was read and changed is reported, once.
#[test]
fn replaced_chunks_and_nodes_are_reported() {
    let mut nodes = Stored::new();
    let mut chunks: Vec<_> = (0..600).map(chunk).collect();
    let old = build(&chunks, 600 * 4096, &mut nodes);
    let edit = |first, count, fingerprint| ChunkRun {
        first,
        count,
        fingerprint,
    };
    let edits = [
        edit(3, 1, chunk(9000)),
        // The same bytes again.
        edit(5, 1, chunk(5)),
        edit(7, 2, Fingerprint::HOLE),
    ];
    let copy = nodes.clone();
    let mut load = |f: &Fingerprint| {
        let bytes = copy.get(f).map(Vec::as_slice).unwrap_or_default();
        RecipeNode::decode(bytes).map_err(|e| StoreError::corruption("node", f, e))
    };
    let mut replaced = Vec::new();
    let new = replace(
        &old,
        old.len,
        &edits,
        &mut load,
        &mut |bytes| Ok(put(&mut nodes, bytes)),
        &mut |f| replaced.push(*f),
    );
    let new = new.expect("applied");
    overwrite(&mut chunks, old.len, &edits);
    assert_eq!(new, build(&chunks, old.len, &mut nodes));
    assert_eq!(replaced[..3], [chunk(3), chunk(7), chunk(8)]);
    assert_eq!(replaced.len(), 5, "the leaf node and the root too");
    assert_eq!(replaced[4], old.fingerprint);
}

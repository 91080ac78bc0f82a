//! Compares the map with a `BTreeMap`.

use super::*;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
struct Memory(HashMap<Fingerprint, Vec<u8>>, usize);

impl Nodes for Memory {
    fn load(&mut self, fingerprint: &Fingerprint) -> Result<MapNode> {
        Ok(MapNode::decode(&self.0[fingerprint]).unwrap())
    }
    fn store(&mut self, bytes: &[u8]) -> Result<Fingerprint> {
        assert!(bytes.len() <= 2 * MAP_NODE_BYTES_MAX + 100);
        MapNode::decode(bytes).unwrap();
        self.1 += 1;
        let key = chunking::FingerprintKey::new([1; 32]).fingerprint(bytes);
        self.0.insert(key, bytes.to_vec());
        Ok(key)
    }
}

#[test]
fn random_edits_match_a_btreemap_and_old_roots_stay() {
    let mut state = 7u64;
    let mut random = move |n: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    let mut memory = Memory::default();
    let mut model = BTreeMap::new();
    let mut root = None;
    let mut history = Vec::new();
    for round in 0..120 {
        let mut edits = BTreeMap::new();
        for _ in 0..random(if round % 10 == 0 { 600 } else { 5 }) {
            let key = random(3000).to_be_bytes().to_vec();
            let value = (random(3) > 0).then(|| vec![7; random(90) as usize]);
            edits.insert(key, value);
        }
        if round == 100 {
            edits = model.keys().map(|k: &Vec<u8>| (k.clone(), None)).collect();
        }
        for (key, value) in &edits {
            match value {
                Some(value) => model.insert(key.clone(), value.clone()),
                None => model.remove(key),
            };
        }
        let edits: Vec<_> = edits
            .into_iter()
            .map(|(key, value)| Edit { key, value })
            .collect();
        root = apply(root, &edits, &mut memory).unwrap();
        history.push((root, model.clone()));
    }
    for (root, model) in history {
        let mut seen = BTreeMap::new();
        let mut load = |f: &Fingerprint| memory.load(f);
        let _ = visit(root, &[], &mut load, &mut |k, v| {
            seen.insert(k.to_vec(), v.to_vec());
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(seen, model);
    }
}

#[test]
fn one_edit_among_many_entries_stores_one_path() {
    let mut memory = Memory::default();
    let edit = |n: u64| Edit {
        key: n.to_be_bytes().to_vec(),
        value: Some(vec![1; 100]),
    };
    let edits: Vec<_> = (0..100_000).map(edit).collect();
    let root = apply(None, &edits, &mut memory).unwrap();
    let before = memory.1;
    apply(
        root,
        &[Edit {
            key: 50_000u64.to_be_bytes().to_vec(),
            value: None,
        }],
        &mut memory,
    )
    .unwrap();
    assert!(
        memory.1 - before <= 4,
        "{} nodes for one edit",
        memory.1 - before
    );
}

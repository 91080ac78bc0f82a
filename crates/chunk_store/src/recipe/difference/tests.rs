//! Compares differences with a comparison of the bytes, and counts their cost.

use super::*;
use crate::recipe::ObjectBuilder;
use chunking::FingerprintKey;
use std::collections::HashMap;

const LOG2: u8 = 12;
const CHUNK: u64 = 1 << LOG2;

#[derive(Default)]
struct Memory {
    nodes: HashMap<Fingerprint, Vec<u8>>,
    loads: usize,
}

impl Memory {
    /// Stores an object of this length whose chunk `n` has the contents `chunks[n]`, 0 for a hole.
    fn put(&mut self, chunks: &[u64], len: u64) -> ObjectRoot {
        let key = FingerprintKey::new([1; 32]);
        let mut store = |bytes: &[u8]| {
            let fingerprint = key.fingerprint(bytes);
            self.nodes.insert(fingerprint, bytes.to_vec());
            Ok(fingerprint)
        };
        let mut builder = ObjectBuilder::new(Layout::Fixed(LOG2));
        for (n, content) in (0..).zip(chunks) {
            let print = match content {
                0 => Fingerprint::HOLE,
                content => key.fingerprint(&content.to_le_bytes()),
            };
            let len = CHUNK.min(len - n * CHUNK);
            builder.push(print, len, &mut store).unwrap();
        }
        builder.finish(&mut store).unwrap()
    }

    fn differences(&mut self, a: &ObjectRoot, b: &ObjectRoot) -> Vec<Range<u64>> {
        self.differences_within(a, b, 0..u64::MAX)
    }

    fn differences_within(
        &mut self,
        a: &ObjectRoot,
        b: &ObjectRoot,
        within: Range<u64>,
    ) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        let (nodes, loads) = (&self.nodes, &mut self.loads);
        let mut load = |f: &Fingerprint| {
            *loads += 1;
            Ok(RecipeNode::decode(&nodes[f]).unwrap())
        };
        visit_differences(a, b, within, &mut load, &mut |range| {
            ranges.push(range);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        ranges
    }
}

/// Compares chunk by chunk and joins adjacent ranges.
fn naive(a: &[u64], a_len: u64, b: &[u64], b_len: u64) -> Vec<Range<u64>> {
    let common = a_len.min(b_len);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut add = |range: Range<u64>| match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    };
    for n in 0..common.div_ceil(CHUNK) {
        if a[n as usize] != b[n as usize] {
            add(n * CHUNK..((n + 1) * CHUNK).min(common));
        }
    }
    add(common..a_len.max(b_len));
    ranges
}

fn dice(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    }
}

#[test]
fn random_objects_against_a_comparison_of_chunks() {
    let mut random = dice(5);
    for round in 0..300 {
        let mut memory = Memory::default();
        // One, two and three levels. Some chunks are holes, some repeat.
        let most = [3, 300, 70_000][(round % 3 * (round % 10) / 9) as usize];
        let count = 1 + random(most);
        let mut a: Vec<u64> = (0..count).map(|n| n * random(2)).collect();
        if random(4) == 0 {
            a.iter_mut().take(600).for_each(|chunk| *chunk = 0);
        }
        let mut b = a.clone();
        for _ in 0..random(6) {
            let at = random(count) as usize;
            b[at..]
                .iter_mut()
                .take(1 + random(3) as usize)
                .for_each(|c| {
                    *c = random(3) * 1_000_000;
                });
        }
        match random(3) {
            0 => b.truncate(1 + random(count) as usize),
            1 => b.extend((0..random(400)).map(|n| n + 9_000_000)),
            _ => {}
        }
        let mut len = |chunks: &[u64]| chunks.len() as u64 * CHUNK - random(CHUNK);
        let (a_len, b_len) = (len(&a), len(&b));
        let (a_root, b_root) = (memory.put(&a, a_len), memory.put(&b, b_len));
        let wanted = naive(&a, a_len, &b, b_len);
        let end = a_len.max(b_len);
        let from = random(end);
        let to = from + random(end - from);
        let part: Vec<Range<u64>> = wanted
            .iter()
            .map(|range| range.start.max(from)..range.end.min(to))
            .filter(|range| !range.is_empty())
            .collect();
        assert_eq!(
            memory.differences_within(&a_root, &b_root, from..to),
            part,
            "round {round}, {from}..{to}"
        );
        assert_eq!(
            memory.differences(&a_root, &b_root),
            wanted,
            "round {round}"
        );
        assert_eq!(
            memory.differences(&b_root, &a_root),
            wanted,
            "round {round}"
        );
    }
}

#[test]
fn equal_parts_cost_nothing() {
    let mut memory = Memory::default();
    let a: Vec<u64> = (1..=150_000).collect();
    let mut b = a.clone();
    b[77_777] = 0;
    let len = a.len() as u64 * CHUNK;
    let (a, b) = (memory.put(&a, len), memory.put(&b, len));
    assert_eq!(memory.differences(&a, &a), []);
    assert_eq!(memory.loads, 0);
    let at = 77_777 * CHUNK;
    let found = memory.differences(&a, &b);
    assert!(
        found.len() == 1 && found[0] == (at..at + CHUNK),
        "{found:?}"
    );
    assert_eq!(memory.loads, 6, "one path of three levels in each");
    assert_eq!(memory.differences_within(&a, &b, 0..CHUNK), []);
    assert_eq!(memory.loads, 8, "what is elsewhere costs the tops at most");
}

#[test]
fn empty_objects_and_other_layouts() {
    let mut memory = Memory::default();
    let some = memory.put(&[1, 2], 2 * CHUNK);
    let empty = ObjectRoot {
        layout: Layout::Fixed(LOG2),
        ..ObjectRoot::EMPTY
    };
    let found = memory.differences(&empty, &some);
    assert!(found.len() == 1 && found[0] == (0..2 * CHUNK), "{found:?}");
    assert_eq!(memory.differences(&empty, &empty), []);
    let found = memory.differences(&some, &ObjectRoot::EMPTY);
    assert_eq!(found.len(), 1, "{found:?}");
    let other = ObjectRoot {
        layout: Layout::Fixed(LOG2 + 1),
        ..some
    };
    let all = 0..u64::MAX;
    let refused = visit_differences(&some, &other, all, &mut |_| unreachable!(), &mut |_| {
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Invalid);
}

#[test]
fn a_visit_can_be_broken_off() {
    let mut memory = Memory::default();
    let (a, b) = (
        memory.put(&[1, 2, 3, 4, 5], 5 * CHUNK),
        memory.put(&[9, 2, 9, 4, 9], 5 * CHUNK),
    );
    let mut seen = Vec::new();
    let mut load = |f: &Fingerprint| Ok(RecipeNode::decode(&memory.nodes[f]).unwrap());
    visit_differences(&a, &b, 0..u64::MAX, &mut load, &mut |range| {
        seen.push(range.start);
        Ok(ControlFlow::Break(()))
    })
    .unwrap();
    assert_eq!(seen, [0]);
}

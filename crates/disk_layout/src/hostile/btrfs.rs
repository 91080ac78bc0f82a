//! btrfs: more chunks than memory, nodes that point at each other.
//!
//! Invariant: see [`super`].

use super::{Dice, Sparse, le};

const NODE: u64 = 65536;
const ROOT: u64 = 1 << 20;

fn chunk(len: u64, kind: u64, stripes: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; 48 + 32 * stripes.len()];
    le(&mut bytes, 0, &len.to_le_bytes());
    le(&mut bytes, 24, &kind.to_le_bytes());
    le(&mut bytes, 44, &(stripes.len() as u16).to_le_bytes());
    for (n, start) in stripes.iter().enumerate() {
        le(&mut bytes, 48 + 32 * n, &1_u64.to_le_bytes());
        le(&mut bytes, 56 + 32 * n, &start.to_le_bytes());
    }
    bytes
}

fn node(logical: u64, level: u8, items: u64) -> Vec<u8> {
    let mut bytes = vec![0; NODE as usize];
    le(&mut bytes, 32, &[9; 16]);
    le(&mut bytes, 48, &logical.to_le_bytes());
    le(&mut bytes, 96, &(items as u32).to_le_bytes());
    le(&mut bytes, 100, &[level]);
    bytes
}

/// A whole disk of it.
pub fn disk(dice: &mut Dice) -> Sparse {
    let mut disk = Sparse::new(dice.of(&[64 << 20, 1 << 40]));
    let leaves = dice.of(&[2, 20, 60]);
    put(&mut disk, 0, dice, leaves);
    disk
}

/// A file system at an offset, with so many leaves of chunks.
pub fn put(disk: &mut Sparse, offset_bytes: u64, dice: &mut Dice, leaves: u64) {
    let mut sb = vec![0; 4096];
    le(&mut sb, 32, &[9; 16]);
    le(&mut sb, 64, b"_BHRfS_M");
    le(&mut sb, 88, &ROOT.to_le_bytes());
    le(&mut sb, 148, &(NODE as u32).to_le_bytes());
    le(&mut sb, 201, &1_u64.to_le_bytes());
    // The chunk with the tree, at its own place.
    let system = chunk(32 << 20, 2, &[0]);
    le(&mut sb, 160, &(17 + system.len() as u32).to_le_bytes());
    le(&mut sb, 811 + 8, &[228]);
    le(&mut sb, 811 + 17, &system);
    disk.put(offset_bytes + (64 << 10), &sb);
    let children = dice.of(&[leaves, leaves, 1900]);
    let mut root = node(ROOT, 1, children);
    for n in 0..children as usize {
        // Some point back, or at the same one.
        let to = ROOT + (n as u64 % (leaves + 1)) * NODE;
        le(&mut root, 101 + 33 * n + 17, &to.to_le_bytes());
    }
    disk.put(offset_bytes + ROOT, &root);
    let items = 600_u64;
    for leaf in 1..=leaves {
        let logical = ROOT + leaf * NODE;
        let mut bytes = node(logical, 0, items);
        let shared = dice.once_in(3);
        for n in 0..items {
            let stripes: &[u64] = if shared { &[0; 900] } else { &[0] };
            let body = chunk(4096, dice.of(&[1, 4, 36]), stripes);
            let at = match shared {
                true => 30_000,
                false => 16_000 + n * 80,
            };
            let item = 101 + 25 * n as usize;
            let key = (64 << 20) + (leaf * items + n) * 4096;
            le(&mut bytes, item + 8, &[228]);
            le(&mut bytes, item + 9, &key.to_le_bytes());
            le(&mut bytes, item + 17, &(at as u32).to_le_bytes());
            le(&mut bytes, 101 + at as usize, &body);
            le(&mut bytes, 101 + at as usize + 56, &key.to_le_bytes());
        }
        disk.put(offset_bytes + logical, &bytes);
    }
}

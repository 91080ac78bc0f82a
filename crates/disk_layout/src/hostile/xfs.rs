//! XFS: tens of thousands of groups, inodes whose extents cover the disk.
//!
//! Invariant: see [`super`].

use super::{Dice, Sparse, be, le};

/// All groups are alike.
pub fn disk(dice: &mut Dice) -> Sparse {
    let block = dice.of(&[4096, 4096, 65536]);
    let group_blocks = dice.of(&[64, 128, 4096]);
    let groups = dice.of(&[4, 1000, 30_000, 65_536]);
    let group_log = u64::from(group_blocks.trailing_zeros());
    let inode = dice.of(&[512, 2048]);
    let per_log = u64::from((block / inode).trailing_zeros());
    let mut disk = Sparse::new(groups * group_blocks * block);
    let mut sb = vec![0; 512];
    le(&mut sb, 0, b"XFSB");
    let fields = [
        (4, block, 4),
        (8, groups * group_blocks, 8),
        (84, group_blocks, 4),
        (88, groups, 4),
        (102, 512, 2),
        (104, inode, 2),
        (123, per_log, 1),
        (124, group_log, 1),
    ];
    for (at, number, len) in fields {
        be(&mut sb, at, number, len);
    }
    disk.put(0, &sb);
    let every = group_blocks * block;
    let mut header = vec![0; 512];
    le(&mut header, 0, b"XAGI");
    be(&mut header, 20, 4, 4);
    be(&mut header, 24, dice.below(3) + 1, 4);
    disk.tile(every, 1024, &header);
    disk.put(1024, &header);
    for at in 4..8 {
        // Nodes that point at each other, and leaves.
        let level = dice.below(3);
        let mut node = vec![0; block as usize];
        le(&mut node, 0, b"IAB3");
        be(&mut node, 4, level, 2);
        be(&mut node, 6, dice.of(&[1, 8, 4000]), 2);
        let room = node.len() - 56;
        for n in 0..room / 16 {
            let (place, number) = match level {
                0 => (56 + n * 16, (8 + n as u64) << per_log),
                _ => (56 + room / 8 * 4 + n * 4, 4 + n as u64 % 4),
            };
            be(&mut node, place, number, 4);
        }
        disk.tile(every, at * block, &node);
    }
    for at in 8..16 {
        for n in 0..block / inode {
            let bytes = wild_inode(dice, inode as usize, groups, group_blocks, group_log);
            disk.tile(every, at * block + n * inode, &bytes);
        }
    }
    disk
}

fn wild_inode(dice: &mut Dice, len: usize, groups: u64, group_blocks: u64, log: u64) -> Vec<u8> {
    let mut inode = vec![0; len];
    le(&mut inode, 0, b"IN");
    be(&mut inode, 2, dice.of(&[0x81a4, 0x41ed]), 2);
    le(&mut inode, 4, &[3, 2]);
    let count = dice.of(&[1, 3, 100]).min((len as u64 - 176) / 16);
    be(&mut inode, 56, 1 << 30, 8);
    be(&mut inode, 76, count, 4);
    let mut logical = 0;
    for n in 0..count {
        let len = dice.of(&[1, 64, (1 << 21) - 1, (1 << 21) - 1]);
        let block = dice.below(groups) << log | dice.below(group_blocks);
        let at = 176 + 16 * n as usize;
        be(&mut inode, at, logical << 9 | block >> 43, 8);
        be(&mut inode, at + 8, block << 21 | len, 8);
        logical += len;
    }
    inode
}

//! ext file systems: tiny groups, tables that overlap, extents that cover everything, trees that
//! point at themselves, journals that say what they like.
//!
//! Invariant: see [`super`].

use super::{Dice, Sparse, be, le};

/// Fields of the superblock.
struct Shape {
    block: u64,
    blocks: u64,
    group_blocks: u64,
    group_inodes: u64,
    compat: u32,
    incompat: u32,
    ro: u32,
    journal: u32,
}

impl Shape {
    fn first(&self) -> u64 {
        u64::from(self.block == 1024)
    }

    fn groups(&self) -> u64 {
        (self.blocks - self.first()).div_ceil(self.group_blocks)
    }

    fn superblock(&self) -> Vec<u8> {
        let mut sb = vec![0; 1024];
        let mut put = |at: usize, number: u64| le(&mut sb, at, &(number as u32).to_le_bytes());
        put(0, self.groups() * self.group_inodes);
        put(4, self.blocks);
        put(0x14, self.first());
        put(0x18, u64::from(self.block.trailing_zeros()) - 10);
        put(0x20, self.group_blocks);
        put(0x28, self.group_inodes);
        put(0x4c, 1);
        put(0x54, 11);
        put(0x58, 256);
        put(0x5c, u64::from(self.compat));
        put(0x60, u64::from(self.incompat));
        put(0x64, u64::from(self.ro));
        put(0xe0, u64::from(self.journal));
        le(&mut sb, 0x38, &0xef53_u16.to_le_bytes());
        sb
    }

    /// Bitmap, inode bitmap, table, and inodes that were never used.
    fn descriptors(&self, of: impl Fn(u64) -> [u64; 4]) -> Vec<u8> {
        let mut all = vec![0; self.groups() as usize * 32];
        for (n, bytes) in (0..).zip(all.chunks_exact_mut(32)) {
            let [bitmap, inodes, table, unused] = of(n);
            le(bytes, 0, &(bitmap as u32).to_le_bytes());
            le(bytes, 4, &(inodes as u32).to_le_bytes());
            le(bytes, 8, &(table as u32).to_le_bytes());
            le(bytes, 0x1c, &(unused as u16).to_le_bytes());
        }
        all
    }
}

fn extents(depth: u16, entries: &[(u32, u16, u64)], len: usize) -> Vec<u8> {
    let mut node = vec![0; len];
    le(&mut node, 0, &0xf30a_u16.to_le_bytes());
    le(&mut node, 2, &(entries.len() as u16).to_le_bytes());
    le(&mut node, 6, &depth.to_le_bytes());
    for (n, (logical, len, block)) in entries.iter().enumerate() {
        let at = 12 + 12 * n;
        le(&mut node, at, &logical.to_le_bytes());
        let block32 = (*block as u32).to_le_bytes();
        match depth {
            0 => {
                le(&mut node, at + 4, &len.to_le_bytes());
                le(&mut node, at + 8, &block32);
            }
            _ => le(&mut node, at + 4, &block32),
        }
    }
    node
}

fn inode(mode: u16, root: &[u8]) -> Vec<u8> {
    let mut inode = vec![0; 256];
    le(&mut inode, 0, &mode.to_le_bytes());
    le(&mut inode, 4, &(1_u32 << 20).to_le_bytes());
    le(&mut inode, 0x1a, &1_u16.to_le_bytes());
    le(&mut inode, 0x1c, &8_u32.to_le_bytes());
    le(&mut inode, 0x20, &0x8_0000_u32.to_le_bytes());
    le(&mut inode, 0x28, root);
    inode
}

/// An inode whose extents lie anywhere, over each other.
fn wild_inode(dice: &mut Dice, shape: &Shape, node: u64) -> Vec<u8> {
    let mode = dice.of(&[0x81a4, 0x81a4, 0x41ed, 0xa1ff]) as u16;
    let depth = dice.of(&[0, 0, 0, 1, 5]) as u16;
    let mut logical = 0_u32;
    let mut entries = Vec::new();
    for _ in 0..dice.below(4) + 1 {
        let len = dice.of(&[1, 8, 1000, 32768]) as u16;
        let block = match depth {
            0 => dice.below(shape.blocks),
            _ => node + dice.below(4),
        };
        entries.push((logical, len, block));
        logical += u32::from(len) * (dice.below(2) as u32 + 1);
    }
    inode(mode, &extents(depth, &entries, 60))
}

/// Any shape, all of whose groups share a few bitmaps and tables.
pub fn disk(dice: &mut Dice) -> Sparse {
    let block = dice.of(&[1024, 4096, 65536]);
    let group_blocks = dice.of(&[64, 64, 256, 4096, 8192]);
    let groups = dice.of(&[3, 300, 5_000, 20_000]);
    let shape = Shape {
        block,
        blocks: group_blocks * groups + 20_000,
        group_blocks,
        group_inodes: dice.of(&[16, 64, 4096]),
        compat: dice.of(&[0, 0x10, 0x4]) as u32,
        incompat: 0x40 | dice.of(&[0, 0, 0x10]) as u32,
        ro: dice.of(&[0, 1, 1, 0x10]) as u32,
        journal: 0,
    };
    let mut disk = Sparse::new(shape.blocks * block);
    disk.put(1024, &shape.superblock());
    // After the descriptors: bitmaps, a table, nodes.
    let place = 20 + shape.groups() * 32 / block;
    let table_blocks = (shape.group_inodes * 256).div_ceil(block).min(64);
    let (table, node) = (place + 8, place + 8 + table_blocks);
    let (spread, apart) = (dice.below(2), dice.once_in(2));
    let descriptors = shape.descriptors(|group| {
        let own = group * group_blocks + shape.first();
        match apart && group > place / group_blocks + 1 {
            true => [own, own + 1, own + 2 + spread * (group % 7), 0],
            false => [
                place + group % 4,
                place + 4,
                table + spread * (group % 5),
                0,
            ],
        }
    });
    let at = (shape.first() + 1) * block;
    disk.put(at, &descriptors);
    for n in 0..4 {
        let bits = dice.of(&[0x55, 0, 0xff, 0x0f]) as u8;
        disk.put((place + n) * block, &vec![bits; block as usize]);
    }
    disk.put((place + 4) * block, &vec![0xff; block as usize]);
    for n in 0..table_blocks * block / 256 {
        disk.put(table * block + n * 256, &wild_inode(dice, &shape, node));
    }
    for n in 0..4 {
        // Nodes of every level that point at each other.
        let depth = dice.below(6) as u16;
        let entries: Vec<(u32, u16, u64)> = (0..(block / 12 - 1).min(2000))
            .map(|k| {
                let to = match depth {
                    0 => dice.below(shape.blocks),
                    _ => node + k % 4,
                };
                (k as u32 * 10, 10, to)
            })
            .collect();
        let bytes = extents(depth, &entries, block as usize);
        disk.put((node + n) * block, &bytes);
    }
    if dice.once_in(8) {
        disk.damage = Some(at + dice.below(4) * block..at + 5 * block);
    }
    disk
}

/// A file system with a journal whose log changes the descriptors.
pub fn journal(dice: &mut Dice) -> Sparse {
    let shape = Shape {
        block: 4096,
        blocks: 40_000,
        group_blocks: 32768,
        group_inodes: 1024,
        compat: 4,
        incompat: 0x46,
        ro: 1,
        journal: 8,
    };
    let mut disk = Sparse::new(shape.blocks * 4096);
    disk.put(1024, &shape.superblock());
    let of = |table: u64| shape.descriptors(move |group| [10 + group, 12 + group, table, 0]);
    disk.put(4096, &of(20));
    let root = extents(0, &[(0, 4000, 1000)], 60);
    disk.put(20 * 4096 + 7 * 256, &inode(0x8180, &root));
    let mut head = vec![0; 4096];
    let count = dice.of(&[1, 10, 1000]);
    let fields = [
        (0, 0xc03b_3998),
        (4, 4),
        (12, 4096),
        (16, 4000),
        (20, 1),
        (24, 7),
        (28, 1),
    ];
    for (at, number) in fields {
        be(&mut head, at, number, 4);
    }
    disk.put(1000 * 4096, &head);
    for n in 0..count {
        let at = 1001 + n * 3;
        disk.put(at * 4096, &descriptor(7 + n, 1));
        // The descriptors of groups, elsewhere.
        disk.put((at + 1) * 4096, &of(dice.of(&[20, 600, 700])));
        disk.put((at + 2) * 4096, &commit(7 + n));
    }
    disk
}

fn log_block(kind: u64, sequence: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    be(&mut bytes, 0, 0xc03b_3998, 4);
    be(&mut bytes, 4, kind, 4);
    be(&mut bytes, 8, sequence, 4);
    bytes
}

/// A block of the journal: a copy of `block` follows it.
pub fn descriptor(sequence: u64, block: u64) -> Vec<u8> {
    let mut bytes = log_block(1, sequence);
    be(&mut bytes, 12, block, 4);
    // The last tag.
    be(&mut bytes, 18, 8 | 2, 2);
    bytes
}

/// A block of the journal that completes a transaction.
pub fn commit(sequence: u64) -> Vec<u8> {
    log_block(2, sequence)
}

/// A small sound file system at an offset, with a file or two.
pub fn small(disk: &mut Sparse, offset_bytes: u64, dice: &mut Dice) {
    let shape = Shape {
        block: 1024,
        blocks: 8192,
        group_blocks: 8192,
        group_inodes: 32,
        compat: 0,
        incompat: 0x40,
        ro: 1,
        journal: 0,
    };
    disk.put(offset_bytes + 1024, &shape.superblock());
    let descriptors = shape.descriptors(|_| [3, 4, 5, 0]);
    disk.put(offset_bytes + 2048, &descriptors);
    disk.put(offset_bytes + 4096, &[0xff; 4]);
    for n in 0..2 {
        let extent = (0, dice.below(100) as u16 + 1, 100 + n * 200);
        let file = inode(0x81a4, &extents(0, &[extent], 60));
        disk.put(offset_bytes + 5 * 1024 + (11 + n) * 256, &file);
    }
}

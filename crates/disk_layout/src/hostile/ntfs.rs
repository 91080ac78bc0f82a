//! NTFS: a table as large as the disk, runs that overlap, records all alike.
//!
//! Invariant: see [`super`].

use super::{Dice, Sparse, le};

/// A record with these runs of data: length and distance, clusters.
fn record(runs: &[(u32, i32)]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    le(&mut bytes, 0, b"FILE");
    le(&mut bytes, 4, &48_u16.to_le_bytes());
    le(&mut bytes, 6, &1_u16.to_le_bytes());
    le(&mut bytes, 20, &56_u16.to_le_bytes());
    le(&mut bytes, 22, &1_u16.to_le_bytes());
    let mut at = 56 + 64;
    for (len, distance) in runs {
        le(&mut bytes, at, &[0x44]);
        le(&mut bytes, at + 1, &len.to_le_bytes());
        le(&mut bytes, at + 5, &distance.to_le_bytes());
        at += 9;
    }
    let attribute = at + 8 - 56;
    le(&mut bytes, 56, &0x80_u32.to_le_bytes());
    le(&mut bytes, 60, &(attribute as u32).to_le_bytes());
    le(&mut bytes, 64, &[1]);
    le(&mut bytes, 56 + 32, &64_u16.to_le_bytes());
    le(&mut bytes, 56 + 48, &(1_u64 << 30).to_le_bytes());
    le(&mut bytes, 56 + attribute, &u32::MAX.to_le_bytes());
    bytes
}

/// See the module.
pub fn disk(dice: &mut Dice) -> Sparse {
    let clusters = dice.of(&[1000, 1 << 20, 1 << 22]);
    let mut disk = Sparse::new(clusters * 4096);
    let mut boot = vec![0; 512];
    le(&mut boot, 3, b"NTFS    ");
    le(&mut boot, 11, &512_u16.to_le_bytes());
    le(&mut boot, 13, &[8]);
    le(&mut boot, 40, &(clusters * 8).to_le_bytes());
    le(&mut boot, 48, &4_u64.to_le_bytes());
    le(&mut boot, 56, &2_u64.to_le_bytes());
    le(&mut boot, 64, &[1]);
    disk.put(0, &boot);
    let table = match dice.below(4) {
        // The same clusters again and again; the whole disk; every other cluster.
        0 => vec![(clusters as u32 - 8, 4); 1]
            .into_iter()
            .chain(vec![(clusters as u32 - 8, 0); 300])
            .collect(),
        1 => vec![(clusters as u32 - 4, 4)],
        2 => (0..300).map(|n| (1, if n == 0 { 4 } else { 2 })).collect(),
        _ => vec![(600, 4)],
    };
    disk.put(4 * 4096, &record(&table));
    for n in 0..64 {
        let count = dice.of(&[1, 30, 400]);
        let len = dice.of(&[1, 1000, clusters / 2, clusters / count]).max(1) as u32;
        let runs: Vec<(u32, i32)> = (0..count)
            .map(|n| match n {
                0 => (len, dice.below(clusters / 2) as i32),
                _ => (len, dice.of(&[0, 2, u64::from(len)]) as i32),
            })
            .collect();
        disk.tile(64 * 4096, n * 4096, &record(&runs));
    }
    disk
}

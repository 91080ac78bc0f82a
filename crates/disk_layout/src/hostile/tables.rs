//! Partition tables and physical volumes: many parts, parts within parts, parts on themselves.
//!
//! Invariant: see [`super`].

use super::{Dice, Sparse, btrfs, ext, le};

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;

fn signature(sector: &mut [u8]) {
    le(sector, 510, &[0x55, 0xaa]);
}

fn entry(sector: &mut [u8], n: usize, kind: u8, start: u64, sectors: u64) {
    let at = 446 + 16 * n;
    le(sector, at + 4, &[kind]);
    le(sector, at + 8, &(start as u32).to_le_bytes());
    le(sector, at + 12, &(sectors as u32).to_le_bytes());
}

/// A table of partitions in GPT, each of `sectors` from its start.
fn gpt_of(disk: &mut Sparse, starts: &[u64], sectors: u64) {
    let mut first = vec![0; 512];
    entry(&mut first, 0, 0xee, 1, u64::from(u32::MAX));
    signature(&mut first);
    disk.put(0, &first);
    let mut header = vec![0; 512];
    le(&mut header, 0, b"EFI PART");
    le(&mut header, 72, &2_u64.to_le_bytes());
    le(&mut header, 80, &(starts.len() as u32).to_le_bytes());
    le(&mut header, 84, &128_u32.to_le_bytes());
    disk.put(SECTOR, &header);
    for (n, start) in (0..).zip(starts) {
        let mut entry = vec![0; 128];
        le(&mut entry, 0, &[7; 32]);
        le(&mut entry, 32, &start.to_le_bytes());
        le(&mut entry, 40, &(start + sectors - 1).to_le_bytes());
        disk.put(2 * SECTOR + n * 128, &entry);
    }
}

/// Many partitions, which overlap sometimes, with file systems in some.
pub fn gpt(dice: &mut Dice) -> Sparse {
    let count = dice.of(&[2, 9, 12, 100, 128, 500]);
    let sectors = 64 * MIB / SECTOR;
    let step = dice.of(&[sectors, sectors, 8, 0]);
    let starts: Vec<u64> = (0..count).map(|n| 2048 + n * step).collect();
    let mut disk = Sparse::new((2048 + (count + 1) * sectors) * SECTOR);
    gpt_of(&mut disk, &starts, sectors);
    for start in &starts {
        if step == sectors && dice.once_in(3) {
            ext::small(&mut disk, start * SECTOR, dice);
        }
    }
    disk
}

/// A sound disk: so many partitions of 64 MiB from 1 MiB on, with a small ext4 in each.
pub fn small_systems(count: u64) -> Sparse {
    let sectors = 64 * MIB / SECTOR;
    let starts: Vec<u64> = (0..count).map(|n| 2048 + n * sectors).collect();
    let mut disk = Sparse::new((2048 + count * sectors) * SECTOR);
    gpt_of(&mut disk, &starts, sectors);
    for start in &starts {
        ext::small(&mut disk, start * SECTOR, &mut Dice::new(1));
    }
    disk
}

/// Partitions with a file system of btrfs each.
pub fn btrfs_parts(dice: &mut Dice) -> Sparse {
    let count = dice.of(&[8, 64, 128]);
    let sectors = 64 * MIB / SECTOR;
    let starts: Vec<u64> = (0..count).map(|n| 2048 + n * sectors).collect();
    let mut disk = Sparse::new((2048 + count * sectors) * SECTOR);
    gpt_of(&mut disk, &starts, sectors);
    for start in &starts {
        btrfs::put(&mut disk, start * SECTOR, dice, 4);
    }
    disk
}

/// A chain of logical partitions, and tables within partitions.
pub fn mbr(dice: &mut Dice) -> Sparse {
    let mut disk = Sparse::new(4096 * MIB);
    let mut first = vec![0; 512];
    entry(&mut first, 0, 0x83, dice.of(&[1, 1, 2048]), 1 << 20);
    entry(&mut first, 1, 0x05, 4096, 6 << 20);
    signature(&mut first);
    disk.put(0, &first);
    // The partition from sector 1 on has the same table, again and again.
    disk.put(SECTOR, &first);
    disk.put(2 * SECTOR, &first);
    let step = dice.of(&[16, 1, 4096]);
    for n in 0..200 {
        let mut sector = vec![0; 512];
        entry(&mut sector, 0, 0x83, 1, dice.of(&[8, 1 << 16]));
        entry(&mut sector, 1, 0x05, (n + 1) * step, 16);
        signature(&mut sector);
        disk.put((4096 + n * step) * SECTOR, &sector);
    }
    disk
}

/// A physical volume whose logical volumes lie on it again and again, itself included.
pub fn lvm(dice: &mut Dice) -> Sparse {
    let extent_bytes = 8192 * SECTOR;
    let extents = dice.of(&[1, 16, 200]);
    let mut disk = Sparse::new(extents * extent_bytes + 16 * MIB);
    let area_bytes = MIB - 4096;
    let mut label = vec![0; 512];
    le(&mut label, 0, b"LABELONE");
    le(&mut label, 20, &32_u32.to_le_bytes());
    le(&mut label, 24, b"LVM2 001");
    le(&mut label, 32, &[b'x'; 32]);
    le(&mut label, 72, &MIB.to_le_bytes());
    le(&mut label, 104, &4096_u64.to_le_bytes());
    le(&mut label, 112, &area_bytes.to_le_bytes());
    disk.put(SECTOR, &label);
    let mut text = format!(
        "vg {{\nextent_size = 8192\nphysical_volumes {{\npv0 {{\nid = \"{}\"\npe_start = 0\n}}\n}}\n\
         logical_volumes {{\n",
        "x".repeat(32)
    );
    let volumes = dice.of(&[1, 2, 40, 200]);
    let segments = dice.of(&[1, 30, 4000]) / volumes.min(40) + 1;
    let is_sound = dice.once_in(2);
    for volume in 0..volumes {
        let name = match dice.once_in(50) {
            true => "n".repeat(4000),
            false => format!("lv{volume}"),
        };
        text += &format!("{name} {{\n");
        for n in 0..segments {
            let (len, on) = match is_sound {
                true => (1, n % extents),
                false => (extents, 0),
            };
            text += &format!(
                "segment{n} {{\nstart_extent = {}\nextent_count = {len}\nstripe_count = 1\n\
                 stripes = [\n\"pv0\", {on}\n]\n}}\n",
                n * len
            );
        }
        text += "}\n";
    }
    text += "}\n}\n";
    let mut head = vec![0; 512];
    le(&mut head, 4, b" LVM2 x[5A%r0N*>");
    le(&mut head, 40, &512_u64.to_le_bytes());
    le(&mut head, 48, &(text.len() as u64).to_le_bytes());
    disk.put(4096, &head);
    disk.put(4096 + 512, text.as_bytes());
    disk
}

//! Damaged file systems: real small images with seeded changes, in metadata above all. Nothing may
//! panic, hang or use much memory.
//!
//! Invariant: the seed decides every image. `LAYOUT_MUTANTS` says how many of each (default 150).

use crate::truth;

use disk_layout::fuzzing::{VOLUME_BYTES, encode, fuzz_hostile, fuzz_volume};
use std::fs;
use truth::output;

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// File systems of 4 MiB: name, tool, arguments before the image and after it.
const SEEDS: [(&str, &str, &[&str], &[&str]); 6] = [
    (
        "ext2",
        "mke2fs",
        &["-qF", "-t", "ext2", "-b", "1024", "-N", "32"],
        &["4M"],
    ),
    (
        "ext3",
        "mke2fs",
        &[
            "-qF",
            "-t",
            "ext3",
            "-b",
            "1024",
            "-N",
            "32",
            "-O",
            "^resize_inode",
        ],
        &["4M"],
    ),
    (
        "ext4",
        "mke2fs",
        &[
            "-qF",
            "-t",
            "ext4",
            "-b",
            "1024",
            "-N",
            "32",
            "-O",
            "^resize_inode",
        ],
        &["4M"],
    ),
    (
        "ext4-small-groups",
        "mke2fs",
        &[
            "-qF",
            "-t",
            "ext4",
            "-b",
            "1024",
            "-g",
            "256",
            "-O",
            "^has_journal,^resize_inode",
            "-N",
            "64",
        ],
        &["4M"],
    ),
    (
        "ext4-meta-bg",
        "mke2fs",
        &[
            "-qF",
            "-t",
            "ext4",
            "-b",
            "1024",
            "-g",
            "512",
            "-O",
            "meta_bg,^resize_inode,^has_journal",
            "-N",
            "64",
        ],
        &["4M"],
    ),
    (
        "ext4-4k",
        "mke2fs",
        &[
            "-qF",
            "-t",
            "ext4",
            "-b",
            "4096",
            "-O",
            "^has_journal,inline_data",
            "-N",
            "32",
        ],
        &["4M"],
    ),
];

/// Makes a volume and encodes it.
fn seed(tool: &str, before: &[&str], after: &[&str]) -> Option<Vec<u8>> {
    let dir = std::env::temp_dir().join(format!("disk_layout-hostile-{}", std::process::id()));
    fs::create_dir_all(dir.join("tree/sub")).ok()?;
    // A byte a block: not a hole, and little to encode.
    let bytes: Vec<u8> = (0..30_000).map(|n| u8::from(n % 1024 == 0)).collect();
    fs::write(dir.join("tree/sub/file"), bytes).ok()?;
    fs::write(dir.join("tree/tiny"), b"tiny").ok()?;
    let image = dir.join("image");
    let tree = dir.join("tree");
    let mut arguments = before.to_vec();
    if tool == "mke2fs" {
        arguments.extend(["-d", tree.to_str()?]);
    }
    arguments.push(image.to_str()?);
    arguments.extend(after);
    output(tool, &arguments, "")?;
    let volume = fs::read(&image).ok();
    fs::remove_dir_all(&dir).ok()?;
    let mut volume = volume?;
    volume.resize(VOLUME_BYTES, 0);
    Some(encode(&volume))
}

/// A few bytes become others: flips, numbers that decoders handle wrongly, copies of other bytes.
fn mutate(seed: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.below(12) {
        let at = dice.below(bytes.len());
        match dice.below(5) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.below(256) as u8,
            2 => {
                let number: u64 = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 31, 4096][dice.below(6)];
                let number = number.to_le_bytes();
                let len = 1 << dice.below(4);
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(&number[..len])
                    .for_each(|(to, from)| *to = *from);
            }
            3 => {
                let (from, len) = (dice.below(bytes.len()), dice.below(80));
                let copy: Vec<u8> = bytes.iter().skip(from).take(len).copied().collect();
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(copy)
                    .for_each(|(to, from)| *to = from);
            }
            _ => {
                // The same bytes again as a write.
                let len = dice.below(bytes.len() - at);
                let tail = bytes[at..at + len].to_vec();
                bytes.extend([0xff, 0xff, 0]);
                bytes.extend(tail);
            }
        }
    }
    bytes
}

#[test]
fn damaged_file_systems_do_not_disturb() {
    let mutants = std::env::var("LAYOUT_MUTANTS").map_or(150, |n| n.parse().expect("a number"));
    for (name, tool, before, after) in SEEDS {
        let Some(seed) = seed(tool, before, after) else {
            eprintln!("SKIPPED: {name}: no {tool} on this machine");
            continue;
        };
        println!("{name}: {} bytes", seed.len());
        if let Ok(dir) = std::env::var("LAYOUT_SEEDS") {
            fs::write(format!("{dir}/{name}"), &seed).expect("a seed");
        }
        fuzz_volume(&seed);
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for _ in 0..mutants {
            fuzz_volume(&mutate(&seed, &mut dice));
        }
    }
}

/// The entry point of the fuzz target `layout_hostile`, with a few seeds; `--test memory` measures.
#[test]
fn hostile_disks_do_not_disturb() {
    let disks = std::env::var("LAYOUT_DISKS").map_or(10, |n| n.parse().expect("a number"));
    for seed in 0_u64..disks {
        fuzz_hostile(&seed.to_le_bytes());
    }
}

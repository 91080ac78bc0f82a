//! Layouts of real ext images, compared block by block with e2fsprogs. Prints a line for each
//! configuration: `cargo test --profile ci -p disk_layout ext_images:: -- --nocapture`.
//!
//! Invariant: every block is compared; a missing tool is reported with `SKIPPED:`.

use crate::truth;

use disk_layout::{Layout, Options, Progress};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use truth::{Image, Truth, output};

/// Memory that is enough for these images.
const MEMORY: u64 = 64 << 20;

/// Options of `mke2fs`, and the size.
const CONFIGURATIONS: [(&str, &str, &str); 16] = [
    ("ext4, 4K", "-t ext4 -b 4096", "192M"),
    (
        "ext4, 4K, no journal",
        "-t ext4 -b 4096 -O ^has_journal",
        "192M",
    ),
    ("ext4, 2K", "-t ext4 -b 2048", "192M"),
    ("ext4, 1K", "-t ext4 -b 1024", "160M"),
    ("ext4, 64K", "-t ext4 -b 65536", "512M"),
    (
        "ext4, 1K, 128-byte inodes",
        "-t ext4 -b 1024 -I 128 -O ^metadata_csum",
        "160M",
    ),
    ("ext4, no flex_bg", "-t ext4 -b 1024 -O ^flex_bg", "160M"),
    (
        "ext4, no 64bit",
        "-t ext4 -b 4096 -O ^64bit,^metadata_csum,uninit_bg",
        "192M",
    ),
    (
        "ext4, meta_bg",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode",
        "160M",
    ),
    (
        "ext4, sparse_super2",
        "-t ext4 -b 1024 -O sparse_super2,^resize_inode",
        "160M",
    ),
    (
        "ext4, inline_data",
        "-t ext4 -b 4096 -I 256 -O inline_data",
        "192M",
    ),
    (
        "ext4, bigalloc 64K",
        "-t ext4 -b 4096 -O bigalloc -C 65536",
        "768M",
    ),
    (
        "ext4, bigalloc, 1K",
        "-t ext4 -b 1024 -O bigalloc -C 16384",
        "160M",
    ),
    (
        "ext4, quota, project, mmp",
        "-t ext4 -b 4096 -O quota,project,mmp -E quotatype=usrquota:grpquota:prjquota",
        "192M",
    ),
    ("ext3, 1K", "-t ext3 -b 1024", "160M"),
    (
        "ext2, 4K, no sparse_super",
        "-t ext2 -b 4096 -O ^sparse_super,^resize_inode",
        "192M",
    ),
];

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("disk_layout-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a scratch directory");
    dir
}

/// A tree with small and large files, holes, deep and wide directories, links and empty files.
fn tree(dir: &Path) {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    for d in 0..24 {
        let sub = dir.join(format!("d{d}/nested/deeper"));
        fs::create_dir_all(&sub).expect("directories");
        for n in 0..40_usize {
            let len = (n * n * n * 37 + d * 1000) % 200_000;
            fs::write(sub.join(format!("file-{n}")), &bytes[..len]).expect("a file");
        }
        fs::write(dir.join(format!("d{d}/tiny")), b"tiny").expect("a file");
        fs::write(dir.join(format!("d{d}/empty")), b"").expect("a file");
    }
    fs::write(dir.join("large"), &bytes).expect("a file");
    let wide = dir.join("wide");
    fs::create_dir(&wide).expect("a directory");
    for n in 0..1500 {
        fs::write(
            wide.join(format!("a-rather-long-name-so-that-blocks-fill-{n}")),
            b"x",
        )
        .expect("a file");
    }
    for n in [10, 59, 60, 200] {
        std::os::unix::fs::symlink("t".repeat(n), dir.join(format!("link{n}"))).expect("a link");
    }
    // Every other block is a hole: the tree of extents gets a level below the root.
    let holes = File::create(dir.join("holes")).expect("a file");
    for n in 0..900_u64 {
        std::os::unix::fs::FileExt::write_all_at(&holes, &bytes[..1000], n * 131_072)
            .expect("bytes");
    }
}

fn attach(image: &Path, memory: u64) -> Layout {
    let file = File::open(image).expect("the image");
    let size = file.metadata().expect("its size").len();
    let mut layout = Layout::new(
        size,
        Options {
            memory_bytes_max: memory,
        },
    );
    let source = Image(file);
    let mut steps = 0;
    while layout.step(&source, 64) == Progress::More {
        steps += 1;
        assert!(steps < 100_000, "ends");
    }
    layout
}

fn make(image: &Path, options: &str, size: &str, from: &Path) -> Option<bool> {
    let _ = fs::remove_file(image);
    let (image, from) = (image.to_str()?, from.to_str()?);
    let mut arguments = vec!["-F", "-q", "-d", from];
    arguments.extend(options.split(' '));
    arguments.extend([image, size]);
    output("mke2fs", &arguments, "")?;
    Some(output("dumpe2fs", &["-h", image], "")?.contains("Block size"))
}

#[test]
fn every_block_of_a_new_image_is_known() {
    let dir = scratch("images");
    tree(&dir.join("tree"));
    let image = dir.join("image");
    for (name, options, size) in CONFIGURATIONS {
        match make(&image, options, size, &dir.join("tree")) {
            None => {
                eprintln!("SKIPPED: no mke2fs or dumpe2fs on this machine");
                return;
            }
            Some(false) => {
                eprintln!("SKIPPED: {name}: this mke2fs cannot make it");
                continue;
            }
            Some(true) => {}
        }
        let layout = attach(&image, MEMORY);
        let truth = Truth::of(&image).expect("debugfs");
        let score = truth.compare(&layout, 0);
        let counters = layout.counters();
        println!(
            "{name}: {score}; {} reads, {} KiB read, {} KiB of memory",
            counters.reads,
            counters.read_bytes >> 10,
            counters.memory_bytes >> 10
        );
        assert!(
            score.wrong() == 0 && score.accuracy_in_use() >= 99.9,
            "{name}: {score}\n{}",
            score.examples.join("\n")
        );
        assert!(score.kinds.contains_key("file") && score.kinds.contains_key("directory"));
    }
    fs::remove_dir_all(&dir).expect("removed");
}

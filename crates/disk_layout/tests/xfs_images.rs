//! Layouts of XFS images. Every block of a file carries its file and number, so the image itself
//! says which block is which.
//!
//! Invariant: a missing tool is reported with `SKIPPED:`.

use crate::truth;

use disk_layout::Contents;
use disk_layout::{Layout, Options, Progress, Unreadable, VolumeSource};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use truth::{Image, output};

const BLOCK: usize = 4096;
const FILES: usize = 300;

/// The image with some bytes replaced.
struct Damaged<'a>(&'a Image, Vec<(u64, u8)>);

impl VolumeSource for Damaged<'_> {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        self.0.read(offset_bytes, bytes)?;
        for (at, byte) in &self.1 {
            let inside = at.checked_sub(offset_bytes);
            let inside = inside.and_then(|n| usize::try_from(n).ok());
            if let Some(slot) = inside.and_then(|n| bytes.get_mut(n)) {
                *slot = *byte;
            }
        }
        Ok(())
    }
}

/// Damages metadata at random, most of it at the beginning of blocks.
fn damage(image: &Image, size: u64, metadata: &[u64]) {
    let mut dice = 88_172_645_463_325_252_u64;
    let mut below = |limit: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % limit
    };
    for _ in 0..400 {
        let count = below(12) + 1;
        let mut changes = Vec::new();
        for _ in 0..count {
            let block = metadata[below(metadata.len() as u64) as usize];
            let range = [64, 300, 4096][below(3) as usize];
            let byte = [0, 1, 0x7f, 0xff, below(256) as u8][below(5) as usize];
            changes.push((block + below(range), byte));
        }
        let source = Damaged(image, changes);
        let memory_bytes_max = 1 << 20;
        let mut layout = Layout::new(size, Options { memory_bytes_max });
        let mut steps = 0;
        while layout.step(&source, 50) == Progress::More {
            steps += 1;
            assert!(steps < 10_000, "attaching ends");
        }
        for (at, _) in &source.1 {
            layout.wrote(*at, &[0; 512]);
        }
        while layout.step(&source, 50) == Progress::More {}
        assert!(layout.counters().memory_bytes < 2 * memory_bytes_max);
        let mut at = 0;
        while at < size {
            at += layout.at(at).len_bytes;
        }
    }
}

fn len_of(file: usize) -> usize {
    (file * 7919) % 90_000 + 1
}

#[test]
#[expect(clippy::too_many_lines, reason = "one script")]
fn files_and_the_log_of_a_new_image_are_known() {
    let dir = std::env::temp_dir().join(format!("disk_layout-xfs-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("scratch");
    let mut proto = "/\n0 0\nd--755 0 0\n".to_owned();
    for file in 0..FILES {
        let mut bytes = vec![1_u8; len_of(file)];
        for (n, block) in bytes.chunks_mut(BLOCK).enumerate() {
            let mark = format!("QTLAYOUT {file} {n} ");
            let len = mark.len().min(block.len());
            block[..len].copy_from_slice(&mark.as_bytes()[..len]);
        }
        let path = dir.join(format!("{file}"));
        fs::write(&path, bytes).expect("a file");
        proto += &format!("f{file} ---644 0 0 {}\n", path.display());
    }
    proto += "$\n";
    let (proto_path, image) = (dir.join("proto"), dir.join("image"));
    fs::write(&proto_path, proto).expect("the list");
    let texts = [&proto_path, &image].map(|path| path.to_str().expect("a name"));
    let arguments = [
        "-q",
        "-f",
        "-p",
        texts[0],
        "-d",
        &format!("file,size=400m,name={}", texts[1]),
    ];
    if output("mkfs.xfs", &arguments, "").is_none() || !image.exists() {
        eprintln!("SKIPPED: no mkfs.xfs on this machine");
        return;
    }
    let file = File::open(&image).expect("the image");
    let size = file.metadata().expect("its size").len();
    let mut layout = Layout::new(
        size,
        Options {
            memory_bytes_max: 16 << 20,
        },
    );
    let source = Image(file.try_clone().expect("a handle"));
    while layout.step(&source, 50) == Progress::More {}
    let (mut marked, mut bytes) = (0, vec![0; BLOCK]);
    for at in (0..size).step_by(BLOCK) {
        file.read_exact_at(&mut bytes, at).expect("a block");
        let text = String::from_utf8_lossy(&bytes[..40]).into_owned();
        let mut words = text.split(' ');
        if words.next() != Some("QTLAYOUT") {
            continue;
        }
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        let (Some(file), Some(n)) = (number(), number()) else {
            continue;
        };
        let wanted = Contents::File {
            size_bytes: len_of(file) as u64,
            offset_bytes: (n * BLOCK) as u64,
        };
        assert_eq!(layout.at(at).contents, wanted, "at {at}");
        marked += 1;
    }
    assert!(marked > FILES * 5, "{marked} blocks of files");
    let log = output(
        "xfs_db",
        &[
            "-r",
            "-c",
            "sb 0",
            "-c",
            "p logstart",
            "-c",
            "p logblocks",
            "-c",
            "p agblocks",
            "-c",
            "p agblklog",
            texts[1],
        ],
        "",
    )
    .expect("xfs_db");
    let number = |name: &str| {
        let line = log
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a field");
        line.rsplit(' ')
            .next()
            .and_then(|word| word.parse::<u64>().ok())
            .expect("a number")
    };
    let (start, group_log) = (number("logstart"), number("agblklog"));
    let start = (start >> group_log) * number("agblocks") + (start & ((1 << group_log) - 1));
    for block in start..start + number("logblocks") {
        assert_eq!(
            layout.at(block * BLOCK as u64).contents,
            Contents::Journal,
            "block {block}"
        );
    }
    for group in 0..size / BLOCK as u64 / number("agblocks") {
        let at = group * number("agblocks") * BLOCK as u64;
        assert_eq!(layout.at(at).contents, Contents::Metadata, "group {group}");
    }
    println!(
        "{marked} blocks of files, {} of the log, all right",
        number("logblocks")
    );
    let metadata: Vec<u64> = (0..size)
        .step_by(BLOCK)
        .filter(|at| layout.at(*at).contents == Contents::Metadata)
        .collect();
    damage(&source, size, &metadata);
    fs::remove_dir_all(&dir).expect("removed");
}

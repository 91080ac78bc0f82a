//! Layouts of btrfs images, compared with the chunks that `btrfs inspect-internal` lists.
//!
//! Invariant: a missing tool is reported with `SKIPPED:`.

use crate::truth;

use disk_layout::Contents;
use disk_layout::{Layout, Options, Progress, VolumeSource};
use std::fs::{self, File};
use truth::{Image, output};

#[test]
fn block_groups_of_metadata_are_known() {
    let dir = std::env::temp_dir().join(format!("disk_layout-btrfs-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("scratch");
    let image = dir.join("image");
    let file = File::create(&image).expect("the image");
    file.set_len(512 << 20).expect("its size");
    let text = image.to_str().expect("a name");
    let tree = ["inspect-internal", "dump-tree", "-t", "chunk", text];
    let listed = output("mkfs.btrfs", &["-q", text], "").and_then(|_| output("btrfs", &tree, ""));
    let Some(listed) = listed.filter(|listed| listed.contains("CHUNK_ITEM")) else {
        eprintln!("SKIPPED: no mkfs.btrfs on this machine");
        return;
    };
    let source = Image(File::open(&image).expect("the image"));
    let options = Options {
        memory_bytes_max: 1 << 20,
    };
    let mut layout = Layout::new(512 << 20, options);
    while layout.step(&source, 50) == Progress::More {}
    let (mut is_metadata, mut len, mut stripes) = (false, 0_u64, 0);
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["length", bytes, .., "type", kind] => {
                len = bytes.parse().expect("a length");
                is_metadata = kind.contains("METADATA") || kind.contains("SYSTEM");
            }
            ["stripe", _, "devid", _, "offset", start] => {
                let start: u64 = start.parse().expect("an offset");
                for at in (start..start + len).step_by(65536) {
                    let known = layout.at(at).contents == Contents::Metadata;
                    // A copy of the superblock is in the first 64 MiB of something.
                    assert!(known == is_metadata || at == 64 << 20, "{at}: {line}");
                }
                stripes += 1;
            }
            _ => {}
        }
    }
    assert!(stripes >= 3, "{listed}");
    // Damage: nothing may panic or hang.
    let mut head = vec![0; 4096];
    source.read(64 << 10, &mut head).expect("the superblock");
    for n in 0..4096 {
        let mut volume = vec![0; 256 << 10];
        volume[64 << 10..68 << 10].copy_from_slice(&head);
        volume[(64 << 10) + n] ^= 0x81;
        let volume = Bytes(volume);
        let mut layout = Layout::new(256 << 10, options);
        while layout.step(&volume, 50) == Progress::More {}
        assert!(layout.at(70 << 10).len_bytes > 0);
    }
    println!("{stripes} stripes, all right");
    fs::remove_dir_all(&dir).expect("removed");
}

struct Bytes(Vec<u8>);

impl VolumeSource for Bytes {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), disk_layout::Unreadable> {
        self.0.as_slice().read(offset, bytes)
    }
}

//! Partition tables made by `sfdisk`, with ext file systems in the partitions, compared with
//! e2fsprogs block by block.
//!
//! Invariant: a missing tool is reported with `SKIPPED:`.

use crate::truth;

use disk_layout::Contents;
use disk_layout::{Layout, Options, Progress, VolumeSource};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use truth::{Image, Truth, output};

const MIB: u64 = 1 << 20;

/// Table, script of `sfdisk`, and where the partitions with file systems start, MiB.
const TABLES: [(&str, &str, &[u64]); 3] = [
    (
        "mbr",
        "label: dos\nstart=1MiB,size=16MiB,type=83\nstart=20MiB,size=16MiB,type=83\n",
        &[1, 20],
    ),
    (
        "mbr with logical partitions",
        "label: dos\nstart=1MiB,size=16MiB,type=83\nstart=20MiB,size=43MiB,type=5\nstart=21MiB,size=16MiB,type=83\nstart=40MiB,size=16MiB,type=83\n",
        &[1, 21, 40],
    ),
    (
        "gpt",
        "label: gpt\nstart=1MiB,size=16MiB\nstart=20MiB,size=16MiB\nstart=40MiB,size=16MiB\n",
        &[1, 20, 40],
    ),
];

fn catch_up(layout: &mut Layout, source: &dyn VolumeSource) {
    for _ in 0..100_000 {
        if layout.step(source, 50) == Progress::Idle {
            return;
        }
    }
    panic!("attaching ends");
}

/// Copies `from` into `disk` at an offset; the layout hears of it if there is one.
fn copy(from: &Path, disk: &File, start: u64, layout: Option<&mut Layout>) {
    let bytes = fs::read(from).expect("the file system");
    disk.write_all_at(&bytes, start).expect("written");
    if let Some(layout) = layout {
        for (n, part) in (0..).zip(bytes.chunks(65536)) {
            layout.wrote(start + n * 65536, part);
        }
    }
}

#[test]
fn file_systems_in_partitions_are_known() {
    let dir = std::env::temp_dir().join(format!("disk_layout-partitions-{}", std::process::id()));
    fs::create_dir_all(dir.join("tree/sub")).expect("scratch");
    for n in 0..50 {
        fs::write(dir.join(format!("tree/sub/{n}")), vec![7; n * 1000]).expect("a file");
    }
    let (system, disk) = (dir.join("system"), dir.join("disk"));
    let [tree, system_text, disk_text] = [dir.join("tree"), system.clone(), disk.clone()]
        .map(|path| path.to_str().expect("a name").to_owned());
    let arguments = [
        "-qF",
        "-t",
        "ext4",
        "-b",
        "1024",
        "-d",
        &tree,
        &system_text,
        "16M",
    ];
    if output("mke2fs", &arguments, "").is_none() {
        eprintln!("SKIPPED: no mke2fs on this machine");
        return;
    }
    for (name, script, starts) in TABLES {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&disk);
        let file = file.expect("the disk");
        file.set_len(64 * MIB).expect("its size");
        if output("sfdisk", &["-q", &disk_text], script).is_none() {
            eprintln!("SKIPPED: no sfdisk on this machine");
            break;
        }
        let options = Options {
            memory_bytes_max: 16 << 20,
        };
        let source = Image(file.try_clone().expect("a handle"));
        let mut early = Layout::new(64 * MIB, options);
        catch_up(&mut early, &source);
        assert_eq!(
            early.at(0).contents,
            Contents::Metadata,
            "{name}: the table"
        );
        // One layout sees the file systems being made, the other finds them.
        for start in starts {
            copy(&system, &file, start * MIB, Some(&mut early));
        }
        catch_up(&mut early, &source);
        let mut late = Layout::new(64 * MIB, options);
        catch_up(&mut late, &source);
        let truth = Truth::of(&system).expect("the tools");
        for start in starts {
            for (layout, when) in [(&early, "early"), (&late, "late")] {
                let score = truth.compare(layout, start * MIB);
                assert!(
                    score.wrong() == 0 && score.unknown() == 0,
                    "{name}, {when}, from {start} MiB: {score}\n{}",
                    score.examples.join("\n")
                );
            }
        }
        println!(
            "{name}: {} file systems and tables",
            late.counters().recognised
        );
        assert!(late.counters().recognised > starts.len() as u64);
    }
    fs::remove_dir_all(&dir).expect("removed");
}

//! Layouts of NTFS images made by `mkntfs`, with files copied in by `ntfscp`. Every cluster of a
//! file carries its file and number, so the image itself says which is which.
//!
//! Invariant: a missing tool is reported with `SKIPPED:`.

use crate::truth;

use disk_layout::Contents;
use disk_layout::{Layout, Options, Progress, Unreadable, VolumeSource};
use std::fs::{self, File};
use truth::{Image, output};

const CLUSTER: usize = 4096;
const SIZE: usize = 16 << 20;

struct Bytes(Vec<u8>);

impl VolumeSource for Bytes {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        self.0.as_slice().read(offset, bytes)
    }
}

fn attach(source: &dyn VolumeSource) -> Layout {
    let memory_bytes_max = 1 << 20;
    let mut layout = Layout::new(SIZE as u64, Options { memory_bytes_max });
    for _ in 0..20_000 {
        if layout.step(source, 50) == Progress::Idle {
            return layout;
        }
    }
    panic!("attaching ends");
}

#[test]
fn files_and_the_log_are_known() {
    let dir = std::env::temp_dir().join(format!("disk_layout-ntfs-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("scratch");
    let image = dir.join("image");
    File::create(&image)
        .expect("the image")
        .set_len(SIZE as u64)
        .expect("its size");
    let text = image.to_str().expect("a name");
    let made = output("mkntfs", &["-q", "-F", "-Q", "-c", "4096", text], "");
    if made.is_none() || output("ntfscp", &["--version"], "").is_none() {
        eprintln!("SKIPPED: no mkntfs or ntfscp on this machine");
        return;
    }
    let len_of = |file: usize| file * 7001 + 3000;
    for file in 0..20 {
        let mut bytes = vec![1_u8; len_of(file)];
        for (n, cluster) in bytes.chunks_mut(CLUSTER).enumerate() {
            let mark = format!("QTLAYOUT {file} {n} ");
            let len = mark.len().min(cluster.len());
            cluster[..len].copy_from_slice(&mark.as_bytes()[..len]);
        }
        let path = dir.join("file");
        fs::write(&path, bytes).expect("a file");
        let from = path.to_str().expect("a name");
        output("ntfscp", &["-f", text, from, &format!("f{file}")], "").expect("ntfscp");
    }
    let layout = attach(&Image(File::open(&image).expect("the image")));
    let volume = fs::read(&image).expect("the image");
    let mut marked = 0;
    for (at, cluster) in volume.chunks_exact(CLUSTER).enumerate() {
        let text = String::from_utf8_lossy(&cluster[..40]).into_owned();
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
            offset_bytes: (n * CLUSTER) as u64,
        };
        assert_eq!(
            layout.at((at * CLUSTER) as u64).contents,
            wanted,
            "cluster {at}"
        );
        marked += 1;
    }
    assert!(marked > 100, "{marked} clusters of files");
    let clusters = |wanted| {
        let at = (0..SIZE).step_by(CLUSTER);
        at.filter(|at| layout.at(*at as u64).contents == wanted)
            .count()
    };
    let (log, metadata) = (clusters(Contents::Journal), clusters(Contents::Metadata));
    println!("{marked} clusters of files, {log} of the log, {metadata} of metadata");
    assert!(log > 50 && metadata > 10 && clusters(Contents::Directory) > 0);
    // Damage: nothing may panic or hang.
    let records: Vec<usize> = (0..SIZE)
        .step_by(1024)
        .filter(|at| volume[*at..].starts_with(b"FILE"))
        .collect();
    let mut dice = 88_172_645_463_325_252_usize;
    let mut source = Bytes(volume.clone());
    for round in 0..1500 {
        let mut changed = Vec::new();
        for _ in 0..1 + round % 8 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let at = match dice % 8 {
                0 => dice / 8 % 90,
                _ => records[dice / 8 % records.len()] + dice / 1024 % 600,
            };
            source.0[at] = (dice >> 40) as u8;
            changed.push(at);
        }
        let mut layout = attach(&source);
        layout.changed(0, 1 << 20);
        while layout.step(&source, 50) == Progress::More {}
        for at in changed {
            source.0[at] = volume[at];
        }
    }
    fs::remove_dir_all(&dir).expect("removed");
}

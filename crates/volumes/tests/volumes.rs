//! Writable volumes: the conformance suite, random histories compared with plain bytes, and what
//! each administrative change keeps and costs.

use crate::small_volumes;

use chunking::Compression;
use sim::Seed;
use small_volumes::{CONTEXT, is_sound, made, open, read, small, write};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{OpenMode, StoreErrorKind};
use testkit::specimen::{noise, options, put_image, snapshot};
use units::Fingerprint;
use volume::{Durability, Volume, VolumeErrorKind};
use volumes::{CheckpointStep, Volumes};

#[test]
fn a_volume_keeps_the_contract_of_the_waist() {
    for log2 in [12, 14, 16] {
        let disk = made();
        let volumes = open(&disk, 2);
        let number = std::cell::Cell::new(0);
        testkit::conformance::volume::volume_suite(&|size| {
            number.set(number.get() + 1);
            let name = format!("v{}", number.get());
            Box::new(volumes.create(&name, size, log2).expect("create"))
        });
        volumes.checkpoint().expect("checkpoint");
        is_sound(&volumes);
    }
}

/// A volume and the bytes that it must have.
struct Pair {
    name: String,
    bytes: Vec<u8>,
}

fn compare(volumes: &Volumes, pairs: &[Pair], when: &str) {
    for pair in pairs {
        let volume = volumes
            .volume(&pair.name)
            .unwrap_or_else(|| panic!("no {} {when}: {:?}", pair.name, volumes.list()));
        assert_eq!(volume.size_bytes(), pair.bytes.len() as u64, "{when}");
        assert!(read(&volume) == pair.bytes, "{} {when}", pair.name);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one script")]
fn random_histories_read_like_plain_bytes() {
    for number in 0..30 {
        let mut seed = Seed::new(number);
        let disk = made();
        let mut volumes = open(&disk, 2);
        let mut snapshots: Vec<(String, Vec<u8>)> = Vec::new();
        let log2 = 12 + seed.below(5) as u8;
        let size = 200_000 + seed.below(300_000);
        volumes.create("a", size, log2).expect("create");
        let mut pairs = vec![Pair {
            name: "a".to_owned(),
            bytes: vec![0; size as usize],
        }];
        for op in 0..150u64 {
            let at = seed.below(pairs.len() as u64) as usize;
            let count = pairs.len();
            let pair = &mut pairs[at];
            let volume = volumes.volume(&pair.name).expect("volume");
            let size = pair.bytes.len() as u64;
            let offset = match seed.below(2) {
                0 => seed.below(size),
                _ => seed.below(size) & !4095,
            };
            let len = match seed.below(4) {
                0 => seed.below(600),
                1 => 4096,
                2 => seed.below(200_000),
                _ => 512 * seed.below(40),
            };
            let len = len.min(size - offset);
            let range = offset as usize..(offset + len) as usize;
            match seed.below(23) {
                0..=9 => {
                    let data = noise(number * 1000 + op, len as usize);
                    write(&volume, offset, &data);
                    pair.bytes[range].copy_from_slice(&data);
                }
                10 => {
                    volume.discard(CONTEXT, offset, len).expect("discard");
                    pair.bytes[range].fill(0);
                }
                11 => volume.flush(CONTEXT).expect("flush"),
                12..=14 => drop(volumes.step(1 + seed.below(100_000)).expect("step")),
                15 => volumes.checkpoint().expect("checkpoint"),
                16 => {
                    let label = format!("s{op}");
                    let made = volumes.snapshot(&pair.name, &label).expect("snapshot");
                    snapshots.push((made.name, pair.bytes.clone()));
                }
                17 if count < 4 => {
                    let source = pair.name.clone();
                    let name = format!("c{op}");
                    let bytes = pair.bytes.clone();
                    volumes.clone_volume(&name, &source).expect("clone");
                    pairs.push(Pair { name, bytes });
                }
                18 => {
                    let size = match seed.below(3) {
                        0 => 1 + seed.below(size),
                        1 => size + seed.below(100_000),
                        _ => (size + seed.below(100_000)) & !65535 | 1,
                    };
                    volumes.resize(&pair.name, size).expect("resize");
                    pair.bytes.resize(size as usize, 0);
                }
                19 => {
                    let own = format!("{}@", pair.name);
                    let last = snapshots.iter().rev().find(|(n, _)| n.starts_with(&own));
                    if let Some((full, bytes)) = last {
                        let found = volumes.find_snapshot(full).expect("find").expect("there");
                        volumes.rollback(&pair.name, &found).expect("rollback");
                        pair.bytes.clone_from(bytes);
                    }
                }
                22 => {
                    let new = format!("r{op}");
                    volumes.rename(&pair.name, &new).expect("rename");
                    for (full, _) in &mut snapshots {
                        let label = full.split_once('@').filter(|(of, _)| *of == pair.name);
                        if let Some((_, label)) = label {
                            *full = format!("{new}@{label}");
                        }
                    }
                    pair.name = new;
                }
                20 if count > 1 => {
                    volumes.delete(&pair.name).expect("delete");
                    volume.read(CONTEXT, 0, &mut [0]).expect_err("deleted");
                    pairs.remove(at);
                }
                _ => {
                    volume.flush(CONTEXT).expect("flush");
                    drop(volume);
                    drop(volumes);
                    volumes = open(&disk, (10 + op) * 10_000);
                    assert!(volumes.damage().is_empty(), "{:?}", volumes.damage());
                }
            }
            if seed.chance(60) {
                compare(&volumes, &pairs, &format!("seed {number} op {op}"));
            }
        }
        volumes.checkpoint().expect("checkpoint");
        compare(&volumes, &pairs, &format!("seed {number} at the end"));
        for (full, bytes) in &snapshots {
            let found = volumes.find_snapshot(full).expect("find").expect("there");
            let read = volumes.pool().reader().read_whole(&found.root, 1 << 30);
            assert!(read.expect("read") == *bytes, "{full}");
        }
        is_sound(&volumes);
        drop(volumes);
        let volumes = open(&disk, 5000);
        compare(&volumes, &pairs, &format!("seed {number} opened again"));
    }
}

#[test]
fn an_image_is_cloned_written_and_stays_what_it_was() {
    let disk = made();
    let pool = Arc::new(testkit::specimen::open(&disk, 2, None, OpenMode::Write).expect("open"));
    let bytes = noise(3, 300_000);
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    let root = put_image(&mut session, &bytes);
    let image = snapshot(&pool, format::snapshot::SnapshotKind::Image, "disk", root);
    pool.commit(session, std::slice::from_ref(&image), &[])
        .expect("commit");
    let volumes = Volumes::open(Arc::clone(&pool), &small()).expect("volumes");
    let clone = volumes.clone_snapshot("vm", &image).expect("clone");
    assert!(read(&clone) == bytes);
    write(&clone, 1000, b"changed");
    let mut changed = bytes.clone();
    changed[1000..1007].copy_from_slice(b"changed");
    assert!(read(&clone) == changed);
    // A backup runs while volumes are open and checkpoints are made.
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    let other = noise(4, 200_000);
    let root = put_image(&mut session, &other);
    volumes.checkpoint().expect("checkpoint");
    let second = snapshot(&pool, format::snapshot::SnapshotKind::Image, "other", root);
    pool.commit(session, std::slice::from_ref(&second), &[])
        .expect("commit");
    write(&clone, 5, b"again");
    changed[5..10].copy_from_slice(b"again");
    volumes.checkpoint().expect("checkpoint");
    assert!(read(&clone) == changed);
    assert!(
        pool.reader()
            .read_whole(&image.root, 1 << 30)
            .expect("read")
            == bytes
    );
    assert!(
        pool.reader()
            .read_whole(&second.root, 1 << 30)
            .expect("read")
            == other
    );
    is_sound(&volumes);
    drop((clone, volumes));
    drop(pool);
    let volumes = open(&disk, 9);
    assert!(read(&volumes.volume("vm").expect("volume")) == changed);
}

#[test]
fn names_are_unique_and_sizes_are_any() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("tiny", 5, 12).expect("create");
    write(&volume, 1, b"abc");
    volumes.checkpoint().expect("checkpoint");
    assert_eq!(read(&volume), b"\0abc\0");
    let again = volumes.create("tiny", 5, 12).err().expect("taken");
    assert_eq!(again.kind, StoreErrorKind::Exists);
    let bad = volumes.create("a@b", 5, 12).err().expect("no name");
    assert_eq!(bad.kind, StoreErrorKind::Invalid);
    let none = volumes.create("none", 0, 12).expect("empty");
    assert_eq!(read(&none), b"");
    assert_eq!(volumes.step(1).expect("step"), CheckpointStep::Idle);
    volumes.resize("none", 7).expect("resize");
    assert_eq!(read(&none), [0; 7]);
}

#[test]
fn writers_outrun_a_small_journal_without_failing() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("v", 16 << 20, 12).expect("create");
    let mut expected = vec![0; 16 << 20];
    let mut seed = Seed::new(1);
    for n in 0..3000u64 {
        let offset = seed.below((16 << 20) / 4096) * 4096;
        let data = noise(n, 4096);
        write(&volume, offset, &data);
        expected[offset as usize..offset as usize + 4096].copy_from_slice(&data);
    }
    assert!(volumes.checkpoint_counts().rounds > 5);
    assert!(read(&volume) == expected);
}

#[test]
fn one_session_commits_as_often_as_it_must() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("v", 1 << 20, 12).expect("create");
    // More often than a number that doubles each time could grow.
    for n in 0..70 {
        write(&volume, n * 4096, &noise(n, 4096));
        volumes.checkpoint().expect("checkpoint");
    }
    assert_eq!(volumes.checkpoint_counts().rounds, 70);
    is_sound(&volumes);
}

#[test]
fn what_is_not_needed_does_not_fill_the_journal() {
    let disk = made();
    let volumes = open(&disk, 2);
    let rest = volumes.create("rest", 1 << 20, 12).expect("create");
    let forgotten = volumes.create("gone", 1 << 20, 12).expect("create");
    // Writers checkpoint long before the journal is full of records that are needed. Records of a
    // deleted volume are not needed.
    for n in 0..150 {
        write(&forgotten, n % 200 * 4096, &noise(n, 4096));
    }
    volumes.delete("gone").expect("delete");
    for n in 0..100 {
        write(&rest, n * 4096, &noise(n, 4096));
    }
    drop((rest, forgotten, volumes));
    // Each process begins a slot and dies without new writes.
    for n in 0..20 {
        let volumes = open(&disk, 100 + n);
        let forgotten = volumes.create("gone", 1 << 16, 12).expect("create");
        write(&forgotten, 0, &noise(n, 8192));
        forgotten.flush(CONTEXT).expect("flush");
        volumes.delete("gone").expect("delete");
    }
}

/// Its initiators must not take their disk for a damaged one.
#[test]
fn a_renamed_volume_keeps_its_contents_and_snapshots() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("old", 100_000, 12).expect("create");
    volumes.create("other", 5000, 12).expect("create");
    write(&volume, 7, b"first");
    volumes.snapshot("old", "s").expect("snapshot");
    volumes.snapshot("other", "s").expect("snapshot");
    write(&volume, 7, b"later");
    let refused = |new: &str| volumes.rename("old", new).expect_err(new).kind;
    assert_eq!(refused("other"), StoreErrorKind::Exists);
    assert_eq!(refused("a@b"), StoreErrorKind::Invalid);
    volumes.delete("other").expect("delete");
    assert_eq!(
        refused("other"),
        StoreErrorKind::Exists,
        "its snapshot stays"
    );
    let none = volumes.rename("none", "new").expect_err("no such volume");
    assert_eq!(none.kind, StoreErrorKind::NotFound);
    volumes.rename("old", "new").expect("rename");
    volume.flush(CONTEXT).expect("flush");
    drop((volume, volumes));
    let volumes = open(&disk, 2);
    let names: Vec<String> = volumes.list().into_iter().map(|v| v.record.name).collect();
    assert_eq!(names, ["new"]);
    let snapshots = volumes.pool().snapshots().expect("snapshots");
    let names: Vec<&str> = snapshots.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["new@s", "other@s"]);
    let volume = volumes.volume("new").expect("there");
    assert_eq!(&read(&volume)[7..12], b"later");
    volumes.rollback("new", &snapshots[0]).expect("rollback");
    assert_eq!(&read(&volume)[7..12], b"first");
    is_sound(&volumes);
}

#[test]
fn held_contents_are_those_of_the_moment() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("a", 100_000, 12).expect("create");
    write(&volume, 7, b"first");
    let (root, hold) = volumes.hold_contents("a").expect("hold");
    write(&volume, 7, b"later");
    volumes.checkpoint().expect("checkpoint");
    let reader = volumes.pool().reader();
    let mut bytes = Vec::new();
    let read = &mut |_, len: u64, fingerprint: Fingerprint| {
        if fingerprint.is_hole() {
            bytes.resize(bytes.len() + len as usize, 0);
        } else {
            bytes.extend_from_slice(&reader.piece(&root, &fingerprint, len)?[..len as usize]);
        }
        Ok(ControlFlow::Continue(()))
    };
    reader
        .visit_pieces_forward(&root, 0, root.len, read)
        .expect("read");
    assert_eq!(&bytes[7..12], b"first");
    drop(hold);
}

#[test]
fn requests_to_a_deleted_volume_say_that_it_was_deleted() {
    let disk = made();
    let volumes = open(&disk, 2);
    let forgotten = volumes.create("gone", 1 << 20, 12).expect("create");
    write(&forgotten, 0, &noise(1, 4096));
    volumes.checkpoint().expect("checkpoint");
    volumes.delete("gone").expect("delete");
    let failed = forgotten.read(CONTEXT, 0, &mut [0; 512]).expect_err("read");
    assert_eq!(failed.kind, VolumeErrorKind::Deleted);
    let failed = forgotten.write(CONTEXT, 0, &[1; 512], Durability::Volatile);
    assert_eq!(failed.expect_err("write").kind, VolumeErrorKind::Deleted);
}

#[test]
fn a_stream_passes_the_journal_by_and_a_flush_makes_it_durable() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("v", 8 << 20, 12).expect("create");
    let bytes = noise(7, 8 << 20);
    for (n, part) in (0u64..).zip(bytes.chunks(1 << 18)) {
        // Not at a chunk's edge: bytes around whole chunks go through the journal.
        let cut = if n == 5 { 700 } else { 0 };
        write(&volume, n << 18, &part[..cut]);
        write(&volume, (n << 18) + cut as u64, &part[cut..]);
    }
    assert!(
        volumes.direct_bytes() > 7 << 20,
        "{}",
        volumes.direct_bytes()
    );
    volume.flush(CONTEXT).expect("flush");
    let journalled = volumes.journal_usage().bytes_written;
    assert!(journalled < 1 << 20, "{journalled}");
    assert!(read(&volume) == bytes);
    drop((volume, volumes));
    // The next process finds the chunks by their fingerprints in the journal.
    let volumes = open(&disk, 30_000);
    let volume = volumes.volume("v").expect("volume");
    assert!(read(&volume) == bytes);
    let stored = volumes.checkpoint_counts().destaged_bytes;
    volumes.checkpoint().expect("checkpoint");
    assert!(read(&volume) == bytes);
    // The checkpoint uses chunks that are already stored.
    let again = volumes.checkpoint_counts().destaged_bytes - stored;
    assert!(again < 1 << 20, "{again}");
    is_sound(&volumes);
}

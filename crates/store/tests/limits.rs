//! Limits that hold: memory too small for the index, endless trees, wrong lengths, snapshots that
//! look alike.

use chunking::Compression;
use format::recipe::{Layout, ObjectRoot};
use format::snapshot::SnapshotKind;
use format::tree::{Entry, EntryKind};
use sim::pool_histories::check_all;
use sim::{Damage, Image, SimDisk};
use store::{InitOptions, LaneOptions, ObjectBuilder, OpenMode, Pool, StoreErrorKind};
use testkit::specimen::{Specimen, media, noise, open, snapshot};
use units::{Fingerprint, UnixNanos};

#[test]
fn a_reader_without_index_and_memory_finds_everything() {
    let disk = SimDisk::unrecorded(Image::new());
    let options = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&media(&disk, 1), &options).unwrap();
    let bytes = noise(3, 40_000 * 24);
    let mut builder = ObjectBuilder::new(Layout::Variable);
    let pool = open(&disk, 2, None, OpenMode::Write).unwrap();
    let options = LaneOptions {
        compression: Compression::None,
        region_bytes: 64 << 10,
        container_bytes: 256 << 10,
    };
    let mut session = pool.begin(options).unwrap();
    let lane = session.main();
    for chunk in bytes.chunks(24) {
        let stored = lane.store_chunk(chunk).unwrap();
        builder
            .push(stored, 24, &mut |n| lane.store_node(n))
            .unwrap();
    }
    let root = builder.finish(&mut |n| lane.store_node(n)).unwrap();
    let snapshot = snapshot(&pool, SnapshotKind::Stream, "crumbs", root);
    pool.commit(session, &[snapshot], &[]).unwrap();
    drop(pool);
    disk.damage("cache/fpi", &Damage::Delete).unwrap();
    let pool = Pool::open(media(&disk, 3), None, OpenMode::Read, 1 << 20).unwrap();
    assert!(pool.reader().read_whole(&root, 1 << 30).unwrap() == bytes);
}

#[test]
fn snapshots_of_one_moment_and_snapshots_of_one_id_are_different_snapshots() {
    let of = Specimen::new(10, false);
    let disk = of.disk();
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    let first = of.truths[0].snapshot.clone();
    let mut same_moment = first.clone();
    same_moment.id = pool.new_snapshot_id();
    let mut same_id = first.clone();
    same_id.taken = UnixNanos(first.taken.0 + 1);
    pool.change_snapshots(&[same_moment.clone(), same_id.clone()], &[])
        .unwrap();
    let listed = pool.snapshots().unwrap();
    assert_eq!(listed.len(), of.truths.len() + 2);
    pool.change_snapshots(&[], &[same_moment, same_id]).unwrap();
    assert_eq!(
        pool.snapshots().unwrap(),
        of.truths
            .iter()
            .map(|t| t.snapshot.clone())
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_tree_of_2_to_the_40_names_is_checked_in_no_time() {
    let of = Specimen::new(12, false);
    for is_damaged in [false, true] {
        let disk = of.disk();
        let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
        let mut session = pool
            .begin(testkit::specimen::options(Compression::None))
            .unwrap();
        let lane = session.main();
        let content = lane.store_object(&noise(9, 9000), false).unwrap();
        let sparse = false;
        let mut kind = EntryKind::File { content, sparse };
        for _ in 0..40 {
            let entries = ["a", "b"].map(|name| testkit::specimen::entry(name, kind.clone()));
            let bytes = Entry::encode_directory(&entries);
            let content = lane.store_object(&bytes, true).unwrap();
            kind = EntryKind::Directory { content };
        }
        let EntryKind::Directory { content } = kind else {
            panic!("just made");
        };
        let wide = snapshot(&pool, SnapshotKind::Tree, "wide", content);
        pool.commit(session, &[wide], &[]).unwrap();
        // Damages the file itself, or one that stops the walk over all snapshots.
        let damaged = match is_damaged {
            true => disk
                .image()
                .files()
                .into_iter()
                .rev()
                .find(|(name, _)| name.ends_with("0000a")),
            false => disk
                .image()
                .files()
                .into_iter()
                .find(|(name, _)| name.ends_with("00001")),
        };
        disk.damage(&damaged.unwrap().0, &Damage::Delete).unwrap();
        drop(pool);
        let pool = of.open(&disk, 2, OpenMode::Read).unwrap();
        let report = check_all(&pool).unwrap();
        let names = report.affected.len();
        assert_eq!(
            names >= 100_000,
            is_damaged,
            "{names} names, {:?}",
            report.damage.first()
        );
        assert!(names > 0);
        pool.space().err();
    }
}

#[test]
fn a_claimed_length_takes_no_memory() {
    // Regression found by fuzzing: a directory of one small chunk that claims 786 MB.
    let of = Specimen::new(13, false);
    let disk = of.disk();
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    let mut session = pool
        .begin(testkit::specimen::options(Compression::None))
        .unwrap();
    let fingerprint = session.main().store_chunk(b"small").unwrap();
    let claim = |fingerprint, level| ObjectRoot {
        fingerprint,
        level,
        len: 786_403_326,
        layout: Layout::Variable,
    };
    pool.commit(session, &[], &[]).unwrap();
    for root in [
        claim(fingerprint, 0),
        claim(fingerprint, 1),
        claim(Fingerprint::HOLE, 3),
    ] {
        let e = pool.reader().directory(&root).unwrap_err();
        assert_eq!(e.kind, StoreErrorKind::Corruption);
    }
}

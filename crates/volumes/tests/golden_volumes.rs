//! The golden pool of everything that needs a writer of volumes or a repair: volumes with writes
//! that only the journal has, their snapshots, the trash, a quarantine, and settings in the
//! catalog. `lab/testkit/tests/golden/README.md` says how golden pools are made and kept.

#[path = "../../../lab/testkit/tests/golden/manifest.rs"]
pub mod manifest;

use crate::small_volumes::{CONTEXT, read, small, write};
use chunking::Compression;
use format::config::{CONFIG_VERSION, Config, FEATURES_INCOMPAT_KNOWN, FEATURES_RO_COMPAT_KNOWN};
use format::container::CONTAINER_VERSION;
use format::journal::JOURNAL_VERSION;
use format::journal_place::JOURNAL_PLACE_VERSION;
use format::key_slot::KEY_SLOT_VERSION;
use format::map_node::MAP_VERSION;
use format::preamble::{BlobKind, Preamble};
use format::reach::REACH_VERSION;
use format::recipe::RECIPE_VERSION;
use format::root::ROOT_VERSION;
use format::snapshot::{Missed, SNAPSHOT_VERSION, SnapshotKind};
use format::tree::DIRECTORY_VERSION;
use format::volume::VOLUME_VERSION;
use manifest::{files_below, keep, manifest_of, planted};
use sim::pool_histories::check_all;
use sim::{Damage, Image, SimDisk};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{CheckDepth, InitOptions, NewSecret, OpenMode, Pool, SecretKey};
use testkit::specimen::{dense, media, noise, options, put_image, snapshot};
use units::UnixNanos;
use volume::Volume;
use volumes::Volumes;

const NAME: &str = "v2-volumes";
const RECOVERY: [u8; 32] = *b"thirty-two bytes of recovery key";
const CHUNK_LOG2: u8 = 12;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(NAME)
}

fn open(disk: &Arc<SimDisk>, seed: u64, mode: OpenMode) -> Pool {
    testkit::specimen::open(disk, seed, Some(&SecretKey::Recovery(RECOVERY)), mode).expect("open")
}

fn stored() -> Arc<SimDisk> {
    planted(&golden()).0
}

/// Returns everything that a reader sees, as text.
fn seen_by_reader(pool: &Pool) -> String {
    let mut text = manifest_of(pool);
    for volume in pool.volumes().expect("volumes") {
        let _ = writeln!(
            text,
            "volume {} {} of {}",
            volume.name, volume.id, volume.origin
        );
    }
    for snapshot in pool.snapshots().expect("snapshots") {
        let Missed { unread, changed } = snapshot.missed;
        let before = snapshot.previous.0;
        let _ = writeln!(
            text,
            "snapshot {} missed {unread} and {changed}, before it {before}",
            snapshot.id
        );
    }
    let (forgotten, containers) = pool.trash().expect("trash");
    for old in forgotten {
        let _ = writeln!(text, "forgotten {} {:?}", old.snapshot.id, old.since);
    }
    for old in containers {
        let _ = writeln!(
            text,
            "container in the trash {:?} {:?}",
            old.entry, old.since
        );
    }
    let minimum = pool.trash_minimum().expect("minimum");
    let parity = pool.parity();
    let _ = writeln!(text, "quarantine {:?}", pool.health().quarantined());
    let _ = writeln!(
        text,
        "trash minimum {} s, {} guards; parity {parity} %",
        minimum.seconds,
        minimum.guards.len()
    );
    text
}

/// Returns the contents of all volumes, with the journal's writes, as text.
fn seen_by_writer(volumes: &Volumes) -> String {
    let mut text = String::new();
    for status in volumes.list() {
        let name = &status.record.name;
        let bytes = read(&volumes.volume(name).expect("a volume"));
        let _ = writeln!(
            text,
            "{name}: {} bytes {}",
            bytes.len(),
            blake3::hash(&bytes)
        );
    }
    text
}

#[test]
fn v2_volumes() {
    let expected = std::fs::read_to_string(golden().with_extension("manifest")).expect("manifest");
    let disk = stored();
    let reader = open(&disk, 20, OpenMode::Read);
    let seen = seen_by_reader(&reader);
    assert!(expected.starts_with(&seen), "{seen}");
    drop(reader);
    for seed in 21..23 {
        let pool = Arc::new(open(&disk, seed, OpenMode::Write));
        let volumes = Volumes::open(Arc::clone(&pool), &small()).expect("volumes");
        let now = seen_by_writer(&volumes);
        assert_eq!(expected.strip_prefix(&seen), Some(now.as_str()));
        let report = check_all(&pool).expect("check");
        assert!(
            report.bad.is_empty() && report.affected.len() == 1,
            "{report:#?}"
        );
        volumes.checkpoint().expect("checkpoint");
        // The second round reads the same from containers.
    }
    let mut back = open(&disk, 24, OpenMode::Write).trash().expect("trash").0;
    let back = back.remove(0).snapshot;
    let pool = open(&disk, 25, OpenMode::Write);
    pool.undelete(&[back.id]).expect("undelete");
    assert!(pool.snapshots().expect("snapshots").contains(&back));
}

/// Each version of each layout, and each feature, that a pool cannot do without is in a golden
/// pool. A new number fails here until it has one.
#[test]
fn every_number_has_a_golden_pool() {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut blobs, mut features) = (BTreeSet::new(), Vec::new());
    for directory in ["lab/testkit/tests/golden", "crates/volumes/tests/golden"] {
        let directory = tests.join(directory);
        for file in files_below(&directory) {
            let bytes = std::fs::read(directory.join(&file)).expect("a golden file");
            if let Ok(preamble) = Preamble::decode(&bytes) {
                blobs.insert((preamble.kind, preamble.version));
            }
            if file.ends_with("config") {
                let config = Config::decode(&bytes).expect("a config").0;
                features.push((config.features_incompat, config.features_ro_compat));
            }
        }
    }
    let kinds = [
        (BlobKind::Config, CONFIG_VERSION),
        (BlobKind::KeySlot, KEY_SLOT_VERSION),
        (BlobKind::Root, ROOT_VERSION),
        (BlobKind::Container, CONTAINER_VERSION),
        (BlobKind::Journal, JOURNAL_VERSION),
        (BlobKind::JournalReach, REACH_VERSION),
        (BlobKind::JournalPlace, JOURNAL_PLACE_VERSION),
    ];
    for (kind, current) in kinds {
        for version in 1..=current {
            let is_there = blobs.contains(&(kind as u16, version));
            assert!(is_there, "no golden pool has {kind:?} version {version}");
        }
    }
    for bit in (0..u64::BITS).map(|bit| 1 << bit) {
        let read = features.iter().filter(|(read, _)| read & bit != 0);
        let write = features.iter().filter(|(_, write)| write & bit != 0);
        for (known, with) in [
            (FEATURES_INCOMPAT_KNOWN, read.count()),
            (FEATURES_RO_COMPAT_KNOWN, write.count()),
        ] {
            assert!(
                known & bit == 0 || (1..features.len()).contains(&with),
                "feature {bit}: golden pools with it, and without"
            );
        }
    }
    // Layouts inside of containers: the golden pool above, or one of the crate `store`, has them.
    let inner = [
        SNAPSHOT_VERSION,
        DIRECTORY_VERSION,
        RECIPE_VERSION,
        MAP_VERSION,
        VOLUME_VERSION,
    ];
    assert_eq!(
        inner,
        [3, 1, 1, 1, 1],
        "add a golden pool with the new version"
    );
    let owners = planted(&tests.join("lab/testkit/tests/golden/v3-owners")).0;
    let owners = testkit::specimen::open(&owners, 27, None, OpenMode::Read).expect("open");
    let mut written = BTreeSet::new();
    for pool in [owners, open(&stored(), 26, OpenMode::Read)] {
        let snapshots = pool.snapshots().expect("snapshots");
        written.extend(snapshots.iter().map(|snapshot| snapshot.encode()[0]));
    }
    assert!(written.into_iter().eq(1..=SNAPSHOT_VERSION));
}

/// Creates the pool if it is missing.
#[test]
#[ignore = "run once for a new version of the format"]
fn make_golden_volumes() {
    if !golden().exists() {
        make(&golden());
    }
}

fn make(dir: &Path) {
    let disk = SimDisk::unrecorded(Image::new());
    let (password, recovery) = (
        SecretKey::Password(b"golden password".to_vec()),
        SecretKey::Recovery(RECOVERY),
    );
    let secrets = [("password", &password), ("recovery", &recovery)]
        .map(|(label, secret)| NewSecret { secret, label });
    let init = InitOptions {
        secrets: &secrets,
        chunk_bytes_average: 4096,
        parity_percent: 2,
    };
    Pool::init(&media(&disk, 2100), &init).expect("init");
    spoil_one_image(&disk);
    let pool = Arc::new(open(&disk, 2103, OpenMode::Write));
    store_incomplete(&pool);
    pool.set_parity(3).expect("parity");
    pool.set_trash_minimum(3600, None).expect("minimum");
    let volumes = Volumes::open(Arc::clone(&pool), &small()).expect("volumes");
    let web = volumes.create("web", 1 << 20, CHUNK_LOG2).expect("create");
    write(&web, 5000, &noise(1, 30_000));
    volumes.snapshot("web", "first").expect("snapshot");
    write(&web, 9000, &dense(2, 3000));
    volumes.checkpoint().expect("checkpoint");
    let first = volumes
        .find_snapshot("web@first")
        .expect("catalog")
        .expect("web@first");
    let copy = volumes.clone_snapshot("copy", &first).expect("clone");
    write(&copy, 100, b"only in the copy");
    volumes.snapshot("copy", "gone").expect("snapshot");
    let old = volumes
        .find_snapshot("copy@gone")
        .expect("catalog")
        .expect("copy@gone");
    pool.forget(&[old]).expect("forget");
    // From here on only the journal has it.
    write(&web, 700_000, &noise(3, 10_000));
    web.discard(CONTEXT, 8192, 8192).expect("discard");
    write(&copy, 1 << 19, b"in the journal");
    web.flush(CONTEXT).expect("flush");
    let text = seen_by_reader(&pool) + &seen_by_writer(&volumes);
    keep(dir, &disk.image(), &text);
}

/// Stores an image, damages more of it than parity restores, and repairs: it is in quarantine.
fn spoil_one_image(disk: &Arc<SimDisk>) {
    let pool = open(disk, 2101, OpenMode::Write);
    testkit::specimen::store_image(&pool, "spoiled", &dense(9, 100_000), Compression::None);
    drop(pool);
    let name = disk.image().files().into_iter().map(|(name, _)| name);
    let data = name
        .filter(|name| name.starts_with("containers"))
        .max_by_key(|name| {
            disk.image()
                .contents(name)
                .map(|bytes| bytes.len())
                .unwrap_or_default()
        });
    let damage = Damage::Zero {
        offset: 8192,
        len: 16 << 10,
    };
    disk.damage(&data.expect("a container"), &damage)
        .expect("damage");
    let pool = open(disk, 2102, OpenMode::Write);
    let repaired = pool
        .repair(CheckDepth::ALL, options(Compression::None), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .expect("repair");
    assert!(repaired.quarantined > 0);
}

/// Stores an image that could not be read completely: a snapshot of version 2.
fn store_incomplete(pool: &Pool) {
    let mut session = pool.begin(options(Compression::Lz4)).expect("session");
    let root = put_image(&mut session, &noise(4, 20_000));
    let mut incomplete = snapshot(pool, SnapshotKind::Image, "incomplete", root);
    incomplete.missed = Missed {
        unread: 300,
        changed: 1,
    };
    incomplete.previous = UnixNanos(-2);
    pool.commit(session, &[incomplete], &[]).expect("commit");
}

//! Golden pools: bytes written by earlier versions, which every later version must read unchanged
//! (style 9). `tests/golden/README.md` says how to add one.

mod contents;
mod manifest;

use contents::{PASSWORD, RECOVERY};
use format::config::{CONFIG_VERSION, Config, FEATURES_INCOMPAT_KNOWN, FEATURES_RO_COMPAT_KNOWN};
use format::container::{ContainerHeader, RegionHeader, find_region};
use format::mirrored;
use format::preamble::BlobKind;
use manifest::{manifest_of, planted};
use sim::pool_histories::check_all;
use sim::{Damage, SimDisk};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use store::{OpenMode, Pool, SecretKey, StoreErrorKind};
use testkit::specimen::{MEMORY_BYTES, media, noise, store_image};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Returns a simulated disk with a copy of the pool.
fn disk(name: &str) -> Arc<SimDisk> {
    let (disk, stored) = planted(&golden(name));
    // Parity takes four sectors of each small container.
    let has_parity = ["v1-parity", "v1-packed"].contains(&name);
    let bytes_max = if has_parity { 400_000 } else { 60_000 };
    assert!(stored <= bytes_max, "{name} has {stored} bytes");
    disk
}

fn sound(pool: &Pool) {
    let report = check_all(pool).unwrap();
    assert!(report.is_sound() && report.notes.is_empty(), "{report:#?}");
    assert!(
        pool.health().notes().is_empty(),
        "{:?}",
        pool.health().notes()
    );
}

fn reads_as_it_was(name: &str, secrets: &[Option<SecretKey>]) {
    let expected = std::fs::read_to_string(golden(name).with_extension("manifest")).unwrap();
    let disk = disk(name);
    let open = |seed, secret: &Option<SecretKey>, mode| {
        Pool::open(media(&disk, seed), secret.as_ref(), mode, MEMORY_BYTES).unwrap()
    };
    // First as stored; then a writer makes an index and adds a snapshot; then without the index
    // again.
    for (seed, secret) in (0..).zip(secrets) {
        let pool = open(seed, secret, OpenMode::Read);
        assert_eq!(manifest_of(&pool), expected);
        sound(&pool);
    }
    let secret = &secrets[0];
    let pool = open(10, secret, OpenMode::Write);
    let added = store_image(
        &pool,
        "later",
        &noise(9, 30_000),
        chunking::Compression::Zstd(1),
    );
    drop(pool);
    for index in [true, false] {
        if !index {
            disk.damage("cache/fpi", &Damage::Delete)
                .expect("the writer made one");
        }
        let pool = open(11, secret, OpenMode::Read);
        let now = manifest_of(&pool);
        // Seeded clocks begin at zero, so the added snapshot comes first or last. The others stay.
        assert!(now.len() > expected.len());
        for line in expected.lines() {
            assert!(now.contains(line), "{line} is gone");
        }
        assert!(added.restore(&pool).unwrap().is_empty());
        sound(&pool);
    }
}

#[test]
fn v1_clear() {
    reads_as_it_was("v1-clear", &[None]);
}

#[test]
fn v1_encrypted() {
    let recovery = SecretKey::Recovery(RECOVERY);
    let password = SecretKey::Password(PASSWORD.to_vec());
    reads_as_it_was("v1-encrypted", &[Some(recovery), Some(password)]);
}

#[test]
fn v3_owners() {
    reads_as_it_was("v3-owners", &[None]);
}

/// Each of its containers has parity that restores a lost sector.
#[test]
fn v1_parity() {
    let recovery = SecretKey::Recovery(RECOVERY);
    reads_as_it_was("v1-parity", &[Some(recovery)]);
    let disk = disk("v1-parity");
    let expected = std::fs::read_to_string(golden("v1-parity").with_extension("manifest"));
    for (name, _) in disk.image().files() {
        if name.starts_with("containers") {
            let zero = Damage::Zero {
                offset: 0,
                len: 4096,
            };
            disk.damage(&name, &zero).expect("there");
        }
    }
    let recovery = SecretKey::Recovery(RECOVERY);
    let pool = Pool::open(
        media(&disk, 1),
        Some(&recovery),
        OpenMode::Read,
        MEMORY_BYTES,
    )
    .unwrap();
    assert_eq!(manifest_of(&pool), expected.expect("manifest"));
}

/// Returns where in its sector each region begins, and its header.
fn regions(disk: &SimDisk) -> Vec<(usize, RegionHeader)> {
    let image = disk.image();
    let files = image.files().into_iter().map(|(name, _)| name);
    let containers = files.filter(|name| name.starts_with("containers"));
    let regions = containers.flat_map(|name| {
        let bytes = image.contents(&name).expect("listed").to_vec();
        let container = ContainerHeader::decode(&bytes, false).expect("a container");
        let sectors = (0..bytes.len()).step_by(512);
        let found = sectors.filter_map(|at| find_region(&bytes[at..], container.id));
        found.collect::<Vec<_>>()
    });
    regions.collect()
}

/// Returns the number of regions of each codec.
fn codecs(disk: &SimDisk) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    let headers = regions(disk).into_iter();
    headers.for_each(|(_, header)| *counts.entry(header.codec as u8).or_default() += 1);
    counts
}

/// Returns true if a region begins within a sector.
fn has_packed(disk: &SimDisk) -> bool {
    regions(disk).iter().any(|(within, _)| *within != 0)
}

#[test]
fn v1_x86() {
    reads_as_it_was("v1-x86", &[None]);
    assert!(codecs(&disk("v1-clear")).keys().eq(&[0, 1, 2]));
    assert!(codecs(&disk("v1-x86")).keys().eq(&[0, 1, 2, 3]));
}

#[test]
fn v1_packed() {
    let recovery = SecretKey::Recovery(RECOVERY);
    reads_as_it_was("v1-packed", &[Some(recovery)]);
    assert!(has_packed(&disk("v1-packed")) && !has_packed(&disk("v1-parity")));
}

#[test]
fn a_pool_without_the_feature_never_gets_a_region_within_a_sector() {
    for (name, expected) in [("v1-x86", false), ("v1-packed", true)] {
        let disk = disk(name);
        let secret = expected.then_some(SecretKey::Recovery(RECOVERY));
        let open = |mode| Pool::open(media(&disk, 10), secret.as_ref(), mode, MEMORY_BYTES);
        let pool = open(OpenMode::Write).unwrap();
        let before = regions(&disk).len();
        let with = chunking::Compression::Default;
        let added = store_image(&pool, "more", &noise(77, 300_000), with);
        assert!(added.restore(&pool).unwrap().is_empty());
        assert!(regions(&disk).len() > before + 8, "small regions");
        assert_eq!(has_packed(&disk), expected, "{name}");
    }
}

#[test]
fn a_pool_without_the_feature_never_gets_a_filtered_region() {
    for (name, expected) in [("v1-clear", false), ("v1-x86", true)] {
        let disk = disk(name);
        let filtered = || codecs(&disk).get(&3).copied();
        let before = filtered();
        let pool = Pool::open(media(&disk, 10), None, OpenMode::Write, MEMORY_BYTES).unwrap();
        let mut code = contents::code();
        code.rotate_left(5000);
        let added = store_image(&pool, "code", &code, chunking::Compression::Default);
        assert!(added.restore(&pool).unwrap().is_empty());
        assert_eq!(filtered() > before, expected);
    }
}

/// Returns the golden pool `v1-clear` after `change` of one or both names of its config.
fn newer(change: impl Fn(&[u8]) -> Vec<u8>, names: &[&str]) -> Arc<SimDisk> {
    let disk = disk("v1-clear");
    for name in names {
        let bytes = disk.image().contents(name).expect("a config").to_vec();
        disk.plant(name, &change(&bytes));
    }
    disk
}

/// A pool of a newer program is refused, and nothing of it changes. A feature that only writers
/// must know lets readers in.
#[test]
fn a_newer_pool_is_refused_with_words() {
    const BOTH: &[&str] = &["config", "mirror/config"];
    let feature = |incompat: bool, bit: u32| {
        move |bytes: &[u8]| {
            let mut config = Config::decode(bytes).expect("a config").0;
            match incompat {
                true => config.features_incompat |= 1 << bit,
                false => config.features_ro_compat |= 1 << bit,
            }
            config.encode()
        }
    };
    let version = |bytes: &[u8]| {
        let copy =
            mirrored::decode("config", BlobKind::Config, CONFIG_VERSION, bytes).expect("ours");
        mirrored::encode(
            BlobKind::Config,
            CONFIG_VERSION + 1,
            copy.pool,
            copy.slot,
            &copy.payload,
        )
    };
    let unknown = FEATURES_INCOMPAT_KNOWN.trailing_ones();
    // A pool, and the modes in which this program opens it.
    let mut cases: Vec<(Arc<SimDisk>, &[OpenMode])> = (unknown..u64::BITS)
        .map(|bit| (newer(feature(true, bit), BOTH), &[][..]))
        .collect();
    let unknown = FEATURES_RO_COMPAT_KNOWN.trailing_ones();
    cases.push((newer(feature(false, unknown), BOTH), &[OpenMode::Read]));
    cases.push((newer(version, BOTH), &[]));
    // An upgrade was interrupted between the two names: nothing needs the new version yet.
    cases.push((newer(version, &["config"]), &[OpenMode::Read]));
    cases.push((newer(version, &["mirror/config"]), &[OpenMode::Read]));
    cases.push((
        newer(feature(true, 63), &["mirror/config"]),
        &[OpenMode::Read],
    ));
    for (number, (disk, modes)) in cases.iter().enumerate() {
        let before = disk.image();
        for mode in [OpenMode::Read, OpenMode::Write] {
            let opened = Pool::open(media(disk, 1), None, mode, MEMORY_BYTES);
            let refusal = opened.err();
            assert_eq!(
                refusal.is_none(),
                modes.contains(&mode),
                "case {number}: {refusal:?}"
            );
            if let Some(e) = refusal {
                assert_eq!(e.kind, StoreErrorKind::Unsupported, "case {number}: {e}");
                assert!(e.to_string().contains("use a newer"), "case {number}: {e}");
            }
        }
        for name in BOTH {
            assert_eq!(
                disk.image().contents(name),
                before.contents(name),
                "case {number}"
            );
        }
    }
}

#[test]
fn a_pool_without_the_feature_never_gets_names_of_owners() {
    let disk = disk("v1-packed");
    let secret = Some(SecretKey::Recovery(RECOVERY));
    let pool = Pool::open(
        media(&disk, 10),
        secret.as_ref(),
        OpenMode::Write,
        MEMORY_BYTES,
    );
    let pool = pool.unwrap();
    let versions = |pool: &Pool| {
        let snapshots = pool.snapshots().unwrap();
        let versions = snapshots.iter().map(|snapshot| snapshot.encode()[0]);
        versions.max().unwrap()
    };
    let mut named = pool.snapshots().unwrap().remove(0);
    named.original = named.id;
    for (upgraded, expected) in [(false, 1), (true, 3)] {
        if upgraded {
            pool.upgrade().unwrap();
        }
        named.id = pool.new_snapshot_id();
        pool.change_snapshots(std::slice::from_ref(&named), &[])
            .unwrap();
        assert_eq!(versions(&pool), expected);
        assert!(check_all(&pool).unwrap().is_sound());
    }
}

#[test]
fn canary_one_changed_byte_is_not_as_it_was() {
    let disk = disk("v1-clear");
    let image = disk.image();
    for (name, len) in image
        .files()
        .into_iter()
        .filter(|(name, _)| name.starts_with("containers"))
    {
        disk.damage(&name, &Damage::FlipBit(len * 4)).unwrap();
    }
    let pool = Pool::open(media(&disk, 1), None, OpenMode::Read, MEMORY_BYTES).unwrap();
    let report = check_all(&pool).unwrap();
    assert!(!report.is_sound());
}

/// Creates missing pools in the current version.
#[test]
#[ignore = "run once for a new version of the format"]
fn make_golden_pools() {
    let pools = [
        ("v1-clear", false, false, false, 0),
        ("v1-encrypted", true, false, false, 0),
        ("v1-x86", false, true, false, 0),
        ("v1-parity", true, false, false, 2),
        ("v1-packed", true, true, false, 2),
        ("v3-owners", false, false, true, 0),
    ];
    for (name, encrypted, code, owners, parity_percent) in pools {
        if !golden(name).exists() {
            contents::make(&golden(name), encrypted, code, owners, parity_percent);
        }
    }
}

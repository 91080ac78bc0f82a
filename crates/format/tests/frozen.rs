//! The bytes of every layout. A layout whose bytes change must take a new version, so that no
//! program takes bytes of one version for those of another.
//!
//! Files in `frozen/` have a line for each sample: version, bytes in hexadecimal. Lines are added
//! for a new version, and never edited: see CONTRIBUTING.md.

use crate::decoders::{DECODERS, POOL, samples};
use format::bytes::Reader;
use format::config::{CONFIG_VERSION, Config, FEATURES_INCOMPAT_KNOWN};
use format::container::{
    CONTAINER_VERSION, ContainerHeader, Directory, RegionHeader, split_region,
};
use format::journal::{JOURNAL_VERSION, SlotHeader};
use format::journal_place::JOURNAL_PLACE_VERSION;
use format::key_slot::{KEY_SLOT_VERSION, KeySlot};
use format::map_node::{MAP_VERSION, MapNode};
use format::parity::PARITY_VERSION;
use format::reach::{REACH_VERSION, ReachRecord};
use format::recipe::{ObjectRoot, RECIPE_VERSION, RecipeNode};
use format::reservations::RESERVATIONS_VERSION;
use format::root::{ROOT_VERSION, RootRecord, StoredRoot};
use format::snapshot::{SNAPSHOT_VERSION, Snapshot};
use format::tier::TIER_VERSION;
use format::trash_minimum::TrashMinimum;
use format::tree::{DIRECTORY_VERSION, Entry};
use format::volume::{VOLUME_VERSION, VolumeRecord};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

/// Layouts, as the history in docs/format names them: name, current version, and the decoders that
/// have samples of it.
const LAYOUTS: &[(&str, u16, &[&str])] = &[
    ("config", CONFIG_VERSION, &["config"]),
    ("key_slot", KEY_SLOT_VERSION, &["key_slot"]),
    ("root", ROOT_VERSION, &["root"]),
    ("container", CONTAINER_VERSION, &["container", "directory"]),
    ("parity", PARITY_VERSION, &["parity"]),
    ("recipe", RECIPE_VERSION as u16, &["recipe_node"]),
    ("map_node", MAP_VERSION as u16, &["map_node"]),
    ("snapshot", SNAPSHOT_VERSION as u16, &["snapshot"]),
    ("tree", DIRECTORY_VERSION as u16, &["tree"]),
    ("volume", VOLUME_VERSION as u16, &["volume"]),
    ("trash_minimum", 1, &["trash_minimum"]),
    (
        "reservations",
        RESERVATIONS_VERSION as u16,
        &["reservations"],
    ),
    (
        "journal",
        JOURNAL_VERSION,
        &["journal_slot", "journal_record"],
    ),
    ("reach", REACH_VERSION, &["reach"]),
    ("journal_place", JOURNAL_PLACE_VERSION, &["journal_place"]),
    (
        "index/header",
        format::index::VERSION,
        &["index_header", "index_bucket", "index_tail", "index_stamp"],
    ),
    ("known", format::known::VERSION, &["known"]),
    ("collect", format::collect::VERSION, &["collect"]),
    (
        "damage_hints",
        format::damage_hints::VERSION,
        &["damage_hints"],
    ),
    (
        "failed_streams",
        format::failed_streams::VERSION,
        &["failed_streams"],
    ),
    (
        "reader_hold",
        format::reader_hold::VERSION,
        &["reader_hold"],
    ),
    ("defrag", format::defrag::VERSION, &["defrag"]),
    ("scrub", format::scrub::VERSION, &["scrub"]),
    ("trace", format::trace::VERSION, &["trace"]),
    ("host_scrub", format::host_scrub::VERSION, &["host_scrub"]),
    ("host_trace", format::host_trace::VERSION, &["host_trace"]),
    ("moved", format::moved::VERSION, &["moved"]),
    ("tier", TIER_VERSION, &["tier_block"]),
];

/// Decoders without a layout of their own: `mirrored` has the samples of `root`.
const OTHERS: &[&str] = &["mirrored"];

fn frozen(decoder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/frozen")
        .join(format!("{decoder}.hex"))
}

/// Returns the lines of a decoder's file: version, bytes.
fn lines(decoder: &str) -> Vec<(u16, Vec<u8>)> {
    let path = frozen(decoder);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    };
    let line = |line: &str| {
        let (version, hex) = line.split_once(' ').expect("version, bytes");
        let bytes = hex.as_bytes().chunks(2).map(byte).collect();
        (version.parse().expect("a version"), bytes)
    };
    text.lines().map(line).collect()
}

/// Returns the version of a sample of a layout, whose current version is given. Layouts of which
/// several versions are written say it in their bytes.
fn version_of(decoder: &str, sample: &[u8], current: u16) -> u16 {
    match decoder {
        "snapshot" => sample[25].into(),
        "key_slot" => u16::from_le_bytes([sample[10], sample[11]]),
        _ => current,
    }
}

#[test]
fn every_decoder_belongs_to_a_layout() {
    let named: BTreeSet<&str> = LAYOUTS
        .iter()
        .flat_map(|(_, _, names)| *names)
        .copied()
        .collect();
    let others = OTHERS.iter().copied();
    let all: BTreeSet<&str> = DECODERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        named.into_iter().chain(others).collect::<BTreeSet<_>>(),
        all
    );
}

#[test]
fn no_layout_changes_under_its_version() {
    for (layout, current, names) in LAYOUTS {
        for name in *names {
            let lines = lines(name);
            for sample in samples::of(name) {
                let version = version_of(name, &sample, *current);
                assert!(
                    lines.contains(&(version, sample)),
                    "the bytes of {name} are not those of {layout} version {version}: take a new \
                     version of {layout}, a feature of the config if programs must know it, a \
                     golden pool, and a line of the history in docs/format (see CONTRIBUTING.md)"
                );
            }
        }
    }
}

/// Every version of what a pool cannot do without stays readable. Layouts that are missing here
/// are caches, or have no version that older programs wrote.
#[test]
fn frozen_bytes_of_every_version_are_read() {
    let pair = |bytes: &[u8], key: usize| (bytes[..key].to_vec(), bytes[key..].to_vec());
    type Reads = fn(&[u8]) -> bool;
    let all: &[(&str, Reads)] = &[
        ("config", |b| Config::decode(b).is_ok()),
        ("key_slot", |b| KeySlot::decode(b).is_ok()),
        ("root", |b| {
            StoredRoot::decode(b).is_ok() || RootRecord::decode(b).is_ok()
        }),
        ("container", |b| {
            let header = [false, true].map(|footer| ContainerHeader::decode(b, footer).is_ok());
            header.contains(&true)
                || RegionHeader::decode(b).is_ok()
                || split_region(&b[4..], 2).is_ok()
        }),
        ("directory", |b| Directory::decode(b).is_ok()),
        ("recipe_node", |b| {
            RecipeNode::decode(b).is_ok() || ObjectRoot::decode(&mut Reader::new("root", b)).is_ok()
        }),
        ("map_node", |b| MapNode::decode(b).is_ok()),
        ("tree", |b| Entry::decode_directory(b).is_ok()),
        ("trash_minimum", |b| TrashMinimum::decode(b).is_ok()),
        ("reach", |b| ReachRecord::decode(b, POOL).is_ok()),
        ("journal_slot", |b| {
            SlotHeader::decode_page(b, samples::JOURNAL_SLOT).is_ok()
        }),
    ];
    for (name, reads) in all {
        for (version, bytes) in lines(name) {
            assert!(reads(&bytes), "{name} version {version}");
        }
    }
    for (version, bytes) in lines("snapshot") {
        let (key, value) = pair(&bytes, 25);
        assert!(Snapshot::decode(&key, &value).is_ok(), "version {version}");
    }
    for (version, bytes) in lines("volume") {
        let (key, value) = pair(&bytes, 4);
        assert!(
            VolumeRecord::decode(&key, &value).is_ok(),
            "version {version}"
        );
    }
}

/// Returns the cells of the rows of a page's tables.
fn rows(page: &str) -> Vec<Vec<String>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/format")
        .join(page);
    let text = std::fs::read_to_string(path).expect("docs/format");
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(cells)
        .collect()
}

#[test]
fn the_history_has_every_version_and_every_feature() {
    let history = rows("README.md");
    for (layout, current, names) in LAYOUTS {
        for version in 1..=*current {
            let has = |row: &Vec<String>| {
                row[0] == format!("`{layout}`") && row.get(1) == Some(&version.to_string())
            };
            assert!(
                history.iter().any(has),
                "{layout} {version} has no line in the history"
            );
        }
        let frozen: BTreeSet<u16> = names
            .iter()
            .flat_map(|name| lines(name))
            .map(|(v, _)| v)
            .collect();
        assert!(
            frozen.contains(current),
            "{layout} {current} has no frozen bytes"
        );
    }
    let features = rows("superblock.md");
    for bit in (0..u64::BITS)
        .map(|bit| 1u64 << bit)
        .filter(|bit| FEATURES_INCOMPAT_KNOWN & bit != 0)
    {
        let has = |row: &Vec<String>| row[0] == "a reader must know" && row[1] == bit.to_string();
        assert!(
            features.iter().any(has),
            "feature {bit} is not in docs/format/superblock.md"
        );
    }
}

/// Adds lines for samples that have none. Lines of a version that was released are never removed.
#[test]
#[ignore = "run once for a new version of a layout"]
fn freeze() {
    for (_, current, names) in LAYOUTS {
        for name in *names {
            let mut text = std::fs::read_to_string(frozen(name)).unwrap_or_default();
            for sample in samples::of(name) {
                let version = version_of(name, &sample, *current);
                let mut line = format!("{version} ");
                sample
                    .iter()
                    .for_each(|byte| write!(line, "{byte:02x}").expect("a string"));
                if !text.lines().any(|before| before == line) {
                    text += &line;
                    text.push('\n');
                }
            }
            std::fs::create_dir_all(frozen(name).with_file_name("")).expect("create");
            std::fs::write(frozen(name), text).expect("write");
        }
    }
}

mod numbering;

use super::*;
use crate::facts::{Contents, Facts, Pattern};
use crate::policy::Policy;
use crate::settings::{Priority, Share};
use numbering::{ext3, successor};
use units::{IoClass, Origin};

fn policy(name: &str) -> Policy {
    let shipped = find(name).expect(name);
    match Policy::parse(shipped.csv) {
        Ok(policy) => policy,
        Err(e) => panic!("{name}: {e}"),
    }
}

fn of(contents: Contents) -> Facts<'static> {
    Facts {
        contents,
        len_bytes: 4096,
        ..Facts::default()
    }
}

fn file(size_bytes: u64, offset_bytes: u64) -> Facts<'static> {
    of(Contents::File {
        size_bytes,
        offset_bytes,
    })
}

/// Returns true if a cache may keep what the request brings.
fn is_cached(policy: &Policy, facts: &Facts<'_>) -> bool {
    policy.settings(policy.classify(facts)).share != Share::NONE
}

fn priority(policy: &Policy, facts: &Facts<'_>) -> Priority {
    policy.settings(policy.classify(facts)).priority
}

#[test]
fn all_are_read_and_no_rule_is_impossible() {
    for shipped in ALL {
        let policy = policy(shipped.name);
        assert_eq!(policy.impossible().next(), None, "{}", shipped.name);
        let again = Policy::parse(&policy.to_csv()).expect(shipped.name);
        assert_eq!(again.to_csv(), policy.to_csv());
    }
    assert_eq!(find("none"), None);
}

#[test]
fn the_directory_has_no_other_policies() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies");
    let names = std::fs::read_dir(directory).expect("policies");
    let mut names: Vec<String> = names
        .map(|entry| {
            entry
                .expect("a name")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    let mut shipped = ALL.map(|shipped| format!("{}.csv", shipped.name)).to_vec();
    names.sort();
    shipped.sort();
    assert_eq!(names, shipped);
}

#[test]
fn the_successor_has_its_numbering() {
    let policy = policy("successor");
    let class = |facts: &Facts<'_>| policy.classify(facts);
    assert_eq!(class(&of(Contents::Metadata)), successor::METADATA);
    assert_eq!(class(&of(Contents::Journal)), successor::JOURNAL);
    assert_eq!(class(&of(Contents::Directory)), successor::DIRECTORY);
    assert_eq!(class(&of(Contents::Unknown)), successor::MISC);
    for shift in 0..42 {
        for size in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1] {
            let expected = successor::of_file_size(size);
            assert_eq!(class(&file(size, 0)), expected, "{size}");
        }
    }
    let direct = Facts {
        is_direct: Some(true),
        ..file(1, 0)
    };
    assert_eq!(class(&direct), successor::DIRECT);
}

#[test]
fn ext3_has_the_numbering_of_the_slides() {
    let policy = policy("ext3");
    let class = |facts: &Facts<'_>| policy.classify(facts);
    assert_eq!(class(&of(Contents::Metadata)), ext3::METADATA);
    assert_eq!(class(&of(Contents::Journal)), ext3::JOURNAL);
    assert_eq!(class(&of(Contents::Directory)), ext3::DIRECTORY);
    for offset in [
        0,
        4095,
        4096,
        16_383,
        16_384,
        65_535,
        65_536,
        262_143,
        262_144,
        1 << 40,
    ] {
        let expected = ext3::of_file_offset(offset);
        assert_eq!(class(&file(u64::MAX, offset)), expected, "{offset}");
    }
    assert_eq!(class(&of(Contents::Unknown)), IoClass(8));
}

#[test]
fn t1_to_t5_cache_more_of_each_file() {
    let offsets = [0, 4096, 16_384, 65_536, 262_144];
    for (nth, name) in ["t1", "t2", "t3", "t4", "t5"].into_iter().enumerate() {
        let policy = policy(name);
        for contents in [Contents::Metadata, Contents::Journal, Contents::Directory] {
            assert!(is_cached(&policy, &of(contents)), "{name} {contents:?}");
        }
        for (class, offset) in offsets.into_iter().enumerate() {
            let cached = is_cached(&policy, &file(u64::MAX, offset));
            assert_eq!(cached, class < nth, "{name} at {offset}");
        }
        assert!(!is_cached(&policy, &of(Contents::Unknown)), "{name}");
    }
}

/// Ext4 writes the data of a new file before it says that the blocks are in use.
#[test]
fn new_data_is_not_refused_as_free_space() {
    for name in ["successor", "vm-images", "file-server", "database"] {
        let policy = policy(name);
        let write = Facts {
            is_write: true,
            ..of(Contents::Free)
        };
        assert!(is_cached(&policy, &write), "{name}");
        assert!(!is_cached(&policy, &of(Contents::Free)), "{name}");
    }
}

#[test]
fn images_of_machines_keep_random_reads_before_streams() {
    let policy = policy("vm-images");
    let large = |pattern, len_bytes| Facts {
        pattern: Some(pattern),
        len_bytes,
        ..file(1 << 30, 1 << 29)
    };
    let random = priority(&policy, &large(Pattern::Random, 4096));
    let stream = priority(&policy, &large(Pattern::Sequential, 1 << 20));
    assert!(random < priority(&policy, &large(Pattern::Sequential, 4096)));
    assert!(priority(&policy, &of(Contents::Metadata)) < random && random < stream);
    // A pattern does not make metadata less important.
    let scanned = Facts {
        pattern: Some(Pattern::Sequential),
        len_bytes: 1 << 20,
        ..of(Contents::Metadata)
    };
    assert_eq!(policy.classify(&scanned), successor::METADATA);
    assert!(!is_cached(&policy, &of(Contents::Free)));
}

#[test]
fn file_servers_pin_what_lists_and_finds_files() {
    let policy = policy("file-server");
    assert_eq!(priority(&policy, &of(Contents::Metadata)), Priority::Pinned);
    assert_eq!(
        priority(&policy, &of(Contents::Directory)),
        Priority::Pinned
    );
    assert_ne!(priority(&policy, &of(Contents::Journal)), Priority::Pinned);
    let head = priority(&policy, &file(1 << 30, 0));
    let deep = priority(&policy, &file(1 << 30, 1 << 28));
    assert!(head < priority(&policy, &file(1 << 30, 8192)) && head < deep);
}

#[test]
fn databases_keep_small_requests_before_scans() {
    let policy = policy("database");
    let read = |pattern, len_bytes| Facts {
        pattern: Some(pattern),
        len_bytes,
        ..Facts::default()
    };
    let row = priority(&policy, &read(Pattern::Random, 8192));
    let scan = read(Pattern::Sequential, 1 << 20);
    assert!(row < priority(&policy, &scan));
    let share = policy.settings(policy.classify(&scan)).share;
    assert_eq!(share.hundredths(), 10);
    let temporary = Facts {
        write_lifetime: Some(2),
        is_write: true,
        ..read(Pattern::Random, 8192)
    };
    assert!(!is_cached(&policy, &temporary));
    assert_eq!(
        priority(&policy, &of(Contents::Metadata)),
        Priority::Evictable(0)
    );
    let journal = policy.settings(policy.classify(&of(Contents::Journal)));
    assert_eq!(journal.share.hundredths(), 5);
}

#[test]
fn streams_pass_by_the_cache_of_a_backup_pool() {
    let policy = policy("backup-only");
    let of = |origin| Facts {
        origin,
        ..Facts::default()
    };
    for origin in [
        Origin::Backup,
        Origin::Replication,
        Origin::Scrub,
        Origin::Collect,
    ] {
        assert!(!is_cached(&policy, &of(origin)), "{origin:?}");
    }
    let client = priority(&policy, &of(Origin::Foreground));
    assert!(client < priority(&policy, &of(Origin::Restore)));
}

#[test]
fn maintenance_of_a_volume_fills_no_cache() {
    for name in ["vm-images", "file-server", "database"] {
        let policy = policy(name);
        for origin in [Origin::Scrub, Origin::Collect, Origin::Defragment] {
            let facts = Facts {
                origin,
                ..of(Contents::Metadata)
            };
            assert!(!is_cached(&policy, &facts), "{name} {origin:?}");
        }
    }
}

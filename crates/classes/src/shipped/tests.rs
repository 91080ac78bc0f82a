mod numbering;

use super::*;
use crate::facts::{Contents, Facts, Pattern};
use crate::policy::Policy;
use crate::settings::{Admission, Priority, Share};
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

fn admission(policy: &Policy, facts: &Facts<'_>) -> Admission {
    policy.fast_settings(policy.classify(facts)).admission()
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
fn t1_to_t5_keep_more_of_each_file_on_flash() {
    let is_on_flash = |policy: &Policy, facts: &Facts<'_>| {
        let settings = policy.fast_settings(policy.classify(facts));
        settings.share != Share::NONE
    };
    let offsets = [0, 4096, 16_384, 65_536, 262_144];
    for (nth, name) in ["t1", "t2", "t3", "t4", "t5"].into_iter().enumerate() {
        let policy = policy(name);
        for contents in [Contents::Metadata, Contents::Journal, Contents::Directory] {
            assert!(is_on_flash(&policy, &of(contents)), "{name} {contents:?}");
        }
        for (class, offset) in offsets.into_iter().enumerate() {
            let of_file = file(u64::MAX, offset);
            let is_there = is_on_flash(&policy, &of_file);
            assert_eq!(is_there, class < nth, "{name} at {offset}");
            assert!(is_cached(&policy, &of_file), "{name} at {offset}: memory");
        }
        assert!(!is_cached(&policy, &of(Contents::Unknown)), "{name}");
    }
}

/// Ext4 writes the data of a new file before it says that the blocks are in use. Nothing is known
/// of blocks while a layout is being read.
#[test]
fn new_data_is_not_refused_as_free_space() {
    for shipped in ALL {
        let (name, policy) = (shipped.name, policy(shipped.name));
        for contents in [Contents::Free, Contents::Unknown] {
            let write = Facts {
                is_write: true,
                ..of(contents)
            };
            assert!(is_cached(&policy, &write), "{name} {contents:?}");
        }
        let refuses = !matches!(name, "ext3" | "backup-only");
        let free = is_cached(&policy, &of(Contents::Free));
        assert_eq!(free, !refuses, "{name}: free space is not worth reading");
    }
}

#[test]
fn metadata_enters_the_fast_tier_and_streams_do_not() {
    for name in ["successor", "vm-images", "file-server", "database"] {
        let policy = policy(name);
        for contents in [Contents::Metadata, Contents::Directory] {
            let found = admission(&policy, &of(contents));
            assert_eq!(found, Admission::Always, "{name} {contents:?}");
        }
        let stream = |contents| Facts {
            pattern: Some(Pattern::Sequential),
            len_bytes: 1 << 20,
            ..of(contents)
        };
        let deep = Contents::File {
            size_bytes: 2 << 30,
            offset_bytes: 1 << 30,
        };
        for contents in [deep, Contents::Unknown] {
            let found = admission(&policy, &stream(contents));
            assert_ne!(found, Admission::Always, "{name} {contents:?}");
        }
    }
    for name in ["successor", "vm-images", "file-server"] {
        let small = admission(&policy(name), &file(3000, 0));
        assert_eq!(small, Admission::Always, "{name}");
    }
    // Guests write their journals all the time, and read them after a crash.
    for name in ["vm-images", "file-server", "database"] {
        let journal = admission(&policy(name), &of(Contents::Journal));
        assert_eq!(journal, Admission::WhileFree, "{name}");
    }
    let client = |pattern| Facts {
        pattern,
        ..Facts::default()
    };
    let backups = policy("backup-only");
    let stream = client(Some(Pattern::Sequential));
    assert_eq!(admission(&backups, &stream), Admission::ByPattern);
    assert_eq!(admission(&backups, &client(None)), Admission::Always);
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

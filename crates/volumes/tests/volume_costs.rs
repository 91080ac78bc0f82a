//! Costs of administrative changes, in bytes and operations: the same for any size.

use crate::small_volumes;

use sim::OperationCounts;
use small_volumes::{CONTEXT, is_sound, made, open, write};
use std::sync::Arc;
use testkit::specimen::noise;
use volume::Volume;
use volumes::CacheMeter;

/// Returns writes, bytes written and syncs of each: clone of a volume, clone of a snapshot,
/// snapshot, rollback.
fn costs(size: u64) -> Vec<(&'static str, OperationCounts, u64)> {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("big", size, 12).expect("create");
    for n in 0..50 {
        write(&volume, n * (size / 50) / 4096 * 4096, &noise(n, 4096));
    }
    let first = volumes.snapshot("big", "first").expect("snapshot");
    let mut costs = Vec::new();
    let mut measure = |what: &'static str, change: &mut dyn FnMut()| {
        let (before, stored) = (disk.counts(), volumes.pool().record().stored_bytes);
        change();
        let after = disk.counts();
        let counts = OperationCounts {
            writes: after.writes - before.writes,
            written_bytes: after.written_bytes - before.written_bytes,
            file_syncs: after.file_syncs - before.file_syncs,
            ..OperationCounts::default()
        };
        let stored = volumes.pool().record().stored_bytes - stored;
        costs.push((what, counts, stored));
    };
    measure("clone of a snapshot", &mut || {
        volumes
            .clone_snapshot("one", &first)
            .map(drop)
            .expect("clone");
    });
    measure("clone of a volume", &mut || {
        volumes.clone_volume("two", "big").map(drop).expect("clone");
    });
    measure("snapshot", &mut || {
        volumes
            .snapshot("big", "second")
            .map(drop)
            .expect("snapshot");
    });
    measure("rollback", &mut || {
        volumes.rollback("big", &first).expect("rollback");
    });
    for name in ["one", "two", "big"] {
        let clone = volumes.volume(name).expect("clone");
        let mut bytes = vec![0; 4096];
        let at = 7 * (size / 50) / 4096 * 4096;
        clone.read(CONTEXT, at, &mut bytes).expect("read");
        assert!(bytes == noise(7, 4096), "{name}");
    }
    is_sound(&volumes);
    costs
}

#[test]
fn requests_say_where_they_found_what_they_read() {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("one", 1 << 20, 12).expect("create");
    let tally = |name: &str| {
        let list = volumes.list();
        let found = list.iter().find(|v| v.record.name == name);
        let t = found.expect("volume").cache;
        [t.hits_by_place, t.hits_by_content, t.hits_dirty, t.misses]
    };
    let read = |name: &str, offset: u64| {
        let volume = volumes.volume(name).expect("volume");
        let mut bytes = vec![0; 8192];
        volume.read(CONTEXT, offset, &mut bytes).expect("read");
    };
    write(&volume, 0, &noise(1, 65536));
    read("one", 0);
    assert_eq!(tally("one"), [0, 0, 2, 0]);
    let snapshot = volumes.snapshot("one", "a").expect("snapshot");
    drop(volume);
    drop(volumes.clone_snapshot("two", &snapshot).expect("clone"));
    // Holes count as neither.
    read("one", 131_072);
    assert_eq!(tally("one"), [0, 0, 2, 0]);
    read("one", 0);
    let [place, content, dirty, misses] = tally("one");
    assert_eq!((place + content + misses, dirty), (2, 2));
    read("two", 0);
    assert_eq!(tally("two"), [0, 2, 0, 0]);
    read("two", 0);
    assert_eq!(tally("two"), [2, 2, 0, 0]);
    let meter = Arc::new(CacheMeter::default());
    let view = volumes.view_state(&snapshot, String::new(), Arc::clone(&meter));
    view.read(CONTEXT, 0, &mut [0; 8192]).expect("read");
    view.read(CONTEXT, 0, &mut [0; 8192]).expect("read");
    let reported = meter.read();
    assert_eq!((reported.hits_by_place, reported.hits_by_content), (2, 2));
    assert_eq!(reported.looks(), 4);
}

#[test]
fn clones_snapshots_and_rollbacks_cost_the_same_whatever_the_size() {
    let (small, large) = (costs(1 << 20), costs(1 << 40));
    for ((what, small, _), (_, large, stored)) in small.into_iter().zip(large) {
        assert!(stored < 64 << 10, "{what}: {stored} bytes stored");
        assert!(large.written_bytes < 64 << 10, "{what}: {large:?}");
        assert!(large.writes <= 40, "{what}: {large:?}");
        assert!(large.file_syncs <= 40, "{what}: {large:?}");
        assert!(
            large.writes <= small.writes && large.file_syncs <= small.file_syncs,
            "{what}: {large:?} for 1 TiB, {small:?} for 1 MiB"
        );
        println!("{what}: {stored} bytes stored, {large:?}");
    }
}

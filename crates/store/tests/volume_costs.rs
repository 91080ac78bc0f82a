//! What changes of volumes cost, in bytes and operations: the same whatever the size.

mod specimen;

use sim::Counts;
use specimen::noise;
use specimen::volumes::{CONTEXT, is_sound, made, open, write};
use volume::Volume;

/// Writes, bytes written and syncs of each: clone of a volume, of a snapshot, snapshot, rollback.
fn costs(size: u64) -> Vec<(&'static str, Counts, u64)> {
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
        let counts = Counts {
            writes: after.writes - before.writes,
            written_bytes: after.written_bytes - before.written_bytes,
            file_syncs: after.file_syncs - before.file_syncs,
            ..Counts::default()
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

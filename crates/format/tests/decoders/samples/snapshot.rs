//! Samples of snapshots: every version.
//!
//! Invariant: see [`super`].

use format::snapshot::{Missed, OwnerNames, Snapshot, SnapshotKind};
use units::{SnapshotId, UnixNanos};

/// Returns keys and values, one after the other.
pub fn all() -> Vec<Vec<u8>> {
    let all = [snapshot(), incomplete_snapshot(), rewritten_snapshot()];
    all.map(|snapshot| [snapshot.key(), snapshot.encode()].concat())
        .into()
}

fn snapshot() -> Snapshot {
    Snapshot {
        id: SnapshotId([5; 16]),
        taken: UnixNanos(-1),
        kind: SnapshotKind::Image,
        root: super::object(),
        name: "disk".to_owned(),
        host: "host".to_owned(),
        user: "user".to_owned(),
        program: "quintet 1".to_owned(),
        paths: vec![b"/dev/sda".to_vec(), vec![0xff]],
        tags: vec!["daily".to_owned(), String::new()],
        files: 1,
        directories: 300,
        logical_bytes: 1 << 40,
        added_bytes: 0,
        duration_ms: 65_000,
        parent: SnapshotId([6; 16]),
        signature: vec![1, 2, 3],
        missed: Missed::default(),
        previous: UnixNanos::default(),
        owners: OwnerNames::default(),
        original: SnapshotId::default(),
    }
}

/// Returns a snapshot of version 3 without the fields of version 2.
fn rewritten_snapshot() -> Snapshot {
    let mut owners = OwnerNames::default();
    for (id, name) in [(0, "root"), (u32::MAX, "nobody")] {
        assert!(owners.add_user(id, name) && owners.add_group(id / 2, name));
    }
    Snapshot {
        owners,
        original: SnapshotId([7; 16]),
        ..snapshot()
    }
}

/// Returns a snapshot of version 2.
fn incomplete_snapshot() -> Snapshot {
    Snapshot {
        missed: Missed {
            unread: 300,
            changed: 1,
        },
        previous: UnixNanos(-2),
        ..snapshot()
    }
}

use super::*;
use crate::exports::ServerExports;
use crate::metrics::tests::server_state;
use crate::targets::Disks;
use chunk_store::catalog::Edit;
use format::recipe::ObjectRoot;
use format::reservations::ReservationsRecord;
use format::snapshot::{Missed, SnapshotKind};
use jiff::tz::TimeZone;
use std::sync::Arc;
use store::{LaneOptions, Purpose};
use units::SnapshotId;
use volume::VolumeErrorKind;

const HOUR_NS: i64 = 3600 * 1_000_000_000;

#[test]
fn the_worst_decides() {
    let of = |severity| Finding {
        severity,
        kind: "kind",
        object: String::new(),
        text: String::new(),
        action: String::new(),
    };
    assert_eq!(worst(&[]).state(), "ONLINE");
    let all = [
        (Severity::Hint, "ONLINE"),
        (Severity::Attention, "DEGRADED"),
        (Severity::Damage, "DAMAGED"),
        (Severity::Failure, "FAILED"),
    ];
    for (severity, state) in all {
        let findings = [of(Severity::Hint), of(severity)];
        assert_eq!(worst(&findings).state(), state);
        assert_eq!(worst(&findings), severity);
    }
}

fn snapshot(source: u64, taken: i64) -> Snapshot {
    let mut id = SnapshotId::default();
    let number = (taken as u64) ^ source;
    id.0[..8].copy_from_slice(&number.to_be_bytes());
    id.0[8..].copy_from_slice(&source.to_be_bytes());
    Snapshot {
        id,
        taken: UnixNanos(taken),
        kind: SnapshotKind::Tree,
        root: ObjectRoot::EMPTY,
        name: String::new(),
        host: format!("host{source}"),
        user: "user".to_owned(),
        program: "quintet".to_owned(),
        paths: vec![b"/home".to_vec()],
        tags: Vec::new(),
        files: 1,
        directories: 1,
        logical_bytes: 1,
        added_bytes: 1,
        duration_ms: 1,
        parent: SnapshotId::default(),
        signature: Vec::new(),
        owners: format::snapshot::OwnerNames::default(),
        original: SnapshotId::default(),
        missed: Missed::default(),
        previous: UnixNanos::default(),
    }
}

/// An entry that no program of today writes stands for one that cannot be read.
#[test]
fn reservations_that_cannot_be_read_are_found_and_are_not_none() {
    let top = tempfile::tempdir().unwrap();
    let server = Arc::new(server_state(top.path()));
    server.volumes.create("web", 1 << 20, 12).unwrap();
    let volume = server.volumes.create("db", 1 << 20, 12).unwrap().id();
    let kinds = || {
        let found = &server.findings().findings;
        let of = found.iter().filter(|f| f.kind == "reservations_unknown");
        of.map(|f| (f.object.clone(), f.severity))
            .collect::<Vec<_>>()
    };
    let keeper = || {
        let exports = ServerExports::new(Arc::clone(&server), TimeZone::UTC);
        exports.open_disk("db").unwrap().reservations.unwrap()
    };
    assert_eq!((kinds(), keeper().kept()), (Vec::new(), Ok(None)));
    let edit = Edit {
        key: ReservationsRecord::key_of(volume),
        value: Some(vec![0xff]),
    };
    let mut session = server.pool.begin(LaneOptions::metadata()).unwrap();
    let commit = |base| session.commit_more(base, vec![edit], 0, &mut []);
    server.pool.commit_with(Purpose::Snapshots, commit).unwrap();
    assert_eq!(kinds(), [("db".to_owned(), Severity::Damage)]);
    assert_eq!(keeper().kept(), Err(VolumeErrorKind::Io));
    keeper().keep(None).unwrap();
    assert_eq!((kinds(), keeper().kept()), (Vec::new(), Ok(None)));
}

/// A stream of which little came is found for as long as full ones are near.
#[test]
fn a_stream_that_shrank_is_found_until_it_is_usual() {
    let top = tempfile::tempdir().unwrap();
    let server = server_state(top.path());
    let now = server.pool.now();
    let found = |kind, sizes: &[u64]| {
        let states = sizes.iter().enumerate().map(|(n, bytes)| Snapshot {
            kind,
            name: "db.sql".to_owned(),
            paths: Vec::new(),
            logical_bytes: *bytes,
            ..snapshot(1, now.0 - HOUR_NS * (sizes.len() - n) as i64)
        });
        let states: Vec<Snapshot> = states.collect();
        let findings = findings_of(&server.pool, &states, now);
        findings.iter().any(|f| f.kind == "stream_shrank")
    };
    use SnapshotKind::{Image, Stream};
    for (kind, sizes, is_found) in [
        (Stream, &[3_000_000, 0][..], true),
        (Stream, &[3_000_000, 700_000], true),
        (Stream, &[3_000_000, 10, 10, 10], true),
        (Stream, &[3_000_000, 10, 10, 10, 10], false),
        (Stream, &[3_000_000, 10, 2_900_000], false),
        (Stream, &[3_000_000, 800_000], false),
        (Stream, &[0], false),
        (Stream, &[0, 0], false),
        (Image, &[3_000_000, 0], false),
    ] {
        assert_eq!(found(kind, sizes), is_found, "{kind:?} {sizes:?}");
    }
}

/// Returns what `status` finds about these snapshots, without a server.
fn findings_of(pool: &Pool, snapshots: &[Snapshot], now: UnixNanos) -> Vec<Finding> {
    let look = FindingsInput {
        pool,
        server: None,
        snapshots,
        hidden: None,
        now,
        limits: Limits::default(),
    };
    look.findings()
}

/// Returns what `status` finds about one source: the kinds, and the last action.
fn found_of(hours_ago: &[i64], change: impl Fn(&mut Snapshot)) -> (Vec<&'static str>, String) {
    let top = tempfile::tempdir().unwrap();
    let server = server_state(top.path());
    let now = server.pool.now();
    let state = |hours: &i64| {
        let mut state = snapshot(1, now.0 - hours * HOUR_NS);
        change(&mut state);
        state
    };
    let states: Vec<Snapshot> = hours_ago.iter().map(state).collect();
    let findings = findings_of(&server.pool, &states, now);
    let action = findings.last().map(|f| f.action.clone());
    let kinds = findings.iter().map(|f| f.kind).collect();
    (kinds, action.unwrap_or_default())
}

#[test]
fn some_backups_within_an_hour_are_no_schedule() {
    let nothing = |_: &mut Snapshot| {};
    let tagged = |tag: &'static str| move |s: &mut Snapshot| s.tags.push(tag.to_owned());
    assert_eq!(found_of(&[4, 3, 2], nothing).0, [""; 0]);
    assert_eq!(found_of(&[40, 39, 38], nothing).0, ["snapshot_overdue"]);
    // Unless a schedule says so; then one snapshot is enough.
    assert_eq!(found_of(&[4], tagged("every=1h")).0, ["snapshot_overdue"]);
    assert_eq!(found_of(&[2], tagged("every=1h")).0, [""; 0]);
    assert_eq!(found_of(&[40, 39, 38], tagged("every=1w")).0, [""; 0]);
}

#[test]
fn a_source_that_was_mistyped_can_be_dismissed() {
    let unread = |s: &mut Snapshot| s.missed.unread = 1;
    let (kinds, action) = found_of(&[5], unread);
    assert_eq!(kinds, ["snapshot_incomplete"]);
    assert!(action.contains("quintet forget "), "{action}");
    let (_, action) = found_of(&[29, 5], unread);
    assert!(action.contains("quintet tag --add final "), "{action}");
    let last = |s: &mut Snapshot| {
        s.missed.unread = 1;
        s.tags.push("final".to_owned());
    };
    assert_eq!(found_of(&[29, 5], last).0, [""; 0]);
}

#[test]
fn growing_logs_are_a_hint_and_changed_images_are_incomplete() {
    let log = |s: &mut Snapshot| s.missed.changed = 1;
    assert_eq!(found_of(&[5], log).0, ["files_changed"]);
    let both = |s: &mut Snapshot| (s.missed.changed, s.missed.unread) = (1, 1);
    assert_eq!(
        found_of(&[5], both).0,
        ["snapshot_incomplete", "files_changed"]
    );
    let image = |s: &mut Snapshot| (s.missed.changed, s.kind) = (1, SnapshotKind::Image);
    assert_eq!(found_of(&[5], image).0, ["snapshot_incomplete"]);
    let finding = |severity| Finding {
        severity,
        kind: "files_changed",
        object: String::new(),
        text: String::new(),
        action: String::new(),
    };
    assert_eq!(worst(&[finding(Severity::Hint)]).state(), "ONLINE");
}

/// With ten thousand snapshots, the catalog is read once, and nothing else.
#[test]
fn looking_costs_the_catalog() {
    let top = tempfile::tempdir().unwrap();
    let server = server_state(top.path());
    let now = server.pool.now().0;
    let mut all = Vec::new();
    for source in 0..100 {
        // Snapshots are daily. The last is a day old, and three days old for the first source.
        let from = if source == 0 { 3 } else { 1 };
        all.extend((from..from + 100).map(|n| snapshot(source, now - n * 24 * HOUR_NS)));
    }
    all[100].missed.unread = 2;
    server.pool.change_snapshots(&all, &[]).unwrap();
    let before = (server.pool.read_counts(), std::time::Instant::now());
    let found = server.findings();
    let after = server.pool.read_counts();
    println!("{} snapshots in {:?}", all.len(), before.1.elapsed());
    let regions = after.region_reads - before.0.region_reads;
    // The catalog takes some 2 MB.
    assert!(regions < 100, "{regions} regions were read");
    let kinds: Vec<_> = found
        .findings
        .iter()
        .map(|f| (f.kind, f.object.as_str()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("snapshot_incomplete", "host1: /home"),
            ("snapshot_overdue", "host0: /home")
        ]
    );
    assert_eq!(found.sources.len(), 100);
    // A second request reads nothing.
    let again = server.findings();
    assert!(std::sync::Arc::ptr_eq(&found, &again));
}

use super::*;
use format::recipe::ObjectRoot;
use units::{SnapshotId, UnixNanos};

fn snapshot(number: u8, kind: SnapshotKind, name: &str) -> Snapshot {
    Snapshot {
        name: name.to_owned(),
        host: format!("host{}", number % 2),
        paths: vec![b"/home".to_vec()],
        tags: vec!["a".to_owned(), format!("t{number}")],
        ..Snapshot::new(
            SnapshotId([number; 16]),
            UnixNanos(number.into()),
            kind,
            ObjectRoot::EMPTY,
        )
    }
}

fn pool() -> Vec<Snapshot> {
    vec![
        snapshot(0x10, SnapshotKind::Tree, ""),
        snapshot(0x11, SnapshotKind::Tree, ""),
        snapshot(0x20, SnapshotKind::Image, "disk"),
        snapshot(0x21, SnapshotKind::Image, "disk"),
        snapshot(0x30, SnapshotKind::Stream, "a@b"),
    ]
}

#[test]
fn by_name_and_latest() {
    let pool = pool();
    let all = SnapshotFilter::default();
    let id = |text: &str| choose(&pool, text, &all).map(|s| s.id.0[0]);
    assert_eq!(id("10").unwrap(), 0x10);
    assert_eq!(id("1010").unwrap(), 0x10);
    // The newest snapshot of files; of other kinds only if there are no files.
    assert_eq!(id("latest").unwrap(), 0x11);
    let disks: Vec<Snapshot> = pool.iter().skip(2).cloned().collect();
    assert_eq!(choose(&disks, "latest", &all).unwrap().id.0[0], 0x30);
    for bad in ["1", "ff", "", "xyz", "newest"] {
        assert!(id(bad).is_err(), "{bad}");
    }
}

#[test]
fn several() {
    let pool = pool();
    let all = SnapshotFilter::default();
    let ids = |named: &[&str]| {
        let named: Vec<String> = named.iter().map(|n| (*n).to_owned()).collect();
        let chosen = choose_several(&pool, &named, &all);
        chosen.map(|c| c.iter().map(|s| s.id.0[0]).collect::<Vec<_>>())
    };
    assert_eq!(ids(&[]).unwrap().len(), 5);
    assert_eq!(
        ids(&["latest", "10", "11", "30"]).unwrap(),
        [0x10, 0x11, 0x30]
    );
    assert!(ids(&["10", "nonsense"]).is_err());
}

#[test]
fn filters() {
    let pool = pool();
    let count = |args: &FilterArgs| {
        let filter = SnapshotFilter::new(args).unwrap();
        pool.iter().filter(|s| filter.matches(s)).count()
    };
    let none = FilterArgs::default();
    assert_eq!(count(&none), 5);
    let host = vec!["host1".to_owned()];
    assert_eq!(
        count(&FilterArgs {
            host,
            ..none.clone()
        }),
        2
    );
    let tag = vec!["a,t16".to_owned(), "t17".to_owned()];
    assert_eq!(
        count(&FilterArgs {
            tag,
            ..none.clone()
        }),
        2
    );
    let path = vec!["/home".into()];
    assert_eq!(
        count(&FilterArgs {
            path,
            ..none.clone()
        }),
        5
    );
    let path = vec!["disk".into()];
    assert_eq!(count(&FilterArgs { path, ..none }), 2);
}

#[test]
fn images_and_streams() {
    let pool = pool();
    let all = SnapshotFilter::default();
    let id = |text: &str| choose_named(&pool, text, &all).map(|s| s.id.0[0]);
    assert_eq!(id("disk").unwrap(), 0x21);
    assert_eq!(id("disk@latest").unwrap(), 0x21);
    assert_eq!(id("disk@2020").unwrap(), 0x20);
    assert_eq!(id("a@b").unwrap(), 0x30);
    assert_eq!(id("a@b@30").unwrap(), 0x30);
    // The id of a state is enough.
    assert_eq!(id("2020").unwrap(), 0x20);
    let tree = id("1010").unwrap_err().to_string();
    assert!(tree.contains("snapshot of files"), "{tree}");
    for bad in ["disk@10", "disc", "disk@2", ""] {
        assert!(id(bad).is_err(), "{bad}");
    }
}

#[test]
fn paths_in_snapshots() {
    let split = |text: &str| split_path(OsStr::new(text)).unwrap();
    assert_eq!(split("latest"), ("latest".to_owned(), None));
    let with_colon = Some(b"/a:b".to_vec());
    assert_eq!(split("12:/a:b"), ("12".to_owned(), with_colon));
    assert!(split_path(OsStr::from_bytes(b"\xff")).is_err());
}

//! Implements the checks of `disk_suite`, which calls this.
//!
//! Invariant: each check gets a new and empty disk.

use super::{RACERS, RACES, fails, pattern};
use media::{Barrier, Disk, DiskFile, MediaErrorKind as Kind};
use std::sync::Barrier as Gate;
use std::sync::atomic::{AtomicUsize, Ordering};

const POINT: Barrier = Barrier::IndexBeforeClean;

fn write(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    let file = disk.open(path, true).expect("open of a new file");
    file.write_at(0, bytes).expect("write");
}

fn all(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0xa5; file.len().expect("len") as usize];
    file.read_at(0, &mut bytes).expect("read of it all");
    bytes
}

fn contents(disk: &dyn Disk, path: &str) -> Vec<u8> {
    all(&*disk.open_read(path).expect("open_read"))
}

/// Reads return the written bytes, at any offset and length, and never more.
pub(super) fn bytes(disk: &dyn Disk) {
    let mut expected = pattern(1, 20_000);
    let file = disk.open("file", true).expect("open of a new file");
    file.write_at(0, &expected).expect("write");
    for (offset, len) in [
        (0, 1),
        (511, 2),
        (4095, 2),
        (4096, 4096),
        (8190, 9001),
        (19_999, 1),
    ] {
        let piece = pattern(offset + 2, len);
        file.write_at(offset as u64, &piece).expect("overwrite");
        expected[offset..offset + len].copy_from_slice(&piece);
        let mut read = vec![0; len];
        file.read_at(offset as u64, &mut read).expect("read");
        assert!(read == piece, "bytes at {offset}+{len}");
    }
    assert!(all(&*file) == expected, "content as a whole");
    assert!(
        contents(disk, "file") == expected,
        "content through another handle"
    );
    for (offset, len) in [
        (4096, 8192),
        (0, 1),
        (12_288, 7712),
        (5000, 4096),
        (4096, 0),
    ] {
        let piece = pattern(offset + 3, len);
        let written = file.write_at_past_cache(offset as u64, &piece);
        written.expect("write past the cache");
        expected[offset..offset + len].copy_from_slice(&piece);
        assert!(all(&*file) == expected, "bytes past the cache at {offset}");
    }
    file.sync(POINT).expect("sync");
    fails(
        file.read_at(19_999, &mut [0; 2]),
        Kind::Io,
        "read across the end",
    );
    fails(
        file.read_at(40_000, &mut [0; 1]),
        Kind::Io,
        "read past the end",
    );
    fails(
        file.read_at(u64::MAX, &mut [0; 2]),
        Kind::Io,
        "read at the end of numbers",
    );
}

/// Growing a file shows zeroes; cutting it discards bytes.
pub(super) fn lengths(disk: &dyn Disk) {
    let file = disk.open("file", true).expect("open of a new file");
    assert_eq!(file.len().expect("len"), 0, "length of a new file");
    file.write_at(5000, b"end").expect("write past the end");
    let mut expected = vec![0; 5000];
    expected.extend(b"end");
    assert!(all(&*file) == expected, "a gap reads as zeroes");
    file.set_len(5001).expect("cut");
    file.set_len(6000).expect("grow");
    expected.truncate(5001);
    expected.resize(6000, 0);
    assert!(all(&*file) == expected, "cut bytes do not come back");
    file.set_len(0).expect("cut to nothing");
    assert!(all(&*file).is_empty(), "nothing is left");
}

/// Each way of opening needs the file to exist or to be missing, and changes it only as documented.
pub(super) fn opening(disk: &dyn Disk) {
    fails(disk.open("file", false), Kind::NotFound, "open of no file");
    fails(
        disk.open_read("file"),
        Kind::NotFound,
        "open_read of no file",
    );
    fails(
        disk.open("no/file", true),
        Kind::NotFound,
        "open in no directory",
    );
    write(disk, "file", b"old bytes");
    disk.open("file", false)
        .expect("open")
        .write_at(0, b"OLD")
        .expect("write");
    assert_eq!(
        contents(disk, "file"),
        b"OLD bytes",
        "open without create keeps"
    );
    fails(
        disk.create_new("file"),
        Kind::Exists,
        "create_new of a file",
    );
    assert_eq!(
        contents(disk, "file"),
        b"OLD bytes",
        "a refused create_new keeps"
    );
    disk.open("file", true).expect("open that truncates");
    assert!(
        contents(disk, "file").is_empty(),
        "open with create truncates"
    );
    let file = disk.create_new("other").expect("create_new");
    file.write_at(0, b"new").expect("write");
    assert_eq!(contents(disk, "other"), b"new");
    let read_only = disk.open_read("other").expect("open_read");
    assert!(
        read_only.write_at(0, b"x").is_err(),
        "write through a handle for reading"
    );
    assert_eq!(contents(disk, "other"), b"new");
    disk.remove("other").expect("remove");
    fails(
        disk.open_read("other"),
        Kind::NotFound,
        "open_read of a removed file",
    );
    fails(disk.remove("other"), Kind::NotFound, "remove of no file");
}

/// A handle follows the file, not the name.
pub(super) fn handles_follow_the_file(disk: &dyn Disk) {
    write(disk, "a", b"first");
    write(disk, "b", b"second");
    let first = disk.open("a", false).expect("open");
    let second = disk.open_read("b").expect("open_read");
    disk.rename("a", "b").expect("rename over a file");
    assert_eq!(all(&*second), b"second", "a replaced file stays readable");
    first.write_at(0, b"FIRST").expect("write after the rename");
    assert_eq!(contents(disk, "b"), b"FIRST", "writes follow the file");
    disk.remove("b").expect("remove");
    assert_eq!(all(&*first), b"FIRST", "a removed file stays readable");
    write(disk, "b", b"third");
    assert_eq!(all(&*first), b"FIRST", "a new file of that name is another");
}

/// Both renames move a file; only one replaces an existing one.
pub(super) fn renames(disk: &dyn Disk) {
    disk.make_dir("d").expect("make_dir");
    write(disk, "a", b"a");
    write(disk, "d/b", b"b");
    fails(
        disk.rename("none", "d/b"),
        Kind::NotFound,
        "rename of no file",
    );
    fails(
        disk.rename_new("none", "d/c"),
        Kind::NotFound,
        "rename_new of no file",
    );
    fails(
        disk.rename("a", "none/a"),
        Kind::NotFound,
        "rename into no directory",
    );
    fails(
        disk.rename_new("a", "d/b"),
        Kind::Exists,
        "rename_new over a file",
    );
    assert_eq!(
        contents(disk, "a"),
        b"a",
        "a refused rename_new keeps the old name"
    );
    assert_eq!(
        contents(disk, "d/b"),
        b"b",
        "a refused rename_new keeps the new name"
    );
    disk.rename_new("a", "d/c").expect("rename_new");
    fails(
        disk.open_read("a"),
        Kind::NotFound,
        "old name after rename_new",
    );
    assert_eq!(contents(disk, "d/c"), b"a");
    disk.rename("d/c", "d/b").expect("rename over a file");
    fails(
        disk.open_read("d/c"),
        Kind::NotFound,
        "old name after rename",
    );
    assert_eq!(contents(disk, "d/b"), b"a");
}

/// Directories can be made, listed and synced.
pub(super) fn directories(disk: &dyn Disk) {
    assert!(
        disk.list("").expect("list of the top").is_empty(),
        "a new disk is empty"
    );
    fails(disk.list("d"), Kind::NotFound, "list of no directory");
    fails(
        disk.sync_dir("d", POINT),
        Kind::NotFound,
        "sync of no directory",
    );
    fails(
        disk.make_dir("d/e"),
        Kind::NotFound,
        "make_dir in no directory",
    );
    assert!(disk.make_dir("d").expect("make_dir"), "it is new");
    assert!(
        !disk.make_dir("d").expect("make_dir again"),
        "it is not new any more"
    );
    disk.make_dir("d/e").expect("make_dir below");
    for name in ["d/z", "d/B", "d/a", "d/10", "d/9", "d/e/inner"] {
        write(disk, name, b"");
    }
    let listed: Vec<(String, bool)> = disk
        .list("d")
        .expect("list")
        .into_iter()
        .map(|e| (e.name, e.is_dir))
        .collect();
    let expected = [
        ("10", false),
        ("9", false),
        ("B", false),
        ("a", false),
        ("e", true),
        ("z", false),
    ];
    assert_eq!(
        listed,
        expected.map(|(name, is_dir)| (name.to_owned(), is_dir)),
        "list"
    );
    disk.sync_dir("d/e", POINT).expect("sync_dir");
    disk.sync_dir("", POINT).expect("sync_dir of the top");
}

/// A lock has one holder at a time and leaves the file's bytes unchanged.
pub(super) fn locks(disk: &dyn Disk) {
    write(disk, "lock", b"who");
    let held = disk.lock("lock").expect("lock");
    fails(disk.lock("lock"), Kind::Locked, "lock of a locked file");
    let other = disk
        .lock("other")
        .expect("another lock, in a file that is new");
    drop(held);
    let again = disk.lock("lock").expect("lock after it was given back");
    fails(disk.lock("other"), Kind::Locked, "lock of the other file");
    assert_eq!(contents(disk, "lock"), b"who", "a lock changes no bytes");
    drop((other, again));
}

/// No operation touches anything outside the top directory.
pub(super) fn paths_stay_below_the_top(disk: &dyn Disk) {
    disk.make_dir("d").expect("make_dir");
    write(disk, "file", b"");
    for path in ["../x", "/x", "d/../x", "d//x", "./x", "d/.", "d/", ".."] {
        assert!(disk.open(path, true).is_err(), "open of {path}");
        assert!(disk.create_new(path).is_err(), "create_new of {path}");
        assert!(disk.rename("file", path).is_err(), "rename to {path}");
        assert!(
            disk.rename_new("file", path).is_err(),
            "rename_new to {path}"
        );
        assert!(disk.make_dir(path).is_err(), "make_dir of {path}");
        assert!(disk.list(path).is_err(), "list of {path}");
        assert!(disk.lock(path).is_err(), "lock of {path}");
        assert!(disk.remove(path).is_err(), "remove of {path}");
    }
    assert_eq!(disk.list("").expect("list").len(), 2, "nothing was made");
}

/// Of many threads that create one new name exactly one succeeds, and the name leads to its bytes.
pub(super) fn one_wins_a_new_name(disk: &dyn Disk) {
    for race in 0..RACES {
        let (created, renamed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let gate = Gate::new(RACERS);
        let winner = AtomicUsize::new(usize::MAX);
        std::thread::scope(|scope| {
            for racer in 0..RACERS {
                let (created, renamed, gate, winner) = (&created, &renamed, &gate, &winner);
                scope.spawn(move || {
                    let own = format!("own.{race}.{racer}");
                    write(disk, &own, &pattern(racer, 600));
                    gate.wait();
                    match disk.create_new(&format!("created.{race}")) {
                        Ok(_) => _ = created.fetch_add(1, Ordering::Relaxed),
                        refused => fails(refused, Kind::Exists, "create_new that lost"),
                    }
                    match disk.rename_new(&own, &format!("renamed.{race}")) {
                        Ok(()) => {
                            renamed.fetch_add(1, Ordering::Relaxed);
                            winner.store(racer, Ordering::Relaxed);
                        }
                        refused => fails(refused, Kind::Exists, "rename_new that lost"),
                    }
                });
            }
        });
        assert_eq!(created.into_inner(), 1, "winners of create_new");
        assert_eq!(renamed.into_inner(), 1, "winners of rename_new");
        let bytes = contents(disk, &format!("renamed.{race}"));
        assert!(
            bytes == pattern(winner.into_inner(), 600),
            "the winner's bytes"
        );
    }
}

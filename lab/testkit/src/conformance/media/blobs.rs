//! Implements the checks of `blobs_suite`, which calls this.
//!
//! Invariant: each check gets a new and empty name space.

use super::{RACERS, RACES, fails, pattern};
use media::{Barrier, Blobs, MediaErrorKind as Kind, Put};
use parking_lot::Mutex;
use std::sync::Barrier as Gate;

const LIMIT: u64 = 1 << 20;

fn put(blobs: &dyn Blobs, name: &str, bytes: &[u8]) {
    blobs.put(name, bytes.to_vec(), Put::Replace).expect("put");
}

fn barrier(blobs: &dyn Blobs) {
    blobs
        .barrier(Barrier::ContainersBeforeRoot)
        .expect("barrier");
}

fn contents(blobs: &dyn Blobs, name: &str) -> Vec<u8> {
    blobs.read(name, LIMIT).expect("read")
}

/// Reads return the bytes of the put, whole and in ranges, and never more.
pub(super) fn bytes(blobs: &dyn Blobs) {
    let sizes = [0, 1, 4096, 300_000];
    for size in sizes {
        put(blobs, &format!("dir/{size}"), &pattern(size, size));
    }
    put(blobs, "top", b"at the top");
    put(blobs, "a/b/c", b"deep down");
    barrier(blobs);
    for size in sizes {
        let (name, expected) = (format!("dir/{size}"), pattern(size, size));
        assert_eq!(
            blobs.len(&name).expect("len"),
            size as u64,
            "length of {name}"
        );
        assert!(contents(blobs, &name) == expected, "bytes of {name}");
        let mut piece = vec![0; size / 3];
        blobs
            .read_range(&name, size as u64 / 2, &mut piece)
            .expect("read_range");
        assert!(
            piece == expected[size / 2..size / 2 + size / 3],
            "a range of {name}"
        );
        let end = blobs.read_range(&name, size as u64, &mut [0]);
        fails(end, Kind::Io, "read past the end");
    }
    assert_eq!(contents(blobs, "top"), b"at the top");
    assert_eq!(contents(blobs, "a/b/c"), b"deep down");
    assert_eq!(blobs.read("a/b/c", 4).expect("read with a limit"), b"deep");
    fails(blobs.read("none", LIMIT), Kind::NotFound, "read of no blob");
    fails(blobs.len("no/blob"), Kind::NotFound, "len of no blob");
    fails(
        blobs.read_range("none", 0, &mut [0]),
        Kind::NotFound,
        "read_range of no blob",
    );
}

/// A put if absent is visible at once and never replaces a blob.
pub(super) fn if_absent(blobs: &dyn Blobs) {
    blobs
        .put("roots/1", b"one".to_vec(), Put::IfAbsent)
        .expect("put of a new name");
    assert_eq!(
        contents(blobs, "roots/1"),
        b"one",
        "visible before the barrier"
    );
    let again = blobs.put("roots/1", b"other".to_vec(), Put::IfAbsent);
    fails(again, Kind::Exists, "put of a name that is taken");
    assert_eq!(
        contents(blobs, "roots/1"),
        b"one",
        "the loser changed nothing"
    );
    barrier(blobs);
    blobs
        .put("roots/2", b"two".to_vec(), Put::IfAbsent)
        .expect("a refusal poisons nothing");
    put(blobs, "roots/3", b"three");
    // The check for the name is ordered after the queued put of that name.
    fails(
        blobs.put("roots/3", b"x".to_vec(), Put::IfAbsent),
        Kind::Exists,
        "put after a put",
    );
    barrier(blobs);
    assert_eq!(contents(blobs, "roots/3"), b"three");
}

/// After the barrier, all readers see the new bytes, even those that read the old ones before.
pub(super) fn replacing(blobs: &dyn Blobs) {
    for round in 0..5 {
        let bytes = pattern(round, 1000 + round);
        put(blobs, "dir/blob", &bytes);
        barrier(blobs);
        assert!(
            contents(blobs, "dir/blob") == bytes,
            "bytes of round {round}"
        );
    }
}

/// Lists are sorted and contain only names of their own directory.
pub(super) fn names(blobs: &dyn Blobs) {
    assert!(blobs.list("dir").expect("list of no directory").is_empty());
    for name in ["dir/b", "dir/a", "dir/10", "dir/9", "dirx/c", "other/d"] {
        put(blobs, name, b"");
    }
    barrier(blobs);
    assert_eq!(blobs.list("dir").expect("list"), ["10", "9", "a", "b"]);
    assert_eq!(blobs.list("dirx").expect("list"), ["c"]);
    blobs.adopt("dir/a");
    barrier(blobs);
    barrier(blobs);
}

/// A deleted name is absent and can be used again.
pub(super) fn deleting(blobs: &dyn Blobs) {
    blobs
        .delete("dir/none")
        .expect("delete of no blob in no directory");
    barrier(blobs);
    put(blobs, "dir/blob", b"old");
    barrier(blobs);
    assert_eq!(contents(blobs, "dir/blob"), b"old");
    blobs.delete("dir/blob").expect("delete");
    fails(
        blobs.len("dir/blob"),
        Kind::NotFound,
        "len of a deleted blob",
    );
    assert!(
        blobs.list("dir").expect("list").is_empty(),
        "a deleted blob is not listed"
    );
    blobs.delete("dir/blob").expect("delete again");
    barrier(blobs);
    blobs
        .put("dir/blob", b"new".to_vec(), Put::IfAbsent)
        .expect("put of a deleted name");
    assert_eq!(contents(blobs, "dir/blob"), b"new");
    barrier(blobs);
}

/// The last put of a name wins, even without a barrier between them.
pub(super) fn the_last_of_a_name_wins(blobs: &dyn Blobs) {
    for round in 0..RACES {
        let name = format!("dir/{round}");
        for version in 0..4 {
            put(blobs, &name, &pattern(version, 5000 * (4 - version)));
        }
        put(blobs, "dir/gone", b"soon");
        blobs.delete("dir/gone").expect("delete after a put");
        barrier(blobs);
        assert!(
            contents(blobs, &name) == pattern(3, 5000),
            "the last put of {name}"
        );
        fails(
            blobs.len("dir/gone"),
            Kind::NotFound,
            "len after put and delete",
        );
    }
}

/// Sweeping deletes nothing that has a name.
pub(super) fn sweeping(blobs: &dyn Blobs) {
    blobs.sweep().expect("sweep of nothing");
    put(blobs, "dir/a", b"a");
    barrier(blobs);
    blobs.sweep().expect("sweep");
    assert_eq!(contents(blobs, "dir/a"), b"a");
    put(blobs, "dir/b", b"b");
    barrier(blobs);
    assert_eq!(contents(blobs, "dir/b"), b"b", "puts go on after a sweep");
}

/// Of many puts if absent of one name exactly one succeeds, and the name leads to its bytes.
pub(super) fn one_wins_a_name(blobs: &dyn Blobs) {
    for race in 0..RACES {
        let name = format!("roots/{race}");
        let winners = Mutex::new(Vec::new());
        let gate = Gate::new(RACERS);
        std::thread::scope(|scope| {
            for racer in 0..RACERS {
                let (name, winners, gate) = (&name, &winners, &gate);
                scope.spawn(move || {
                    let bytes = pattern(racer, 700);
                    gate.wait();
                    match blobs.put(name, bytes, Put::IfAbsent) {
                        Ok(()) => winners.lock().push(racer),
                        refused => fails(refused, Kind::Exists, "put that lost"),
                    }
                });
            }
        });
        let winners = winners.into_inner();
        assert_eq!(winners.len(), 1, "winners of {name}");
        assert!(
            contents(blobs, &name) == pattern(winners[0], 700),
            "the winner's bytes"
        );
    }
    barrier(blobs);
}

/// Many threads put, read and wait. Each finds everything that it put before its barrier.
pub(super) fn many_at_once(blobs: &dyn Blobs) {
    std::thread::scope(|scope| {
        for writer in 0..RACERS {
            scope.spawn(move || {
                for round in 0..RACES {
                    let name = |number: usize| format!("dir.{}/{writer}.{number}", number % 3);
                    put(blobs, &name(round), &pattern(writer + round, 2000));
                    if round % 5 == 4 {
                        barrier(blobs);
                        for number in 0..=round {
                            let found = contents(blobs, &name(number));
                            assert!(found == pattern(writer + number, 2000), "a blob at once");
                        }
                    }
                }
            });
        }
    });
}

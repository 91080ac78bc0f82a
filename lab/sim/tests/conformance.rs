//! Runs the media suites on every implementation, and on liars, which must fail.
//! `cargo test -p sim` runs it.
//!
//! Invariant: a suite that no liar fails proves nothing.

use crate::liar;

use liar::{BlobLie, Liar, Lie, LyingBlobs};
use media::{Blobs, DirBlobs, Disk, LocalDisk, Syncing};
use sim::SimDisk;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::conformance::media::{blobs_suite, disk_suite};

const THREADS: Syncing = Syncing::Threads {
    threads: 3,
    queue: 4,
};

/// Temporary directories, removed at the end.
struct Temporary(PathBuf, AtomicUsize);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("quintet-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name), AtomicUsize::new(0))
    }

    fn disk(&self) -> Arc<dyn Disk> {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        let disk = LocalDisk::new(self.0.join(format!("pools/{number}")));
        disk.create_top().expect("a directory for the test");
        Arc::new(disk)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sim() -> Arc<dyn Disk> {
    SimDisk::new()
}

fn blobs(disk: Arc<dyn Disk>, syncing: Syncing) -> Box<dyn Blobs> {
    Box::new(DirBlobs::new(disk, syncing))
}

#[test]
fn local_disk() {
    let temporary = Temporary::new("disk");
    disk_suite(&|| temporary.disk());
}

#[test]
fn sim_disk() {
    disk_suite(&sim);
}

#[test]
fn dir_blobs_inline() {
    let temporary = Temporary::new("inline");
    blobs_suite(&|| blobs(temporary.disk(), Syncing::Inline));
    blobs_suite(&|| blobs(sim(), Syncing::Inline));
}

#[test]
fn dir_blobs_with_threads() {
    let temporary = Temporary::new("threads");
    blobs_suite(&|| blobs(temporary.disk(), THREADS));
    blobs_suite(&|| blobs(sim(), THREADS));
}

fn refuses(suite: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(suite)).is_err()
}

#[test]
fn disk_liars_are_found() {
    disk_suite(&|| Liar::over(sim(), Lie::None));
    for lie in Lie::ALL {
        let found = refuses(|| disk_suite(&|| Liar::over(sim(), lie)));
        assert!(found, "{lie:?} passes");
    }
}

#[test]
fn blob_liars_are_found() {
    let honest = || blobs(sim(), THREADS);
    blobs_suite(&|| Box::new(LyingBlobs(honest(), BlobLie::None)));
    for lie in BlobLie::ALL {
        let found = refuses(|| blobs_suite(&|| Box::new(LyingBlobs(honest(), lie))));
        assert!(found, "{lie:?} passes");
    }
    // A disk whose lie the blobs cannot hide.
    for lie in [Lie::RenameReplaces, Lie::ReadsPastTheEnd, Lie::ListUnsorted] {
        let found = refuses(|| blobs_suite(&|| blobs(Liar::over(sim(), lie), Syncing::Inline)));
        assert!(found, "{lie:?} passes below blobs");
    }
}

#[test]
fn local_disk_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = Temporary::new("private");
    let disk = temporary.disk();
    disk.make_dir("d").unwrap();
    disk.open("d/f", true).unwrap();
    disk.create_new("d/g").unwrap();
    drop(disk.lock("lock").unwrap());
    let top = temporary.0.join("pools/0");
    for (path, mode) in [
        ("", 0o700),
        ("d", 0o700),
        ("d/f", 0o600),
        ("d/g", 0o600),
        ("lock", 0o600),
    ] {
        let found = std::fs::metadata(top.join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(found, mode, "{path:?} has {found:o}");
    }
}

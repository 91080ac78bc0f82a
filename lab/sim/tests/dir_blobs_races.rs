//! `DirBlobs` between two of its own steps, while other threads act. `cargo test -p sim` runs it.
//!
//! Invariant: a hook in the disk forces each race; nothing depends on luck.

use media::{Barrier, Blobs, DirBlobs, Disk, DiskFile, DiskLayer, MediaError, Put, Syncing};
use parking_lot::{Condvar, Mutex};
use sim::SimDisk;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

type Hook = Box<dyn Fn() + Send + Sync>;

/// A disk that calls a hook after a file was opened for reading, and before a directory is synced.
#[derive(Default)]
struct Hooked {
    disk: OnceLock<Arc<SimDisk>>,
    opened: OnceLock<Hook>,
    syncing: OnceLock<Hook>,
}

impl Hooked {
    fn new() -> Arc<Self> {
        let hooked = Self::default();
        let _ = hooked.disk.set(SimDisk::new());
        Arc::new(hooked)
    }

    fn disk(&self) -> &SimDisk {
        self.disk.get().unwrap()
    }
}

impl DiskLayer for Hooked {
    fn below(&self) -> &dyn Disk {
        self.disk()
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = self.disk().open_read(path)?;
        if let Some(hook) = self.opened.get() {
            hook();
        }
        Ok(file)
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        if let Some(hook) = self.syncing.get() {
            hook();
        }
        self.disk().sync_dir(dir, point)
    }
}

#[test]
fn a_reader_does_not_keep_what_was_replaced_meanwhile() {
    let disk = Hooked::new();
    let blobs = Arc::new(DirBlobs::new(disk.clone(), Syncing::Inline));
    blobs.put("dir/a", b"old".to_vec(), Put::Replace).unwrap();
    let (other, once) = (Arc::downgrade(&blobs), AtomicBool::new(true));
    let replace = move || {
        if once.swap(false, Ordering::Relaxed) {
            let blobs = other.upgrade().unwrap();
            blobs.put("dir/a", b"new".to_vec(), Put::Replace).unwrap();
        }
    };
    let _ = disk.opened.set(Box::new(replace));
    // This read may see either; later ones may not.
    blobs.read("dir/a", 10).unwrap();
    assert_eq!(blobs.read("dir/a", 10).unwrap(), b"new");
}

#[test]
fn a_barrier_does_not_return_while_another_syncs_its_names() {
    let disk = Hooked::new();
    let blobs = DirBlobs::new(disk.clone(), Syncing::Inline);
    blobs.put("dir/a", b"a".to_vec(), Put::Replace).unwrap();
    // The first barrier stops before its sync until the gate opens.
    let gate = Arc::new((Mutex::new((false, false)), Condvar::new()));
    let hook = {
        let gate = Arc::clone(&gate);
        move || {
            let (state, changed) = &*gate;
            let mut state = state.lock();
            state.0 = true;
            changed.notify_all();
            changed.wait_while(&mut state, |(_, go)| !*go);
        }
    };
    let _ = disk.syncing.set(Box::new(hook));
    let second_is_back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| blobs.barrier(Barrier::ContainersBeforeRoot));
        let (state, changed) = &*gate;
        changed.wait_while(&mut state.lock(), |(syncing, _)| !*syncing);
        let second = scope.spawn(|| {
            let result = blobs.barrier(Barrier::ContainersBeforeRoot);
            second_is_back.store(true, Ordering::SeqCst);
            result
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        let too_early = second_is_back.load(Ordering::SeqCst);
        state.lock().1 = true;
        changed.notify_all();
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
        assert!(!too_early, "the second barrier did not wait");
    });
}

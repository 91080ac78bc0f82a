//! Cache of decoded directories of snapshots, by their contents. The mounts of a server share one.
//!
//! Invariant: only verified directories are cached. Their memory stays within the budget, or is one
//! directory. A directory that is unchanged in many snapshots is cached once. Eviction is CLOCK.

use format::recipe::ObjectRoot;
use format::tree::Directory;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::{Reader, StoreError};

/// Size limit of a directory object, bytes: the same as in the read path.
const DIRECTORY_BYTES_MAX: u64 = 1 << 30;
/// Memory of a cached directory besides its own, bytes.
const OVERHEAD_BYTES: usize = 256;

struct CachedDirectory {
    root: ObjectRoot,
    directory: Arc<Directory>,
    used: AtomicBool,
}

impl CachedDirectory {
    fn bytes(&self) -> usize {
        self.directory.memory_bytes() + OVERHEAD_BYTES
    }
}

#[derive(Default)]
struct Ring {
    by_root: HashMap<ObjectRoot, Arc<CachedDirectory>>,
    order: VecDeque<Arc<CachedDirectory>>,
    bytes: usize,
}

/// The cache.
pub struct Directories {
    reader: Arc<Reader>,
    bytes_max: usize,
    ring: Mutex<Ring>,
}

impl Directories {
    /// Creates a cache of `bytes_max` bytes that reads with `reader`.
    pub fn new(reader: Arc<Reader>, bytes_max: usize) -> Self {
        Self {
            reader,
            bytes_max,
            ring: Mutex::default(),
        }
    }

    /// Returns a cached directory.
    pub fn cached(&self, root: &ObjectRoot) -> Option<Arc<Directory>> {
        let ring = self.ring.lock();
        let kept = ring.by_root.get(root)?;
        kept.used.store(true, Relaxed);
        Some(Arc::clone(&kept.directory))
    }

    /// Returns a directory, reading it if it is not cached.
    pub fn get(&self, root: &ObjectRoot) -> Result<Arc<Directory>, StoreError> {
        if let Some(directory) = self.cached(root) {
            return Ok(directory);
        }
        let bytes = self.reader.read_whole(root, DIRECTORY_BYTES_MAX)?;
        let directory = Directory::new(bytes);
        let directory = directory
            .map_err(|e| StoreError::corruption("directory object", root.fingerprint, e))?;
        let directory = Arc::new(directory);
        self.keep(*root, &directory);
        Ok(directory)
    }

    fn keep(&self, root: ObjectRoot, directory: &Arc<Directory>) {
        let kept = Arc::new(CachedDirectory {
            root,
            directory: Arc::clone(directory),
            used: AtomicBool::new(false),
        });
        let mut ring = self.ring.lock();
        if ring.by_root.contains_key(&root) {
            // Another thread has read the same directory meanwhile.
            return;
        }
        ring.bytes += kept.bytes();
        ring.by_root.insert(root, Arc::clone(&kept));
        ring.order.push_back(kept);
        while ring.bytes > self.bytes_max && ring.order.len() > 1 {
            let Some(oldest) = ring.order.pop_front() else {
                break;
            };
            if oldest.used.swap(false, Relaxed) {
                ring.order.push_back(oldest);
            } else {
                ring.bytes -= oldest.bytes();
                ring.by_root.remove(&oldest.root);
            }
        }
    }
}

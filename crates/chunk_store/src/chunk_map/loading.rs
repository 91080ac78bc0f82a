//! Loads directories: from memory, from a copy on a faster device, or from the container. The chunk
//! map calls this.
//!
//! Invariant: a directory from a copy was verified as one from the container is, against the header
//! that the container has now. A copy that fails this is forgotten, and the container is read. So
//! the container exists, or existed when its header was read, and writes may rely on the answer as
//! they do on a directory in memory.

use super::{ChunkMap, LoadedDirectory, count};
use crate::container::{Contents, Shape};
use crate::error::Result;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Copies of container directories on a faster device, by name. `read_path` implements it over the
/// fast tier. They may be lost, damaged or out of date at any time. No method fails.
pub trait DirectoryCopies: Send + Sync {
    /// Returns the bytes that were kept under this name. `None` if there are none, or if the read
    /// that this thread makes is not to have them.
    fn find(&self, name: &Fingerprint) -> Option<Vec<u8>>;

    /// Called with the copy of a sound directory that was read from its container.
    fn keep(&self, name: &Fingerprint, copy: &[u8]);

    /// Forgets a copy that was wrong.
    fn reject(&self, name: &Fingerprint);

    /// Forgets the copy of a container that is deleted.
    fn forget(&self, name: &Fingerprint);
}

impl ChunkMap {
    /// Sets where copies of directories are. Only the first call has an effect.
    pub fn use_directory_copies(&self, copies: impl DirectoryCopies + 'static) {
        let _ = self.copies.set(Box::new(copies));
    }

    /// Forgets the copies of the directories of deleted containers.
    pub fn forget_directory_copies(&self, deleted: impl IntoIterator<Item = ContainerId>) {
        if let Some(copies) = self.copies.get() {
            let names = deleted.into_iter();
            names.for_each(|id| copies.forget(&self.containers.name_of_copy(id)));
        }
    }

    /// Returns the directory of a container if it is in memory.
    pub fn directory_in_memory(&self, id: ContainerId) -> Option<Arc<LoadedDirectory>> {
        self.cache.lock().get(id)
    }

    /// Returns the directory of a container, from memory or read and verified. Single-flight: if
    /// another thread is reading it, this waits.
    pub fn directory(&self, id: ContainerId) -> Result<Arc<LoadedDirectory>> {
        let mut cache = self.cache.lock();
        loop {
            if let Some(directory) = cache.get(id) {
                return Ok(directory);
            }
            if cache.loading.insert(id) {
                break;
            }
            self.loaded.wait(&mut cache);
        }
        drop(cache);
        let _loading = Loading { map: self, id };
        let contents = match self.copies.get() {
            Some(copies) => self.load_by(id, &**copies)?,
            None => {
                count(&self.counters.directory_reads);
                self.containers.contents(id)?
            }
        };
        let directory = Arc::new(LoadedDirectory::new(
            id,
            contents.class,
            &contents.directory,
        ));
        self.cache.lock().keep(Arc::clone(&directory));
        Ok(directory)
    }

    /// Takes the copy if there is one. Otherwise reads the container, and offers a copy. The header
    /// comes from the container, or from memory.
    fn load_by(&self, id: ContainerId, copies: &dyn DirectoryCopies) -> Result<Contents> {
        let shape = self.containers.shape(id)?;
        let name = self.containers.name_of_copy(id);
        if let Some(contents) = self.by_copy(&shape, &name, copies) {
            return Ok(contents);
        }
        count(&self.counters.directory_reads);
        let (contents, copy) = self.containers.contents_and_copy(&shape)?;
        if let Some(copy) = copy {
            copies.keep(&name, &copy);
        }
        Ok(contents)
    }

    fn by_copy(
        &self,
        shape: &Shape,
        name: &Fingerprint,
        copies: &dyn DirectoryCopies,
    ) -> Option<Contents> {
        let copy = copies.find(name)?;
        if let Ok(contents) = self.containers.contents_by_copy(shape, &copy) {
            count(&self.counters.directory_copies);
            return Some(contents);
        }
        count(&self.counters.bad_directory_copies);
        copies.reject(name);
        None
    }
}

/// A directory that is being read. Its drop wakes the waiting threads, also after an error.
struct Loading<'a> {
    map: &'a ChunkMap,
    id: ContainerId,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.map.cache.lock().loading.remove(&self.id);
        self.map.loaded.notify_all();
    }
}

//! A disk whose requests are given up after a time. The server's fast tier lies on one: a device
//! that hangs must not take along what the pool could answer.
//!
//! ```text
//! caller -> queue -> thread -> disk
//!    \__ waits, at most so long __/
//! ```
//!
//! Two changes of thread cost more than a fast device takes for a read. So reads past the cache go
//! around the threads where the file can give them up itself.
//!
//! Invariant: no caller waits longer than the limit of its request. A request that was given up
//! still ends some time, and what it wrote may have arrived or not. While one is late, all others
//! fail at once, so that a hang costs a caller one limit, not one for each request.

use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, TimedRead};
use std::sync::Arc;
use std::time::Duration;
use units::Part;

mod threads;

use threads::{Late, Threads};

/// How long requests may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Reads of files.
    pub reads: Duration,
    /// All else: opening, writing, syncs, names.
    pub others: Duration,
}

/// See the module's head.
pub struct PatientDisk(Patient<dyn Disk>);

/// A disk or a file, before which threads stand.
struct Patient<T: ?Sized> {
    below: Arc<T>,
    threads: Arc<Threads>,
    patience: Patience,
}

impl<T: ?Sized + Send + Sync + 'static> Patient<T> {
    /// Executes `work` on another thread. `operation` and `path` are for the message.
    fn within<R: Send + 'static>(
        &self,
        limit: Duration,
        (operation, path): (&'static str, &str),
        work: impl FnOnce(&T) -> Result<R, MediaError> + Send + 'static,
    ) -> Result<R, MediaError> {
        let below = Arc::clone(&self.below);
        let done = self.threads.within(limit, move || work(&*below));
        done.map_err(|late| late.error(operation, path))?
    }
}

impl PatientDisk {
    /// Puts threads before a disk. They start when they are first needed.
    pub fn new(below: Arc<dyn Disk>, patience: Patience) -> Self {
        Self(Patient {
            below,
            threads: Arc::default(),
            patience,
        })
    }

    fn within<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &str,
        work: impl FnOnce(&dyn Disk, &str) -> Result<T, MediaError> + Send + 'static,
    ) -> Result<T, MediaError> {
        let (disk, name) = (&self.0, path.to_owned());
        let limit = disk.patience.others;
        disk.within(limit, (operation, path), move |below| work(below, &name))
    }

    fn patient(&self, path: &str, below: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let Patient {
            threads, patience, ..
        } = &self.0;
        Arc::new(PatientFile {
            file: Patient {
                below,
                threads: Arc::clone(threads),
                patience: *patience,
            },
            path: path.to_owned(),
        })
    }
}

fn prepared(
    opened: Result<Arc<dyn DiskFile>, MediaError>,
) -> Result<Arc<dyn DiskFile>, MediaError> {
    opened.inspect(|file| file.prepare_reads_within())
}

impl Disk for PatientDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let opened = self.within("open", path, move |disk, path| {
            prepared(disk.open(path, create))
        })?;
        Ok(self.patient(path, opened))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let created = self.within("create", path, |disk, path| prepared(disk.create_new(path)))?;
        Ok(self.patient(path, created))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let opened = self.within("open", path, |disk, path| prepared(disk.open_read(path)))?;
        Ok(self.patient(path, opened))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let to = to.to_owned();
        self.within("rename", from, move |disk, from| disk.rename(from, &to))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let to = to.to_owned();
        self.within("rename", from, move |disk, from| disk.rename_new(from, &to))
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        self.within("remove", path, |disk, path| disk.remove(path))
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        self.within("list", dir, |disk, dir| disk.list(dir))
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        self.within("make", dir, |disk, dir| disk.make_dir(dir))
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        self.within("sync", dir, move |disk, dir| disk.sync_dir(dir, point))
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        self.within("lock", path, |disk, path| disk.lock(path))
    }
}

struct PatientFile {
    file: Patient<dyn DiskFile>,
    path: String,
}

impl PatientFile {
    fn within<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&(dyn DiskFile + 'static)) -> Result<T, MediaError> + Send + 'static,
    ) -> Result<T, MediaError> {
        let limit = self.file.patience.others;
        self.file.within(limit, (operation, &self.path), work)
    }

    fn read(
        &self,
        limit: Duration,
        into: &mut [u8],
        read: impl FnOnce(&dyn DiskFile, &mut [u8]) -> Result<(), MediaError> + Send + 'static,
    ) -> Result<(), MediaError> {
        // The caller may have left with its own buffer when the device answers.
        let mut bytes = vec![0; into.len()];
        let bytes = self.file.within(limit, ("read", &self.path), move |file| {
            read(file, &mut bytes).map(|()| bytes)
        })?;
        into.copy_from_slice(bytes.part(..into.len())?);
        Ok(())
    }
}

impl DiskFile for PatientFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let limit = self.file.patience.reads;
        self.read(limit, into, move |file, into| file.read_at(offset, into))
    }

    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let Patient {
            below,
            threads,
            patience,
        } = &self.file;
        let limit = patience.reads;
        let error = |late: Late| late.error("read", &self.path);
        threads.is_answering(limit).map_err(error)?;
        match below.read_at_past_cache_within(offset, into, limit) {
            TimedRead::Done => Ok(()),
            TimedRead::Late(running) => {
                threads.end(running);
                Err(error(Late(limit)))
            }
            TimedRead::Unable(left) => self.read(left, into, move |file, into| {
                file.read_at_past_cache(offset, into)
            }),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let data = data.to_vec();
        self.within("write", move |file| file.write_at(offset, &data))
    }

    fn write_at_past_cache(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let data = data.to_vec();
        self.within("write", move |file| file.write_at_past_cache(offset, &data))
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.within("ask for the length of", |file| file.len())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.within("cut", move |file| file.set_len(len))
    }

    fn give_back(&self, len: u64) -> Result<(), MediaError> {
        self.within("cut", move |file| file.give_back(len))
    }

    fn will_be_overwritten(&self) {
        // Only advice: no error matters.
        let _ = self.within("advise", |file| {
            file.will_be_overwritten();
            Ok(())
        });
    }

    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        self.within("allocate", move |file| file.allocate(len))
    }

    fn claim(&self, len: u64) -> Result<bool, MediaError> {
        self.within("allocate", move |file| file.claim(len))
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.within("sync", move |file| file.sync(point))
    }
}

#[cfg(test)]
mod tests;

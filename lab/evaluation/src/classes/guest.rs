//! The host of a load: memory, file system, files, and the kernel's work by time.
//!
//! `loads` calls this.
//! Invariant: the kernel commits the file system's journal every [`Settings::commit`] and writes
//! metadata in place [`EXPIRE`] after its first commit, beside the clients. Both times are divided
//! as sizes are, so that a commit has the same share of the inodes as at full size.

use super::files::{File, ModelFileSystem};
use super::host::{Host, Io};
use super::settings::Settings;
use super::storage::{Operations, Storage};
use crate::disk::{Ns, SECOND};
use sim::Seed;
use std::cell::RefCell;
use store::Result;

/// `dirty_expire_centisecs` of Linux.
const EXPIRE: Ns = 30 * SECOND;

/// See the module's head.
pub struct Guest {
    /// Draws what the load asks for.
    pub seed: Seed,
    /// Memory.
    pub host: Host,
    /// File system.
    pub system: ModelFileSystem,
    /// Its files.
    pub files: Vec<File>,
    /// Operations of clients so far.
    pub operations: u64,
    commit: Ns,
    expire: Ns,
    commits_at: Ns,
}

impl Guest {
    /// Starts with an empty file system.
    pub fn new(seed: Seed, host: Host, system: ModelFileSystem, settings: &Settings) -> Self {
        Self {
            seed,
            host,
            system,
            files: Vec::new(),
            operations: 0,
            commit: settings.commit / settings.divide,
            expire: EXPIRE / settings.divide,
            commits_at: 0,
        }
    }

    /// Returns the parts, with the storage behind the memory.
    pub fn io<'a>(
        &'a mut self,
        storage: &'a mut dyn Storage,
    ) -> (&'a mut ModelFileSystem, Io<'a>, &'a mut Vec<File>) {
        let io = Io {
            host: &mut self.host,
            storage,
        };
        (&mut self.system, io, &mut self.files)
    }

    /// Writes all that is dirty: `sync`.
    pub fn settle(&mut self, storage: &mut dyn Storage) -> Result<()> {
        let now = storage.world().now();
        let (system, mut io, _) = self.io(storage);
        system.commit(&mut io, now)?;
        system.write_back(&mut io, Ns::MAX)?;
        io.sync()
    }

    /// Does what the kernel has to do now. Returns false if that is nothing.
    pub fn kernel(&mut self, storage: &mut dyn Storage) -> Result<bool> {
        let now = storage.world().now();
        if now < self.commits_at {
            return Ok(false);
        }
        self.commits_at = now + self.commit;
        let expired = now.saturating_sub(self.expire);
        let (system, mut io, _) = self.io(storage);
        system.commit(&mut io, now)?;
        if expired > 0 {
            system.write_back(&mut io, expired)?;
            io.sync()?;
        }
        Ok(true)
    }

    /// Makes a file.
    pub fn create(&mut self, storage: &mut dyn Storage, directory: u64, size: u64) -> Result<()> {
        let (system, mut io, files) = self.io(storage);
        files.push(system.create(&mut io, directory as usize, size)?);
        Ok(())
    }

    /// Deletes a file that is not among the files any more.
    pub fn delete(&mut self, storage: &mut dyn Storage, file: &File) -> Result<()> {
        let (system, mut io, _) = self.io(storage);
        system.delete(&mut io, file)
    }

    /// Reads a file.
    pub fn read(&mut self, storage: &mut dyn Storage, nth: usize) -> Result<()> {
        let (system, mut io, files) = self.io(storage);
        match files.get(nth) {
            Some(file) => system.read(&mut io, file),
            None => Ok(()),
        }
    }

    /// Appends to a file.
    pub fn append(&mut self, storage: &mut dyn Storage, nth: usize, bytes: u64) -> Result<()> {
        let (system, mut io, files) = self.io(storage);
        match files.get_mut(nth) {
            Some(file) => system.append(&mut io, file, bytes),
            None => Ok(()),
        }
    }

    /// Returns any file, by number.
    pub fn any_file(&mut self) -> usize {
        self.seed.below(self.files.len() as u64) as usize
    }

    /// Returns any directory.
    pub fn any_directory(&mut self) -> u64 {
        self.seed.below(self.system.directories())
    }
}

/// Operations of a part of a load: the code, by number of the operation.
pub struct LoadPart<'a, F> {
    guest: &'a RefCell<Guest>,
    nth: u64,
    code: F,
}

impl<'a, F> LoadPart<'a, F> {
    /// Begins with operation 0.
    pub fn new(guest: &'a RefCell<Guest>, code: F) -> Self {
        let nth = 0;
        Self { guest, nth, code }
    }
}

impl<F> Operations for LoadPart<'_, F>
where
    F: FnMut(&mut Guest, &mut dyn Storage, u64) -> Result<bool>,
{
    fn next(&mut self, storage: &mut dyn Storage) -> Result<bool> {
        let mut guest = self.guest.borrow_mut();
        let has_more = (self.code)(&mut guest, storage, self.nth)?;
        self.nth += 1;
        guest.operations += u64::from(has_more);
        Ok(has_more)
    }

    fn kernel(&mut self, storage: &mut dyn Storage) -> Result<bool> {
        self.guest.borrow_mut().kernel(storage)
    }
}

#[cfg(test)]
mod tests {
    use super::super::conventional::Conventional;
    use super::*;
    use crate::rooms::world::World;

    fn disks(settings: &Settings) -> Conventional {
        let world = World::new(settings.array(1 << 30), settings.ssd);
        Conventional::new(world, *settings, 0)
    }

    fn guest(settings: &Settings) -> Guest {
        let system = ModelFileSystem::new(256 << 20, 2, 1024);
        Guest::new(Seed::new(1), Host::new(4096), system, settings)
    }

    /// Returns the sizes of the requests since the last call, blocks.
    fn requests(disks: &mut Conventional) -> Vec<u64> {
        let charges = disks.take().into_iter().flatten().flatten();
        charges
            .map(|charge| charge.bytes / super::super::storage::BLOCK)
            .collect()
    }

    #[test]
    fn files_are_read_in_windows_that_grow() {
        let settings = Settings::FULL;
        let (mut disks, mut guest) = (disks(&settings), guest(&settings));
        guest.create(&mut disks, 0, 400 << 10).expect("a file");
        guest.settle(&mut disks).expect("a sync");
        guest.host = Host::new(4096);
        requests(&mut disks);
        guest.read(&mut disks, 0).expect("a read");
        // A block of the directory, the inode, the indirect block; then 100 blocks of data.
        assert_eq!(requests(&mut disks), [1, 1, 1, 4, 8, 16, 32, 32, 8]);
    }

    #[test]
    fn the_kernel_commits_by_time_and_reads_dirty_inodes() {
        let settings = Settings {
            divide: 1,
            ..Settings::FULL
        };
        let (mut disks, mut guest) = (disks(&settings), guest(&settings));
        let mut after = |guest: &mut Guest, seconds| {
            disks.world().rest(seconds * SECOND);
            let before = disks.counts().special;
            guest.create(&mut disks, 0, 4096).expect("a file");
            assert!(guest.kernel(&mut disks).expect("no failure") == (seconds >= 5));
            guest.read(&mut disks, 0).expect("a read");
            disks.counts().special - before
        };
        assert!(after(&mut guest, 5) > 0);
        assert_eq!(after(&mut guest, 1), 0, "the running transaction is kept");
        let committed = after(&mut guest, 5);
        let in_place = after(&mut guest, 31) - committed;
        assert!(in_place > 0, "{committed}, {in_place}");
        // Reading alone dirties the inode, unless access times are off.
        for updates_atime in [true, false] {
            guest.settle(&mut disks).expect("a sync");
            guest.system.updates_atime = updates_atime;
            guest.read(&mut disks, 0).expect("a read");
            let before = disks.counts().written;
            guest.settle(&mut disks).expect("a sync");
            assert_eq!(disks.counts().written > before, updates_atime);
        }
    }
}

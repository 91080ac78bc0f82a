//! A file system like ext3 or ext4: block groups with bitmaps and inode tables, directories, a
//! journal, and files with indirect blocks.
//!
//! `guest` calls this. Blocks of 4 KiB, 8,192 inodes of 256 bytes a group (e2fsprogs since 1.40.5,
//! 2008). Blocks and inodes of deleted files are used again. A read updates the file's access time,
//! as kernels before 2.6.30 do without `noatime`.
//! Invariant: every request says what its blocks contain, as `disk_layout` would.

use super::host::Io;
use super::storage::BLOCK;
use crate::disk::Ns;
use classes::Contents;
use sim::Seed;
use std::collections::{BTreeMap, BTreeSet};
use store::Result;

/// Blocks of a group.
pub const GROUP: u64 = 32_768;
const INODES_PER_GROUP: u64 = 8192;
/// 256 bytes each.
const INODES_PER_BLOCK: u64 = 16;
const TABLE: u64 = INODES_PER_GROUP / INODES_PER_BLOCK;
/// Superblock copy, descriptors, two bitmaps, inode table.
const DATA_FROM: u64 = 4 + TABLE;
const ENTRIES_PER_BLOCK: u64 = 100;
/// Blocks of a file before the first indirect block, and blocks that each of those adds.
const DIRECT: u64 = 12;
const PER_INDIRECT: u64 = 1024;
/// First and largest window of the kernel's read-ahead, blocks: 16 and 128 KiB, each twice the one
/// before (`mm/readahead.c`).
const READ_AHEAD: (u64, u64) = (4, 32);

/// A file: where it lies, and its metadata.
#[derive(Clone, Debug)]
pub struct File {
    size_bytes: u64,
    inode: u64,
    directory: usize,
    entry_block: u64,
    /// Data: first block and length of each run.
    runs: Vec<(u64, u64)>,
    indirect: Vec<u64>,
}

/// A directory.
#[derive(Clone, Debug)]
struct Directory {
    group: u64,
    /// `None` before it is made.
    inode: Option<u64>,
    blocks: Vec<u64>,
    entries: u64,
}

/// See the module's head.
pub struct ModelFileSystem {
    groups: u64,
    /// Free blocks of each group: first block of each run, and its length.
    free: Vec<BTreeMap<u64, u64>>,
    /// Next inode of each group that was never used, and inodes of deleted files.
    next_inode: Vec<u64>,
    free_inodes: Vec<u64>,
    directories: Vec<Directory>,
    journal_blocks: u64,
    journal_at: u64,
    /// Reads update access times.
    pub updates_atime: bool,
    /// Metadata of the running transaction; committed metadata that is not in place yet, with the
    /// time of its first commit.
    running: BTreeSet<(u64, bool)>,
    committed: BTreeMap<(u64, bool), Ns>,
}

impl ModelFileSystem {
    /// Makes a file system with at least this many bytes of space, and directories spread over it.
    pub fn new(bytes: u64, directories: u64, journal_blocks: u64) -> Self {
        let groups = bytes.div_ceil(GROUP * BLOCK).max(4) + 1;
        let mut made = Self {
            groups,
            free: vec![BTreeMap::from([(DATA_FROM, GROUP - DATA_FROM)]); groups as usize],
            next_inode: vec![0; groups as usize],
            free_inodes: Vec::new(),
            directories: Vec::new(),
            journal_blocks: journal_blocks.clamp(64, GROUP),
            journal_at: 0,
            updates_atime: true,
            running: BTreeSet::new(),
            committed: BTreeMap::new(),
        };
        // The journal is group 0.
        made.free[0].clear();
        for nth in 0..directories {
            let group = 1 + nth * (groups - 1) / directories.max(1);
            made.directories.push(Directory {
                group,
                inode: None,
                blocks: Vec::new(),
                entries: 0,
            });
        }
        made
    }

    /// Takes blocks, near `group` if there are some.
    fn allocate(&mut self, group: u64, mut count: u64) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        for step in 0..self.groups {
            let number = (group + step) % self.groups;
            let free = &mut self.free[number as usize];
            while count > 0
                && let Some((first, len)) = free.pop_first()
            {
                let taken = count.min(len);
                runs.push((number * GROUP + first, taken));
                if taken < len {
                    free.insert(first + taken, len - taken);
                }
                count -= taken;
                self.running.insert((number * GROUP + 2, false));
            }
            if count == 0 {
                break;
            }
        }
        runs
    }

    /// Gives blocks back.
    fn release(&mut self, first: u64, count: u64) {
        let (number, mut first, mut count) = (first / GROUP, first % GROUP, count);
        let free = &mut self.free[number as usize];
        if let Some((before, len)) = free.range(..first).next_back().map(|(a, b)| (*a, *b))
            && before + len == first
        {
            free.remove(&before);
            (first, count) = (before, count + len);
        }
        if let Some(after) = free.remove(&(first + count)) {
            count += after;
        }
        free.insert(first, count);
        self.running.insert((number * GROUP + 2, false));
    }

    /// Size of the file system, bytes.
    pub fn bytes(&self) -> u64 {
        self.groups * GROUP * BLOCK
    }

    fn inode_block(inode: u64) -> u64 {
        let (group, nth) = (inode / INODES_PER_GROUP, inode % INODES_PER_GROUP);
        group * GROUP + 4 + nth / INODES_PER_BLOCK
    }

    /// Returns the number of directories.
    pub fn directories(&self) -> u64 {
        self.directories.len() as u64
    }

    fn new_inode(&mut self, group: u64) -> u64 {
        let inode = self.free_inodes.pop().unwrap_or_else(|| {
            let mut groups = (0..self.groups).map(|step| (group + step) % self.groups);
            let has_inode = |n: &u64| self.next_inode[*n as usize] < INODES_PER_GROUP;
            let number = groups.find(has_inode).unwrap_or(group);
            let nth = self.next_inode[number as usize];
            self.next_inode[number as usize] += 1;
            number * INODES_PER_GROUP + nth % INODES_PER_GROUP
        });
        self.running.insert((Self::inode_bitmap(inode), false));
        self.running.insert((Self::inode_block(inode), false));
        inode
    }

    fn inode_bitmap(inode: u64) -> u64 {
        inode / INODES_PER_GROUP * GROUP + 3
    }

    /// Makes a directory that is not there yet, and a block for more names if it is full.
    fn grow(&mut self, directory: usize) {
        let of = &self.directories[directory];
        let (group, is_new) = (of.group, of.inode.is_none());
        if of.entries >= of.blocks.len() as u64 * ENTRIES_PER_BLOCK {
            let block = self.allocate(group, 1);
            let of = &mut self.directories[directory];
            of.blocks.extend(block.iter().map(|run| run.0));
        }
        if is_new {
            let inode = self.new_inode(group);
            self.directories[directory].inode = Some(inode);
        }
    }

    /// Notes that a directory has changed: its inode has other times.
    fn touch(&mut self, directory: usize) {
        if let Some(inode) = self.directories[directory].inode {
            self.running.insert((Self::inode_block(inode), false));
        }
    }

    /// Gives a file its places, without requests.
    pub fn prepare(&mut self, directory: usize, size_bytes: u64) -> File {
        self.grow(directory);
        let group = self.directories[directory].group;
        let inode = self.new_inode(group);
        let of = &mut self.directories[directory];
        of.entries += 1;
        // The hash of the name says which block has it (`dir_index`).
        let nth = Seed::new(inode).below(of.blocks.len().max(1) as u64);
        let entry_block = of.blocks.get(nth as usize).copied().unwrap_or(0);
        let blocks = size_bytes.div_ceil(BLOCK);
        let mut file = File {
            size_bytes,
            inode,
            directory,
            entry_block,
            indirect: Vec::new(),
            runs: Vec::new(),
        };
        self.extend(&mut file, blocks);
        file
    }

    /// Gives a file blocks, and the indirect blocks that it needs for those.
    fn extend(&mut self, file: &mut File, blocks: u64) {
        let group = self.directories[file.directory].group;
        let all = file.runs.iter().map(|run| run.1).sum::<u64>() + blocks;
        let indirect = all.saturating_sub(DIRECT).div_ceil(PER_INDIRECT);
        let more = indirect.saturating_sub(file.indirect.len() as u64);
        let more = self.allocate(group, more).into_iter();
        file.indirect
            .extend(more.flat_map(|(first, count)| first..first + count));
        let runs = self.allocate(group, blocks);
        file.runs.extend(runs);
    }

    /// Returns the order in which a program finds the files: by directory, then by the hashes of
    /// their names.
    pub fn listing(files: &[File]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|nth| {
            let file = &files[*nth];
            (file.directory, Seed::new(file.inode).draw())
        });
        order
    }

    /// Makes a file and writes it.
    pub fn create(&mut self, io: &mut Io<'_>, directory: usize, size_bytes: u64) -> Result<File> {
        let file = self.prepare(directory, size_bytes);
        self.enter(io, &file)?;
        Self::part(io, &file, (0, file.blocks()), true)?;
        Ok(file)
    }

    /// Makes the metadata of a file that has its places.
    pub fn enter(&mut self, io: &mut Io<'_>, file: &File) -> Result<()> {
        io.read(Self::inode_bitmap(file.inode), 1, Contents::Metadata)?;
        Self::look_up(io, file)?;
        self.touch(file.directory);
        self.running.insert((file.entry_block, true));
        let indirect = file.indirect.iter().map(|block| (*block, false));
        self.running.extend(indirect);
        Ok(())
    }

    /// Reads or writes blocks of a file, in one request where they are together.
    pub fn part(
        io: &mut Io<'_>,
        file: &File,
        (from, count): (u64, u64),
        is_write: bool,
    ) -> Result<()> {
        let mut nth = 0;
        for (first, blocks) in &file.runs {
            let begin = from.clamp(nth, nth + blocks);
            let end = (from + count).clamp(nth, nth + blocks);
            let (at, len) = (first + begin - nth, end - begin);
            match (len > 0, is_write) {
                (true, true) => io.write(at, len, file.contents(begin))?,
                (true, false) => io.read(at, len, file.contents(begin))?,
                (false, _) => {}
            }
            nth += blocks;
        }
        Ok(())
    }

    /// Finds a file and its inode.
    fn look_up(io: &mut Io<'_>, file: &File) -> Result<()> {
        io.read(file.entry_block, 1, Contents::Directory)?;
        io.read(Self::inode_block(file.inode), 1, Contents::Metadata)
    }

    /// Notes that a file was read.
    pub fn accessed(&mut self, file: &File) {
        if self.updates_atime {
            self.running.insert((Self::inode_block(file.inode), false));
        }
    }

    /// Reads a whole file.
    pub fn read(&mut self, io: &mut Io<'_>, file: &File) -> Result<()> {
        Self::look_up(io, file)?;
        Self::find_blocks(io, file)?;
        Self::read_data(io, file)?;
        self.accessed(file);
        Ok(())
    }

    fn find_blocks(io: &mut Io<'_>, file: &File) -> Result<()> {
        let mut blocks = file.indirect.iter();
        blocks.try_for_each(|block| io.read(*block, 1, Contents::Metadata))
    }

    /// Writes more bytes behind the end of a file.
    pub fn append(&mut self, io: &mut Io<'_>, file: &mut File, bytes: u64) -> Result<()> {
        Self::look_up(io, file)?;
        let before = file.blocks();
        let is_partial = !file.size_bytes.is_multiple_of(BLOCK);
        let from = before - u64::from(is_partial);
        if is_partial {
            // The last block is filled, so it is read first.
            Self::part(io, file, (from, 1), false)?;
        }
        file.size_bytes += bytes;
        self.extend(file, file.blocks() - before);
        self.running.insert((Self::inode_block(file.inode), false));
        if let Some(last) = file.indirect.last() {
            self.running.insert((*last, false));
        }
        Self::part(io, file, (from, file.blocks() - from), true)
    }

    /// Deletes a file.
    pub fn delete(&mut self, io: &mut Io<'_>, file: &File) -> Result<()> {
        Self::look_up(io, file)?;
        Self::find_blocks(io, file)?;
        self.touch(file.directory);
        self.running.insert((file.entry_block, true));
        self.running.insert((Self::inode_block(file.inode), false));
        let bitmap = Self::inode_bitmap(file.inode);
        self.running.insert((bitmap, false));
        let indirect = file.indirect.iter().map(|block| (*block, 1));
        for (first, count) in file.runs.iter().copied().chain(indirect) {
            io.host.forget(first, count);
            self.release(first, count);
        }
        for block in &file.indirect {
            self.running.remove(&(*block, false));
            self.committed.remove(&(*block, false));
        }
        self.free_inodes.push(file.inode);
        let of = &mut self.directories[file.directory];
        of.entries = of.entries.saturating_sub(1);
        Ok(())
    }

    /// Reads all data, in the windows of the kernel's read-ahead.
    fn read_data(io: &mut Io<'_>, file: &File) -> Result<()> {
        let (mut at, mut window) = (0, READ_AHEAD.0);
        while at < file.blocks() {
            Self::part(io, file, (at, window), false)?;
            at += window;
            window = (window * 2).min(READ_AHEAD.1);
        }
        Ok(())
    }

    /// Commits the running transaction: the journal is written and durable.
    pub fn commit(&mut self, io: &mut Io<'_>, now: Ns) -> Result<()> {
        if self.running.is_empty() {
            return Ok(());
        }
        let blocks = self.running.len() as u64 + 2;
        let blocks = blocks.min(self.journal_blocks);
        // Data first, as ordered mode does.
        io.sync()?;
        if self.journal_at + blocks > self.journal_blocks {
            self.journal_at = 0;
            // The journal is used again, so its metadata must be in place.
            self.write_back(io, Ns::MAX)?;
            io.sync()?;
        }
        io.write(self.journal_at, blocks, Contents::Journal)?;
        io.sync()?;
        io.storage.flush()?;
        self.journal_at += blocks;
        for block in std::mem::take(&mut self.running) {
            self.committed.entry(block).or_insert(now);
        }
        Ok(())
    }

    /// Writes metadata in place that was committed until then.
    pub fn write_back(&mut self, io: &mut Io<'_>, until: Ns) -> Result<()> {
        let committed = std::mem::take(&mut self.committed);
        for ((block, is_directory), since) in committed {
            if since > until {
                self.committed.insert((block, is_directory), since);
                continue;
            }
            let contents = match is_directory {
                true => Contents::Directory,
                false => Contents::Metadata,
            };
            io.write(block, 1, contents)?;
        }
        Ok(())
    }
}

impl File {
    /// Number of blocks of data.
    pub fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK)
    }

    /// Number of its directory.
    pub fn directory(&self) -> usize {
        self.directory
    }

    /// Size, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn contents(&self, nth_block: u64) -> Contents {
        Contents::File {
            size_bytes: self.size_bytes,
            offset_bytes: nth_block * BLOCK,
        }
    }
}

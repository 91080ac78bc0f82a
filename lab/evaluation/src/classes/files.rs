//! A file system like ext3 or ext4: block groups with bitmaps and inode tables, directories, a
//! journal, and files with indirect blocks.
//!
//! `loads` calls this. Blocks of 4 KiB, 8,192 inodes a group.
//! Blocks and inodes of deleted files are used again.
//! Invariant: every request says what its blocks contain, as `disk_layout` would.

use super::host::Io;
use super::storage::BLOCK;
use classes::Contents;
use std::collections::{BTreeMap, BTreeSet};
use store::Result;

/// Blocks of a group.
const GROUP: u64 = 32_768;
const INODES_PER_GROUP: u64 = 8192;
/// 128 bytes each.
const INODES_PER_BLOCK: u64 = 32;
const TABLE: u64 = INODES_PER_GROUP / INODES_PER_BLOCK;
/// Superblock copy, descriptors, two bitmaps, inode table.
const DATA_FROM: u64 = 4 + TABLE;
const ENTRIES_PER_BLOCK: u64 = 100;
/// Blocks of a file before the first indirect block, and blocks that each of those adds.
const DIRECT: u64 = 12;
const PER_INDIRECT: u64 = 1024;
/// 128 MiB.
const JOURNAL: u64 = 32_768;
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
    journal_at: u64,
    /// Largest request of a client, blocks.
    request_blocks: u64,
    /// Metadata of the running transaction, and committed metadata that is not in place yet.
    running: BTreeSet<(u64, bool)>,
    committed: BTreeSet<(u64, bool)>,
}

impl ModelFileSystem {
    /// Makes a file system with at least this many bytes of space, and directories spread over it.
    pub fn new(bytes: u64, directories: u64, request_blocks: u64) -> Self {
        let groups = bytes.div_ceil(GROUP * BLOCK).max(4) + 1;
        let mut made = Self {
            groups,
            free: vec![BTreeMap::from([(DATA_FROM, GROUP - DATA_FROM)]); groups as usize],
            next_inode: vec![0; groups as usize],
            free_inodes: Vec::new(),
            directories: Vec::new(),
            journal_at: 0,
            request_blocks,
            running: BTreeSet::new(),
            committed: BTreeSet::new(),
        };
        // The journal is group 0.
        made.free[0].clear();
        for nth in 0..directories {
            let group = 1 + nth * (groups - 1) / directories.max(1);
            made.directories.push(Directory {
                group,
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

    /// Gives a file its places, without requests.
    pub fn prepare(&mut self, directory: usize, size_bytes: u64) -> File {
        let group = self.directories[directory].group;
        let of = &self.directories[directory];
        if of.entries >= of.blocks.len() as u64 * ENTRIES_PER_BLOCK {
            let block = self.allocate(group, 1);
            let of = &mut self.directories[directory];
            of.blocks.extend(block.iter().map(|run| run.0));
        }
        let of = &mut self.directories[directory];
        // Names of deleted files leave room anywhere in the directory.
        let entry_block = of.blocks.get((of.entries / ENTRIES_PER_BLOCK) as usize);
        let entry_block = entry_block.copied().unwrap_or(0);
        of.entries += 1;
        let inode = self.free_inodes.pop().unwrap_or_else(|| {
            let mut groups = (0..self.groups).map(|step| (group + step) % self.groups);
            let has_inode = |n: &u64| self.next_inode[*n as usize] < INODES_PER_GROUP;
            let number = groups.find(has_inode).unwrap_or(group);
            let nth = self.next_inode[number as usize];
            self.next_inode[number as usize] += 1;
            number * INODES_PER_GROUP + nth % INODES_PER_GROUP
        });
        let blocks = size_bytes.div_ceil(BLOCK);
        let indirect = blocks.saturating_sub(DIRECT).div_ceil(PER_INDIRECT);
        let indirect = self.allocate(group, indirect).into_iter();
        File {
            size_bytes,
            inode,
            directory,
            entry_block,
            indirect: indirect
                .flat_map(|(first, count)| first..first + count)
                .collect(),
            runs: self.allocate(group, blocks),
        }
    }

    /// Makes a file and writes it.
    pub fn create(&mut self, io: &mut Io<'_>, directory: usize, size_bytes: u64) -> Result<File> {
        let file = self.prepare(directory, size_bytes);
        self.enter(io, &file)?;
        self.data(io, &file, true)?;
        Ok(file)
    }

    /// Makes the metadata of a file that has its places.
    pub fn enter(&mut self, io: &mut Io<'_>, file: &File) -> Result<()> {
        let bitmap = file.inode / INODES_PER_GROUP * GROUP + 3;
        io.read(bitmap, 1, Contents::Metadata)?;
        Self::look_up(io, file)?;
        self.running.insert((bitmap, false));
        self.running.insert((Self::inode_block(file.inode), false));
        self.running.insert((file.entry_block, true));
        let indirect = file.indirect.iter().map(|block| (*block, false));
        self.running.extend(indirect);
        Ok(())
    }

    /// Writes blocks of a file, in one request where they are together.
    pub fn write_part(io: &mut Io<'_>, file: &File, from: u64, count: u64) -> Result<()> {
        let mut nth = 0;
        for (first, blocks) in &file.runs {
            let begin = from.clamp(nth, nth + blocks);
            let end = (from + count).clamp(nth, nth + blocks);
            if begin < end {
                io.write(first + begin - nth, end - begin, file.contents(begin))?;
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

    /// Reads a whole file.
    pub fn read(&self, io: &mut Io<'_>, file: &File) -> Result<()> {
        Self::look_up(io, file)?;
        for block in &file.indirect {
            io.read(*block, 1, Contents::Metadata)?;
        }
        self.data(io, file, false)
    }

    /// Overwrites one block of a file, 4 KiB.
    pub fn overwrite(&mut self, io: &mut Io<'_>, file: &File, nth: u64) -> Result<()> {
        Self::look_up(io, file)?;
        self.running.insert((Self::inode_block(file.inode), false));
        Self::write_part(io, file, nth, 1)
    }

    /// Deletes a file.
    pub fn delete(&mut self, io: &mut Io<'_>, file: &File) -> Result<()> {
        Self::look_up(io, file)?;
        self.running.insert((file.entry_block, true));
        self.running.insert((Self::inode_block(file.inode), false));
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

    fn data(&self, io: &mut Io<'_>, file: &File, is_write: bool) -> Result<()> {
        let mut nth = 0;
        for (first, count) in &file.runs {
            for from in (0..*count).step_by(self.request_blocks as usize) {
                let blocks = self.request_blocks.min(count - from);
                match is_write {
                    true => io.write(first + from, blocks, file.contents(nth))?,
                    false => io.read(first + from, blocks, file.contents(nth))?,
                }
                nth += blocks;
            }
        }
        Ok(())
    }

    /// Commits the running transaction: the journal is written and durable.
    pub fn commit(&mut self, io: &mut Io<'_>) -> Result<()> {
        if self.running.is_empty() {
            return Ok(());
        }
        let blocks = self.running.len() as u64 + 2;
        let blocks = blocks.min(JOURNAL);
        if self.journal_at + blocks > JOURNAL {
            self.journal_at = 0;
        }
        // Data first, as ordered mode does.
        io.sync()?;
        io.write(self.journal_at, blocks, Contents::Journal)?;
        io.sync()?;
        io.storage.flush()?;
        self.journal_at += blocks;
        self.committed.append(&mut self.running);
        Ok(())
    }

    /// Writes committed metadata in place.
    pub fn write_back(&mut self, io: &mut Io<'_>) -> Result<()> {
        for (block, is_directory) in std::mem::take(&mut self.committed) {
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

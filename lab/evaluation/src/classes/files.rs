//! A file system like ext3 or ext4: block groups with bitmaps and inode tables, directories, a
//! journal, and files with indirect blocks.
//!
//! `loads` calls this. Blocks of 4 KiB, 8,192 inodes a group.
//! Invariant: every request says what its blocks contain, as `disk_layout` would.

use super::machine::{BLOCK, Machine};
use classes::Contents;
use std::collections::BTreeSet;

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
    /// Next free block in each group, from its start; and inode.
    free_block: Vec<u64>,
    free_inode: Vec<u64>,
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
            free_block: vec![DATA_FROM; groups as usize],
            free_inode: vec![0; groups as usize],
            directories: Vec::new(),
            journal_at: 0,
            request_blocks,
            running: BTreeSet::new(),
            committed: BTreeSet::new(),
        };
        // The journal is group 0.
        made.free_block[0] = GROUP;
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
            let free = &mut self.free_block[number as usize];
            let taken = count.min(GROUP - *free);
            if taken > 0 {
                runs.push((number * GROUP + *free, taken));
                self.running.insert((number * GROUP + 2, false));
            }
            *free += taken;
            count -= taken;
            if count == 0 {
                break;
            }
        }
        runs
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
        if of.entries == of.blocks.len() as u64 * ENTRIES_PER_BLOCK {
            let block = self.allocate(group, 1);
            let of = &mut self.directories[directory];
            of.blocks.extend(block.iter().map(|run| run.0));
        }
        let of = &mut self.directories[directory];
        of.entries += 1;
        let entry_block = of.blocks.last().copied().unwrap_or(0);
        let mut groups = (0..self.groups).map(|step| (group + step) % self.groups);
        let has_inode = |n: &u64| self.free_inode[*n as usize] < INODES_PER_GROUP;
        let number = groups.find(has_inode).unwrap_or(group);
        let nth = self.free_inode[number as usize];
        self.free_inode[number as usize] += 1;
        let blocks = size_bytes.div_ceil(BLOCK);
        let indirect = blocks.saturating_sub(DIRECT).div_ceil(PER_INDIRECT);
        let indirect = self.allocate(group, indirect).into_iter();
        File {
            size_bytes,
            inode: number * INODES_PER_GROUP + nth % INODES_PER_GROUP,
            entry_block,
            indirect: indirect
                .flat_map(|(first, count)| first..first + count)
                .collect(),
            runs: self.allocate(group, blocks),
        }
    }

    /// Makes a file and writes it.
    pub fn create(&mut self, machine: &mut Machine, directory: usize, size_bytes: u64) -> File {
        let file = self.prepare(directory, size_bytes);
        let bitmap = file.inode / INODES_PER_GROUP * GROUP + 3;
        machine.read(bitmap, 1, Contents::Metadata);
        self.look_up(machine, &file);
        self.running.insert((bitmap, false));
        self.running.insert((Self::inode_block(file.inode), false));
        self.running.insert((file.entry_block, true));
        let indirect = file.indirect.iter().map(|block| (*block, false));
        self.running.extend(indirect);
        self.data(machine, &file, true);
        file
    }

    /// Writes blocks of a file, in one request where they are together.
    pub fn write_part(machine: &mut Machine, file: &File, from: u64, count: u64) {
        let mut nth = 0;
        for (first, blocks) in &file.runs {
            let begin = from.clamp(nth, nth + blocks);
            let end = (from + count).clamp(nth, nth + blocks);
            if begin < end {
                machine.write(first + begin - nth, end - begin, file.contents(begin));
            }
            nth += blocks;
        }
    }

    /// Finds a file and its inode.
    fn look_up(&mut self, machine: &mut Machine, file: &File) {
        machine.read(file.entry_block, 1, Contents::Directory);
        machine.read(Self::inode_block(file.inode), 1, Contents::Metadata);
    }

    /// Reads a whole file.
    pub fn read(&mut self, machine: &mut Machine, file: &File) {
        self.look_up(machine, file);
        for block in &file.indirect {
            machine.read(*block, 1, Contents::Metadata);
        }
        self.data(machine, file, false);
    }

    /// Overwrites one block of a file, 4 KiB.
    pub fn overwrite(&mut self, machine: &mut Machine, file: &File, nth: u64) {
        self.look_up(machine, file);
        let mut skip = nth;
        for (first, count) in &file.runs {
            if skip < *count {
                machine.write(first + skip, 1, file.contents(nth));
                break;
            }
            skip -= count;
        }
        self.running.insert((Self::inode_block(file.inode), false));
    }

    /// Deletes a file. Its blocks are not used again.
    pub fn delete(&mut self, machine: &mut Machine, file: &File) {
        self.look_up(machine, file);
        self.running.insert((file.entry_block, true));
        self.running.insert((Self::inode_block(file.inode), false));
        for (first, _) in &file.runs {
            self.running.insert((first / GROUP * GROUP + 2, false));
        }
    }

    fn data(&self, machine: &mut Machine, file: &File, is_write: bool) {
        let mut nth = 0;
        for (first, count) in &file.runs {
            for from in (0..*count).step_by(self.request_blocks as usize) {
                let blocks = self.request_blocks.min(count - from);
                match is_write {
                    true => machine.write(first + from, blocks, file.contents(nth)),
                    false => machine.read(first + from, blocks, file.contents(nth)),
                }
                nth += blocks;
            }
        }
    }

    /// Commits the running transaction: the journal is written.
    pub fn commit(&mut self, machine: &mut Machine) {
        if self.running.is_empty() {
            return;
        }
        let blocks = self.running.len() as u64 + 2;
        let blocks = blocks.min(JOURNAL);
        if self.journal_at + blocks > JOURNAL {
            self.journal_at = 0;
        }
        // Data first, as ordered mode does.
        machine.sync();
        machine.write(self.journal_at, blocks, Contents::Journal);
        machine.sync();
        self.journal_at += blocks;
        self.committed.append(&mut self.running);
    }

    /// Writes committed metadata in place.
    pub fn write_back(&mut self, machine: &mut Machine) {
        for (block, is_directory) in std::mem::take(&mut self.committed) {
            let contents = match is_directory {
                true => Contents::Directory,
                false => Contents::Metadata,
            };
            machine.write(block, 1, contents);
        }
    }
}

impl File {
    /// Number of blocks of data.
    pub fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK)
    }

    fn contents(&self, nth_block: u64) -> Contents {
        Contents::File {
            size_bytes: self.size_bytes,
            offset_bytes: nth_block * BLOCK,
        }
    }
}

//! The host's memory: an LRU of blocks, and writes that wait in it.
//!
//! The file system calls this.
//! Invariant: a block that waits to be written is read from memory.

use super::lru::Lru;
use super::storage::{BLOCK, BlockWrite, Storage};
use classes::Contents;
use std::collections::BTreeMap;
use store::Result;

/// The host's memory, and the storage behind it.
pub struct Io<'a> {
    /// Memory.
    pub host: &'a mut Host,
    /// Storage.
    pub storage: &'a mut dyn Storage,
}

/// Longest write, blocks.
const WRITE_MAX: u64 = 256;

/// See the module's head.
pub struct Host {
    memory: Lru,
    /// Writes by block.
    pending: BTreeMap<u64, Contents>,
    pending_max: usize,
}

/// Returns the contents of a later block.
fn shifted(contents: Contents, blocks: u64) -> Contents {
    match contents {
        Contents::File {
            size_bytes,
            offset_bytes,
        } => Contents::File {
            size_bytes,
            offset_bytes: offset_bytes + blocks * BLOCK,
        },
        other => other,
    }
}

impl Host {
    /// Makes empty memory of so many blocks. A quarter may wait to be written.
    pub fn new(blocks: u64) -> Self {
        Self {
            memory: Lru::new(blocks),
            pending: BTreeMap::new(),
            pending_max: (blocks / 4).max(1) as usize,
        }
    }

    /// Forgets blocks of a deleted file: they need not be written any more.
    pub fn forget(&mut self, first: u64, count: u64) {
        for block in first..first + count {
            self.memory.remove(block);
            self.pending.remove(&block);
        }
    }
}

impl Io<'_> {
    /// Reads blocks; `contents` is that of the first.
    pub fn read(&mut self, first: u64, count: u64, contents: Contents) -> Result<()> {
        let host = &mut *self.host;
        let is_here = |block| host.pending.contains_key(&block) || host.memory.has(block);
        let all_here = (first..first + count).all(is_here);
        for block in first..first + count {
            host.memory.admit(block);
        }
        match all_here {
            true => Ok(()),
            false => self.storage.read(first, count, contents),
        }
    }

    /// Writes blocks into memory; `contents` is that of the first.
    pub fn write(&mut self, first: u64, count: u64, contents: Contents) -> Result<()> {
        for nth in 0..count {
            self.host.memory.admit(first + nth);
            let waiting = shifted(contents, nth);
            self.host.pending.insert(first + nth, waiting);
        }
        match self.host.pending.len() >= self.host.pending_max {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// Writes all that waits, in the order of addresses.
    pub fn sync(&mut self) -> Result<()> {
        let mut writes: Vec<BlockWrite> = Vec::new();
        for (block, contents) in std::mem::take(&mut self.host.pending) {
            match writes.last_mut() {
                Some(last)
                    if last.first + last.count == block
                        && last.count < WRITE_MAX
                        && shifted(last.contents, last.count) == contents =>
                {
                    last.count += 1;
                }
                _ => writes.push(BlockWrite {
                    first: block,
                    count: 1,
                    contents,
                }),
            }
        }
        match writes.is_empty() {
            true => Ok(()),
            false => self.storage.write(&writes),
        }
    }
}

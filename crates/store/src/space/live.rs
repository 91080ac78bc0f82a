//! Marks of live chunks: one bit for each, and up to two more for nodes and directories. Marking
//! and garbage collection call this.
//!
//! Invariant: a bit belongs to a place (container, number of the chunk in it), so of a chunk that
//! is stored twice only one copy is live. Containers without live chunks use no memory.

use chunk_store::chunk_map::{KeptCopy, LoadedDirectory};
use format::container::ContainerClass;
use std::collections::HashMap;
use units::ContainerId;

/// One bit for each chunk of a container. Uses no memory before the first bit is set.
#[derive(Default)]
struct Bits(Box<[u64]>);

impl Bits {
    /// Sets a bit. Returns true if it was clear.
    fn set(&mut self, number: u32, count: usize) -> bool {
        if self.0.is_empty() {
            self.0 = vec![0; count.div_ceil(64)].into_boxed_slice();
        }
        let bit = 1 << (number % 64);
        match self.0.get_mut((number / 64) as usize) {
            Some(word) => {
                let new = *word & bit == 0;
                *word |= bit;
                new
            }
            None => false,
        }
    }

    fn get(&self, number: u32) -> bool {
        let word = self.0.get((number / 64) as usize).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
}

/// Marks of one container.
pub(crate) struct LiveContainer {
    /// Kind of its contents.
    pub class: ContainerClass,
    live: Bits,
    /// Nodes whose children were queued.
    nodes: Bits,
    /// Roots of directories whose entries were queued.
    directories: Bits,
    /// Length of the live chunks, bytes.
    pub live_bytes: u64,
    /// Length of all chunks, bytes.
    pub plain_bytes: u64,
}

impl LiveContainer {
    fn new(directory: &LoadedDirectory) -> Self {
        Self {
            class: directory.class,
            live: Bits::default(),
            nodes: Bits::default(),
            directories: Bits::default(),
            live_bytes: 0,
            plain_bytes: directory.plain_bytes,
        }
    }

    /// Returns the number of its live chunks.
    pub fn chunk_count(&self) -> usize {
        let words = self.live.0.iter();
        words.map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if the chunk with this number is live here.
    pub fn holds(&self, number: u32) -> bool {
        self.live.get(number)
    }
}

/// Role in which a chunk was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A chunk of data.
    Chunk,
    /// A recipe node.
    Node,
    /// The root of a directory object.
    Directory,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct LiveMap {
    containers: HashMap<ContainerId, LiveContainer>,
    /// Number of live chunks.
    pub chunks: u64,
    /// Their length, bytes.
    pub bytes: u64,
}

impl LiveMap {
    /// Marks a chunk. Returns true if it was not reached in this role before.
    pub fn mark(&mut self, kept: &KeptCopy, seen: Seen) -> bool {
        let directory: &LoadedDirectory = &kept.directory;
        let at = self.containers.entry(directory.container);
        let at = at.or_insert_with(|| LiveContainer::new(directory));
        let (number, count) = (kept.number, directory.chunk_count());
        let new = at.live.set(number, count);
        if new {
            at.live_bytes += u64::from(kept.place.len);
            self.chunks += 1;
            self.bytes += u64::from(kept.place.len);
        }
        match seen {
            Seen::Chunk => new,
            Seen::Node => at.nodes.set(number, count),
            Seen::Directory => at.directories.set(number, count),
        }
    }

    /// Returns the marks of a container, or `None` if nothing in it is live.
    pub fn of(&self, container: ContainerId) -> Option<&LiveContainer> {
        self.containers.get(&container)
    }

    /// Returns how many containers have live chunks.
    pub fn containers(&self) -> u64 {
        self.containers.len() as u64
    }

    /// Returns true if a chunk is live at its place.
    pub fn holds(&self, kept: &KeptCopy) -> bool {
        self.of(kept.directory.container)
            .is_some_and(|live| live.holds(kept.number))
    }

    /// Returns the memory of the bits, bytes.
    pub fn bit_bytes(&self) -> usize {
        let bytes = |c: &LiveContainer| c.live.bytes() + c.nodes.bytes() + c.directories.bytes();
        self.containers.values().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_once() {
        let mut bits = Bits::default();
        assert!(!bits.get(70) && bits.bytes() == 0);
        assert!(bits.set(70, 130) && !bits.set(70, 130));
        assert!(bits.get(70) && !bits.get(69) && !bits.get(6));
        assert!(bits.set(0, 130) && bits.set(129, 130));
        assert_eq!(bits.bytes(), 24);
        assert!(!bits.set(500, 130) && !bits.get(500));
    }
}

//! Which of the stored chunks are live: one bit each, and up to two more for nodes and directories.
//!
//! Invariant: bits are by place (container, number of the chunk in it), so a chunk that is stored
//! twice is live in one place. Containers in which nothing is live take no memory. Called by marking
//! and the collector.

use chunk_store::chunk_map::{Kept, LoadedDirectory};
use format::container::ContainerClass;
use std::collections::HashMap;
use units::ContainerId;

/// One bit for each chunk of a container; no memory before the first is set.
#[derive(Default)]
struct Bits(Box<[u64]>);

impl Bits {
    /// Sets a bit; true when it was not.
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

/// What is live of one container.
pub(crate) struct LiveContainer {
    /// What it holds.
    pub class: ContainerClass,
    live: Bits,
    /// Nodes whose children are marked.
    nodes: Bits,
    /// Roots of directories whose entries are marked.
    directories: Bits,
    /// Plain bytes of the live chunks.
    pub live_bytes: u64,
    /// Plain bytes of all chunks.
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

    /// True when the chunk of this number is live here.
    pub fn holds(&self, number: u32) -> bool {
        self.live.get(number)
    }
}

/// What a chunk was seen as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Bytes of something.
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
    /// Live chunks.
    pub chunks: u64,
    /// Their plain bytes.
    pub bytes: u64,
}

impl LiveMap {
    /// Marks a chunk; true when it was not seen as this before.
    pub fn mark(&mut self, kept: &Kept, seen: Seen) -> bool {
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

    /// What is live in a container; `None`: nothing.
    pub fn of(&self, container: ContainerId) -> Option<&LiveContainer> {
        self.containers.get(&container)
    }

    /// How many containers hold something live.
    pub fn containers(&self) -> u64 {
        self.containers.len() as u64
    }

    /// True when a chunk is live at its place.
    pub fn holds(&self, kept: &Kept) -> bool {
        self.of(kept.directory.container)
            .is_some_and(|live| live.holds(kept.number))
    }

    /// Bytes of the bits, without what each container takes.
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

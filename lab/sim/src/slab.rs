//! A numbered table that is cheap to copy: copies share unchanged blocks. `image` uses it for the
//! tables of directories and of file contents.
//!
//! Invariant: an entry never changes its number and is never removed.

use std::sync::Arc;

/// Entries in a block.
const BLOCK: usize = 32;

/// A table of `T`; a copy costs one reference count for each 32 entries.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    blocks: Vec<Arc<Vec<Arc<T>>>>,
    len: usize,
}

impl<T> Clone for Slab<T> {
    fn clone(&self) -> Self {
        Self {
            blocks: self.blocks.clone(),
            len: self.len,
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            blocks: Vec::new(),
            len: 0,
        }
    }

    /// Adds an entry and returns its number.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let number = self.len;
        if number.is_multiple_of(BLOCK) {
            self.blocks.push(Arc::new(Vec::with_capacity(BLOCK)));
        }
        if let Some(block) = self.blocks.last_mut() {
            Arc::make_mut(block).push(Arc::new(item));
        }
        self.len += 1;
        u32::try_from(number).expect("a simulated disk has fewer than 2^32 files")
    }

    pub(crate) fn get(&self, number: u32) -> &Arc<T> {
        &self.blocks[number as usize / BLOCK][number as usize % BLOCK]
    }

    pub(crate) fn set(&mut self, number: u32, item: Arc<T>) {
        *self.slot(number) = item;
    }

    /// Returns the entry, unshared.
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T
    where
        T: Clone,
    {
        Arc::make_mut(self.slot(number))
    }

    fn slot(&mut self, number: u32) -> &mut Arc<T> {
        &mut Arc::make_mut(&mut self.blocks[number as usize / BLOCK])[number as usize % BLOCK]
    }
}

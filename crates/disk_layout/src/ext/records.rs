//! Remembers the inodes that own blocks: what for, and in which slices of the map. `Ext` looks
//! owners up here and finds the runs of an inode that changed.
//!
//! Invariant: sorted by number in each group. A run whose inode has no record is unknown.

use super::inode::Use;
use crate::slices::Slices;

/// An inode that owns blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Index in the group.
    pub index: u32,
    /// See [`super::inode::Inode`].
    pub fingerprint: u32,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Slices of its runs.
    pub slices: Slices,
    /// Purpose of its blocks.
    pub used_for: Use,
    /// Others took blocks of it since: it may be stale, or they were.
    pub is_doubted: bool,
}

/// See the module.
pub struct Records {
    groups: Vec<Vec<Record>>,
    group_inodes: u32,
    memory_bytes: usize,
}

impl Records {
    /// No records. The caller has bounded `groups`.
    pub fn new(groups: u32, group_inodes: u32) -> Self {
        Self {
            groups: vec![Vec::new(); groups as usize],
            group_inodes: group_inodes.max(1),
            memory_bytes: groups as usize * size_of::<Vec<Record>>(),
        }
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn place(&self, number: u32) -> Option<(usize, u32)> {
        let number = number.checked_sub(1)?;
        Some((
            (number / self.group_inodes) as usize,
            number % self.group_inodes,
        ))
    }

    /// The record of an inode.
    pub fn find(&self, number: u32) -> Option<&Record> {
        let (group, index) = self.place(number)?;
        let records = self.groups.get(group)?;
        let at = records.binary_search_by_key(&index, |record| record.index);
        records.get(at.ok()?)
    }

    /// Notes a new size.
    pub fn resize(&mut self, number: u32, size_bytes: u64) {
        if let Some((group, index)) = self.place(number)
            && let Some(records) = self.groups.get_mut(group)
            && let Ok(at) = records.binary_search_by_key(&index, |record| record.index)
            && let Some(record) = records.get_mut(at)
        {
            record.size_bytes = size_bytes;
        }
    }

    /// Makes the next look at an inode a thorough one.
    pub fn doubt(&mut self, number: u32) {
        if let Some((group, index)) = self.place(number)
            && let Some(records) = self.groups.get_mut(group)
            && let Ok(at) = records.binary_search_by_key(&index, |record| record.index)
            && let Some(record) = records.get_mut(at)
        {
            record.is_doubted = true;
        }
    }

    /// Replaces the record of an inode. Returns the old one.
    pub fn replace(&mut self, number: u32, new: Option<Record>) -> Option<Record> {
        let (group, index) = self.place(number)?;
        let records = self.groups.get_mut(group)?;
        let before = records.capacity();
        let new = new.map(|new| Record { index, ..new });
        let heap = |record: &Option<Record>| record.as_ref().map_or(0, |r| r.slices.heap_bytes());
        self.memory_bytes += heap(&new);
        let old = match (records.binary_search_by_key(&index, |r| r.index), new) {
            (Ok(at), Some(new)) => records.get_mut(at).map(|old| std::mem::replace(old, new)),
            (Ok(at), None) => Some(records.remove(at)),
            (Err(at), Some(new)) => {
                records.insert(at, new);
                None
            }
            (Err(_), None) => None,
        };
        self.memory_bytes += records.capacity() * size_of::<Record>();
        self.memory_bytes -= before * size_of::<Record>() + heap(&old);
        old
    }

    /// Numbers of a group's inodes in a range of indexes.
    pub fn within(&self, group: u32, indexes: std::ops::Range<u32>) -> Vec<u32> {
        let records = self
            .groups
            .get(group as usize)
            .map_or(&[][..], Vec::as_slice);
        let from = records.partition_point(|record| record.index < indexes.start);
        let found = records.iter().skip(from);
        let found = found.take_while(|record| record.index < indexes.end);
        let first = group.saturating_mul(self.group_inodes);
        found
            .map(|record| first.saturating_add(record.index).saturating_add(1))
            .collect()
    }

    /// Deletes records of a group that `goes` chooses, and frees their memory.
    pub fn shed(&mut self, group: u32, goes: impl Fn(&Record) -> bool) {
        let Some(records) = self.groups.get_mut(group as usize) else {
            return;
        };
        let bytes = |records: &Vec<Record>| {
            let heap: usize = records.iter().map(|r| r.slices.heap_bytes()).sum();
            records.capacity() * size_of::<Record>() + heap
        };
        self.memory_bytes -= bytes(records);
        records.retain(|record| !goes(record));
        records.shrink_to_fit();
        self.memory_bytes += bytes(records);
    }
}

//! The allowed contents of volumes, page by page. Histories use it.
//!
//! Invariant: a page's list begins with the contents of the last flush and ends with what a reader
//! sees; a crash may leave any of them.

use std::collections::BTreeMap;

/// Bytes of a page: the unit that a crash never mixes.
pub const PAGE_BYTES: usize = 4096;
/// Bytes that one tag fills.
pub const SECTOR_BYTES: usize = 512;

/// A page, one tag for each sector; 0 for zeroes.
pub type Page = [u64; PAGE_BYTES / SECTOR_BYTES];

/// A volume's contents as a reader sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeContents {
    /// Bytes, a multiple of 512.
    pub size: u64,
    /// Its pages; the last one is zero beyond the size.
    pub pages: Vec<Page>,
}

impl VolumeContents {
    /// Zeroes.
    pub fn zeroes(size: u64) -> Self {
        Self {
            size,
            pages: vec![Page::default(); size.div_ceil(PAGE_BYTES as u64) as usize],
        }
    }

    /// The same with another size.
    pub fn resized(&self, size: u64) -> Self {
        let mut pages = self.pages.clone();
        pages.resize(size.div_ceil(PAGE_BYTES as u64) as usize, Page::default());
        let within = (size % PAGE_BYTES as u64) as usize / SECTOR_BYTES;
        if let Some(last) = pages.last_mut().filter(|_| within != 0) {
            last[within..].fill(0);
        }
        Self { size, pages }
    }
}

/// One change, with all of its consequences.
#[derive(Clone, Debug)]
pub enum VolumeChange {
    /// A new volume, or all of an old one replaced: created, cloned, rolled back, resized.
    Put(String, VolumeContents),
    /// A volume was deleted.
    Delete(String),
    /// A volume has the second name now, and so have its snapshots.
    Rename(String, String),
    /// Pages of a volume after a write.
    Write(String, Vec<(usize, Page)>),
    /// Writes to a volume are durable.
    Flush(String),
    /// These pages of a volume are durable.
    Durable(String, Vec<(usize, Page)>),
    /// A process has opened the volumes: its number.
    Opened(usize),
    /// A snapshot of this name has these contents.
    Snapshot(String, VolumeContents),
}

/// Returns the name of a snapshot after its volume was renamed.
pub fn renamed(full: &str, name: &str, new: &str) -> String {
    match full.split_once('@') {
        Some((of, label)) if of == name => format!("{new}@{label}"),
        _ => full.to_owned(),
    }
}

/// Allowed states of one volume.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Bytes.
    pub size: u64,
    /// Allowed contents of each page, oldest first.
    pub pages: Vec<Vec<Page>>,
}

/// Allowed states after a crash.
#[derive(Clone, Debug, Default)]
pub struct VolumeModel {
    /// Volumes by name.
    pub volumes: BTreeMap<String, Allowed>,
    /// Snapshots by name.
    pub snapshots: BTreeMap<String, VolumeContents>,
    /// Number of the last process that has opened the volumes.
    pub opened: Option<usize>,
}

impl VolumeModel {
    /// Applies `change`.
    pub fn apply(&mut self, change: &VolumeChange) {
        match change {
            VolumeChange::Put(name, contents) => {
                let allowed = Allowed {
                    size: contents.size,
                    pages: contents.pages.iter().map(|page| vec![*page]).collect(),
                };
                self.volumes.insert(name.clone(), allowed);
            }
            VolumeChange::Delete(name) => drop(self.volumes.remove(name)),
            VolumeChange::Rename(name, new) => {
                if let Some(volume) = self.volumes.remove(name) {
                    self.volumes.insert(new.clone(), volume);
                }
                let snapshots = std::mem::take(&mut self.snapshots).into_iter();
                let renamed =
                    snapshots.map(|(full, contents)| (renamed(&full, name, new), contents));
                self.snapshots = renamed.collect();
            }
            VolumeChange::Write(name, pages) => {
                let Some(volume) = self.volumes.get_mut(name) else {
                    return;
                };
                for (number, page) in pages {
                    if let Some(list) = volume.pages.get_mut(*number) {
                        list.push(*page);
                    }
                }
            }
            VolumeChange::Flush(name) => {
                let Some(volume) = self.volumes.get_mut(name) else {
                    return;
                };
                for list in &mut volume.pages {
                    list.drain(..list.len() - 1);
                }
            }
            VolumeChange::Durable(name, pages) => {
                let Some(volume) = self.volumes.get_mut(name) else {
                    return;
                };
                for (number, page) in pages {
                    if let Some(list) = volume.pages.get_mut(*number) {
                        *list = vec![*page];
                    }
                }
            }
            VolumeChange::Opened(number) => self.opened = Some(*number),
            VolumeChange::Snapshot(name, contents) => {
                self.snapshots.insert(name.clone(), contents.clone());
            }
        }
    }

    /// Returns why the contents are not allowed, if so.
    pub fn refuses(
        &self,
        volumes: &BTreeMap<String, VolumeContents>,
        snapshots: &BTreeMap<String, VolumeContents>,
    ) -> Option<String> {
        if snapshots != &self.snapshots {
            let differ = snapshots
                .iter()
                .find(|(name, contents)| self.snapshots.get(*name) != Some(contents))
                .map(|(name, _)| name);
            let names: Vec<_> = snapshots.keys().collect();
            let expected: Vec<_> = self.snapshots.keys().collect();
            return Some(format!(
                "snapshots {names:?}, expected {expected:?}; first that differs: {differ:?}"
            ));
        }
        if !volumes.keys().eq(self.volumes.keys()) {
            let names: Vec<_> = volumes.keys().collect();
            let expected: Vec<_> = self.volumes.keys().collect();
            return Some(format!("volumes {names:?}, expected {expected:?}"));
        }
        for ((name, found), allowed) in volumes.iter().zip(self.volumes.values()) {
            if found.size != allowed.size {
                let expected = allowed.size;
                return Some(format!("{name}: {} bytes, expected {expected}", found.size));
            }
            for (number, (page, list)) in found.pages.iter().zip(&allowed.pages).enumerate() {
                if !list.contains(page) {
                    return Some(format!(
                        "{name} page {number}: {page:x?}, expected one of {list:x?}"
                    ));
                }
            }
        }
        None
    }
}

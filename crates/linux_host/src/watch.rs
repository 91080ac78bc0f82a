//! Watches the file system of a path: events by eBPF, else states by `cachestat`. The program calls
//! this; tasks register sessions at the table that it feeds.
//!
//! Invariant: after a drain without failures the mirror holds the state of every watched page at
//! some time during the drain, or a later change of it comes with the next drain. Lost events are
//! followed by a scan.

use crate::ebpf::{Ebpf, EbpfError};
use crate::identity::{FileId, Identities};
use crate::mirror::{Mirror, Moved};
use crate::scan::{Directories, FoundFile, Walked};
use duet::Duet;
use machine as pages;
use machine::Mount;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a drain.
#[derive(Debug, Default)]
pub struct Drained {
    /// Changed pages of each file.
    pub files: HashMap<FileId, Moved>,
    /// Chunks of 64 pages whose events were lost. The drain has made up for them with a scan.
    pub dropped: u64,
    /// Files and directories that scans could not see.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// A watched tree.
pub struct Watch {
    top: PathBuf,
    mount: Mount,
    ebpf: Result<Ebpf, String>,
    mirror: Mirror,
    identities: Identities,
    /// Files of the same file system that were not below `top` at the last walk.
    elsewhere: HashSet<FileId>,
    /// Directories of the last walk.
    directories: Directories,
}

impl Watch {
    /// Watches the files at and below `top`, on its mount. What is in memory now comes with the
    /// first [`Watch::drain`].
    pub fn start(top: &Path, duet: Arc<Duet>) -> io::Result<Self> {
        Self::start_within(top, duet, Ebpf::CHUNKS_MAX)
    }

    /// The same, with room for so many chunks of 64 pages between two drains. What there is no room
    /// for is found by a scan.
    pub fn start_within(top: &Path, duet: Arc<Duet>, chunks_max: u32) -> io::Result<Self> {
        let mount = Mount::of(top)?;
        let ebpf = by_events(&mount, chunks_max);
        Ok(Self::with(top, mount, ebpf, duet))
    }

    /// The same, without eBPF.
    pub fn start_polling(top: &Path, duet: Arc<Duet>) -> io::Result<Self> {
        let ebpf = Err("--poll was given".to_owned());
        Ok(Self::with(top, Mount::of(top)?, ebpf, duet))
    }

    /// The same, for a task that has no use for compared states. Returns why there are no events.
    pub fn start_hearing(top: &Path, duet: Arc<Duet>) -> Result<Self, String> {
        let watch = Self::start(top, duet).map_err(|e| units::reason(&e).to_string())?;
        match watch.ebpf {
            Ok(_) => Ok(watch),
            Err(why) => Err(why),
        }
    }

    fn with(top: &Path, mount: Mount, ebpf: Result<Ebpf, String>, duet: Arc<Duet>) -> Self {
        Self {
            top: top.to_owned(),
            mount,
            ebpf,
            mirror: Mirror::new(duet),
            identities: Identities::default(),
            elsewhere: HashSet::new(),
            directories: Directories::default(),
        }
    }

    /// Returns why states are compared instead of events taken; `None` where there are events.
    pub fn polls_because(&self) -> Option<&str> {
        self.ebpf.as_ref().err().map(String::as_str)
    }

    /// Returns for how many pages the kernel reported events since the start, those that cancelled
    /// out included; `None` without events.
    pub fn reported_pages(&self) -> Option<u64> {
        let events = self.ebpf.as_ref().ok()?.events().ok()?;
        Some(events.iter().sum())
    }

    /// The mount of the tree.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// The known state. It is the [`duet::Present`] of sessions.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Registers what is in memory now, by `cachestat`. With events, call it once at the start.
    pub fn scan(&mut self) -> io::Result<Drained> {
        let mut drained = Drained::default();
        self.scan_into(&mut drained)?;
        Ok(drained)
    }

    /// Takes the changes since the last call. Without events it is a scan.
    pub fn drain(&mut self) -> io::Result<Drained> {
        let mut drained = Drained::default();
        self.mirror.prune();
        match self.take_events(&mut drained) {
            Some(Ok(0)) => {}
            Some(Ok(dropped)) => {
                drained.dropped = dropped;
                self.scan_into(&mut drained)?;
            }
            Some(Err(e)) => {
                self.ebpf = Err(e.to_string());
                self.scan_into(&mut drained)?;
            }
            None => self.scan_into(&mut drained)?,
        }
        Ok(drained)
    }

    /// Takes the changes since the last call, for a task that needs only hints: what was lost stays
    /// unknown, and costs no walk. Returns false without events.
    pub fn take_hints(&mut self) -> bool {
        self.mirror.prune();
        match self.take_events(&mut Drained::default()) {
            Some(Ok(_)) => true,
            Some(Err(e)) => {
                self.ebpf = Err(e.to_string());
                false
            }
            None => false,
        }
    }

    /// Returns how many chunks were dropped; `None` without eBPF.
    fn take_events(&mut self, drained: &mut Drained) -> Option<Result<u64, EbpfError>> {
        let ebpf = self.ebpf.as_mut().ok()?;
        let mirror = &mut self.mirror;
        let taken = ebpf.drain(&mut |key, bits| {
            let (id, moved) = mirror.apply(key, bits);
            if moved != Moved::default() {
                drained.files.entry(id).or_default().add(moved);
            }
        });
        Some(taken.and_then(|()| ebpf.newly_dropped()))
    }

    fn scan_into(&mut self, drained: &mut Drained) -> io::Result<()> {
        let (mirror, mount, identities) = (&mut self.mirror, &self.mount, &mut self.identities);
        identities.clear();
        self.elsewhere.clear();
        let mut seen = HashSet::new();
        let mut visit = |found: &FoundFile<'_>| {
            let id = FileId::of(found.file, mount)?;
            identities.insert(id, found.path);
            seen.insert(id);
            let mut chunks = BTreeSet::new();
            let mut moved = Moved::default();
            pages::chunks(found.file, found.bytes, &mut |chunk, state| {
                chunks.insert(chunk);
                moved.add(mirror.assign(id, chunk, state));
            })?;
            moved.add(mirror.clear_others(id, &chunks));
            if moved != Moved::default() {
                drained.files.entry(id).or_default().add(moved);
            }
            Ok(())
        };
        let (Walked { failed, .. }, directories) = Directories::of_walk(&self.top, &mut visit)?;
        self.directories = directories;
        drained.failed = failed;
        // Files that the walk did not find are deleted, or not below the top.
        let others: Vec<FileId> = mirror.files().filter(|id| !seen.contains(id)).collect();
        for id in others {
            let moved = mirror.clear_others(id, &BTreeSet::new());
            drained.files.entry(id).or_default().add(moved);
        }
        Ok(())
    }

    /// Returns a path below the top that names the file now. Looks for files that it does not know,
    /// with one walk for all of `ids`. Files that were elsewhere are looked for again when a name
    /// was added below the top: they may have been moved there.
    pub fn paths(&mut self, ids: &[FileId]) -> io::Result<HashMap<FileId, PathBuf>> {
        let mut paths = HashMap::new();
        let (mut unknown, mut were_elsewhere) = (false, false);
        for id in ids {
            match self.identities.path(*id, &self.mount) {
                Some(path) => drop(paths.insert(*id, path)),
                None if self.elsewhere.contains(id) => were_elsewhere = true,
                None => unknown = true,
            }
        }
        if !(unknown || were_elsewhere && self.directories.have_changed()) {
            return Ok(paths);
        }
        let (identities, mount) = (&mut self.identities, &self.mount);
        let (_, directories) = Directories::of_walk(&self.top, &mut |found| {
            identities.insert(FileId::of(found.file, mount)?, found.path);
            Ok(())
        })?;
        self.directories = directories;
        self.elsewhere.clear();
        for id in ids
            .iter()
            .filter(|id| !paths.contains_key(id))
            .copied()
            .collect::<Vec<_>>()
        {
            match self.identities.path(id, &self.mount) {
                Some(path) => drop(paths.insert(id, path)),
                None => drop(self.elsewhere.insert(id)),
            }
        }
        Ok(paths)
    }
}

/// Events of the file system, or why there are none.
fn by_events(mount: &Mount, chunks_max: u32) -> Result<Ebpf, String> {
    let kind = match mount.kind.as_str() {
        kind @ ("ext4" | "xfs" | "btrfs") => kind,
        _ if mount.is_fuse() => "fuse",
        other => {
            return Err(format!("page events of {other} may be incomplete"));
        }
    };
    Ebpf::watch(mount.device, kind, chunks_max).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::open;
    use std::fs;

    #[test]
    fn a_file_that_is_moved_into_the_tree_gets_its_name() {
        let top = tempfile::tempdir_in(".").unwrap();
        let name = |name: &str| top.path().join(name);
        fs::create_dir_all(name("tree/sub")).unwrap();
        fs::write(name("tree/known"), "x").unwrap();
        fs::write(name("new"), "x").unwrap();
        let duet = Duet::new(duet::DuetOptions {
            items_max: 16,
            seed: 0,
        });
        let mut watch = Watch::start_polling(&name("tree"), duet).unwrap();
        watch.scan().unwrap();
        let id = FileId::of(&open(&name("new")).unwrap(), watch.mount()).unwrap();
        assert!(watch.paths(&[id]).unwrap().is_empty());
        assert!(watch.elsewhere.contains(&id));
        // Nobody walks again for a file that is known to be elsewhere.
        assert!(watch.paths(&[id]).unwrap().is_empty());
        for to in ["tree/new", "tree/sub/new"] {
            fs::rename(name("new"), name(to)).unwrap();
            let found = watch.paths(&[id]).unwrap();
            assert_eq!(found.get(&id), Some(&name(to)), "after a move to {to}");
            fs::rename(name(to), name("new")).unwrap();
            assert!(watch.paths(&[id]).unwrap().is_empty());
        }
    }
}

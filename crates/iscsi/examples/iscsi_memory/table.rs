//! Manages targets that are added, changed and removed while the server runs.
//!
//! Invariant: a removed target can no longer be opened before its sessions are closed.

use iscsi::{ServerHandle, TargetAccess, TargetUnit, Targets};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use volume::{MemoryVolume, Volume};

/// A target, and its memory if it is in memory.
struct Entry {
    volume: Arc<dyn Volume>,
    memory: Option<MemoryVolume>,
    access: TargetAccess,
}

/// Current targets.
#[derive(Default)]
pub(crate) struct Table(RwLock<BTreeMap<String, Entry>>);

impl Table {
    pub(crate) fn add(
        &self,
        name: &str,
        volume: Arc<dyn Volume>,
        memory: Option<MemoryVolume>,
        access: TargetAccess,
    ) {
        let entry = Entry {
            volume,
            memory,
            access,
        };
        self.0.write().insert(name.to_owned(), entry);
    }

    /// Executes one line: `add TARGET BYTES`, `remove TARGET`, `resize TARGET BYTES`,
    /// `sessions TARGET`.
    pub(crate) fn command(&self, line: &str, server: &ServerHandle) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = |word: &str| word.parse().map_err(|e| format!("{word}: {e}"));
        match words[..] {
            ["add", name, size] => {
                let memory = MemoryVolume::new(bytes(size)?);
                let volume = Arc::new(memory.clone());
                self.add(name, volume, Some(memory), TargetAccess::default());
                Ok(format!("added {name}"))
            }
            ["remove", name] => {
                let removed = self.0.write().remove(name);
                removed.ok_or("no such target")?;
                Ok(format!("removed, {} sessions", server.close_target(name)))
            }
            ["resize", name, size] => {
                self.memory(name)?.resize(bytes(size)?);
                Ok(format!("resized {name}"))
            }
            ["sessions", name] => Ok(format!("{} sessions", server.sessions(name))),
            _ => Err(format!("what is {line:?}?")),
        }
    }

    fn memory(&self, name: &str) -> Result<MemoryVolume, String> {
        let table = self.0.read();
        let entry = table.get(name).ok_or("no such target")?;
        entry.memory.clone().ok_or("not in memory".to_owned())
    }
}

impl Targets for Table {
    fn list(&self) -> Vec<(String, TargetAccess)> {
        let table = self.0.read();
        let all = table.iter();
        all.map(|(name, entry)| (name.clone(), entry.access.clone()))
            .collect()
    }

    fn access(&self, name: &str) -> Option<TargetAccess> {
        let table = self.0.read();
        table.get(name).map(|entry| entry.access.clone())
    }

    fn open(&self, name: &str) -> Option<Vec<TargetUnit>> {
        let table = self.0.read();
        let volume = table.get(name)?.volume.clone();
        Some(vec![TargetUnit {
            number: 0,
            volume,
            identity: None,
            reservations: None,
        }])
    }
}

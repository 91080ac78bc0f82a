//! Manages exports that are added, changed and removed while the server runs.
//!
//! Invariant: a removed export can no longer be opened before its clients are closed.

use nbd::{ExportEntry, Exports, ServerHandle};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use volume::{MemoryVolume, Volume};

/// An export, and its memory if it is in memory.
struct Entry {
    volume: Arc<dyn Volume>,
    memory: Option<MemoryVolume>,
}

/// Current exports.
#[derive(Default)]
pub(crate) struct Table(RwLock<BTreeMap<String, Entry>>);

impl Table {
    pub(crate) fn add(&self, name: &str, volume: Arc<dyn Volume>, memory: Option<MemoryVolume>) {
        let mut table = self.0.write();
        table.insert(name.to_owned(), Entry { volume, memory });
    }

    /// Executes one line: `add EXPORT BYTES`, `remove EXPORT`, `resize EXPORT BYTES`,
    /// `mark EXPORT STATE`.
    pub(crate) fn command(&self, line: &str, server: &ServerHandle) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = |word: &str| word.parse().map_err(|e| format!("{word}: {e}"));
        match words[..] {
            ["add", name, size] => {
                let memory = MemoryVolume::new(bytes(size)?);
                self.add(name, Arc::new(memory.clone()), Some(memory));
                Ok(format!("added {name}"))
            }
            ["remove", name] => {
                let mut table = self.0.write();
                table.remove(name).ok_or("no such export")?;
                drop(table);
                Ok(format!("removed, {} clients", server.close_export(name)))
            }
            ["resize", name, size] => {
                self.memory(name)?.resize(bytes(size)?);
                Ok(format!("resized {name}"))
            }
            ["mark", name, state] => {
                self.memory(name)?.mark(state);
                Ok(format!("marked {state}"))
            }
            _ => Err(format!("what is {line:?}?")),
        }
    }

    fn memory(&self, name: &str) -> Result<MemoryVolume, String> {
        let table = self.0.read();
        let entry = table.get(name).ok_or("no such export")?;
        entry.memory.clone().ok_or("not in memory".to_owned())
    }
}

impl Exports for Table {
    fn list(&self) -> Vec<ExportEntry> {
        let table = self.0.read();
        let entry = |(name, entry): (&String, &Entry)| {
            let info = entry.volume.info();
            ExportEntry {
                name: name.clone(),
                description: info.description,
                size_bytes: info.size_bytes,
            }
        };
        table.iter().map(entry).collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Volume>> {
        let table = self.0.read();
        table.get(name).map(|entry| entry.volume.clone())
    }
}

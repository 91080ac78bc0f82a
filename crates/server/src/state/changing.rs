//! Exports that a command is changing. Commands announce it; the exports and the mounts of a server
//! open none of these.
//!
//! Invariant: a client that opens an export is counted before it looks here. So between the call
//! that disconnects its clients and the end of the change, none is connected.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The exports that are being changed, and by how many commands.
#[derive(Default)]
pub struct Changes(Mutex<BTreeMap<String, usize>>);

impl Changes {
    /// Refuses to open an export until the result is dropped.
    pub fn begin(changes: &Arc<Self>, export: &str) -> Changing {
        *changes.0.lock().entry(export.to_owned()).or_default() += 1;
        Changing {
            changes: Arc::clone(changes),
            export: export.to_owned(),
        }
    }

    /// Returns true if clients must not open the export now.
    pub fn has(&self, export: &str) -> bool {
        self.0.lock().contains_key(export)
    }
}

/// A change of an export that is in progress.
#[must_use]
pub struct Changing {
    changes: Arc<Changes>,
    export: String,
}

impl Drop for Changing {
    fn drop(&mut self) {
        let mut all = self.changes.0.lock();
        match all.get_mut(&self.export) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                all.remove(&self.export);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_changes_until_the_last_command_ends() {
        let changes = Arc::<Changes>::default();
        let (one, two) = (Changes::begin(&changes, "a"), Changes::begin(&changes, "a"));
        drop(one);
        assert!(changes.has("a") && !changes.has("b"));
        drop(two);
        assert!(!changes.has("a"));
    }
}

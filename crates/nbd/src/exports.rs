//! Lists the exports of a server. The program implements [`Exports`] over its pools; tests and
//! small servers use [`FixedExports`].
//!
//! Invariant: names are at most 4096 bytes. Longer ones can be neither listed nor requested.

use std::collections::BTreeMap;
use std::sync::Arc;
use volume::Volume;

/// One line of a list of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEntry {
    /// Name that clients request.
    pub name: String,
    /// One line for humans; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// The volumes that clients can choose from. All connection threads may call this at once.
pub trait Exports: Send + Sync {
    /// Returns all exports, in display order.
    fn list(&self) -> Vec<ExportEntry>;

    /// Returns the volume called `name`, or `None` if there is none.
    ///
    /// Clients may open the same name over several connections, and the server announces that this
    /// is safe. All opens of one name must therefore see each other's writes, and a flush through
    /// one must cover the acknowledged writes of all.
    fn open(&self, name: &str) -> Option<Arc<dyn Volume>>;

    /// Returns the name that the empty name stands for: the only export if there is just one.
    fn default_name(&self) -> Option<String> {
        let mut all = self.list().into_iter();
        match (all.next(), all.next()) {
            (Some(only), None) => Some(only.name),
            _ => None,
        }
    }
}

/// A fixed set of exports.
#[derive(Clone, Default)]
pub struct FixedExports {
    volumes: BTreeMap<String, Arc<dyn Volume>>,
    default: Option<String>,
}

impl FixedExports {
    /// Exports `volume` as `name`.
    pub fn with(mut self, name: &str, volume: Arc<dyn Volume>) -> Self {
        self.volumes.insert(name.to_owned(), volume);
        self
    }

    /// Makes the empty name stand for `name`.
    pub fn with_default(mut self, name: &str) -> Self {
        self.default = Some(name.to_owned());
        self
    }
}

impl Exports for FixedExports {
    fn list(&self) -> Vec<ExportEntry> {
        let entry = |(name, volume): (&String, &Arc<dyn Volume>)| {
            let info = volume.info();
            ExportEntry {
                name: name.clone(),
                description: info.description,
                size_bytes: info.size_bytes,
            }
        };
        self.volumes.iter().map(entry).collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Volume>> {
        self.volumes.get(name).cloned()
    }

    fn default_name(&self) -> Option<String> {
        if self.default.is_some() {
            return self.default.clone();
        }
        match self.volumes.len() {
            1 => self.volumes.keys().next().cloned(),
            _ => None,
        }
    }
}

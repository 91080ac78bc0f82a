//! What a server offers.
//!
//! Invariant: names are at most 4096 bytes; longer ones can be neither listed nor asked for.
//! The program implements [`Exports`] over its pools; tests and small servers use
//! [`FixedExports`].

use std::collections::BTreeMap;
use std::sync::Arc;
use volume::Volume;

/// One line of a list of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEntry {
    /// What clients ask for.
    pub name: String,
    /// One line for humans; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// The volumes that clients can choose from. Called from every connection's thread at once.
pub trait Exports: Send + Sync {
    /// All exports, in the order to show them.
    fn list(&self) -> Vec<ExportEntry>;

    /// The volume called `name`, or `None` if there is none.
    ///
    /// Clients may open the same name over several connections and are told that this is safe:
    /// all opens of one name must see each other's writes, and a flush through one must cover
    /// the acknowledged writes of all.
    fn open(&self, name: &str) -> Option<Arc<dyn Volume>>;

    /// What the empty name means: the only export if there is just one.
    fn default_name(&self) -> Option<String> {
        let mut all = self.list().into_iter();
        match (all.next(), all.next()) {
            (Some(only), None) => Some(only.name),
            _ => None,
        }
    }
}

/// Exports that do not change while the server runs.
#[derive(Clone, Default)]
pub struct FixedExports {
    volumes: BTreeMap<String, Arc<dyn Volume>>,
    default: Option<String>,
}

impl FixedExports {
    /// Offers `volume` as `name`.
    pub fn with(mut self, name: &str, volume: Arc<dyn Volume>) -> Self {
        self.volumes.insert(name.to_owned(), volume);
        self
    }

    /// Lets the empty name mean `name`.
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

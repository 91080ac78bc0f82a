//! What the clients of a server that holds its pool can choose from.
//!
//! Invariant: asked anew for every list and every open: what was stored or removed since the start
//! is there or gone. Who has opened a state keeps it.

use super::image_volume;
use crate::commands::snapshot_choice::{SnapshotFilter, choose_named, short_id};
use crate::held::Held;
use format::snapshot::{Snapshot, SnapshotKind};
use jiff::tz::TimeZone;
use nbd::{ExportEntry, Exports};
use std::collections::BTreeMap;
use std::sync::Arc;
use volume::Volume;

/// Images: each as NAME, its newest state, and as NAME@SNAPSHOT.
pub struct HeldExports {
    held: Arc<Held>,
    zone: TimeZone,
}

impl HeldExports {
    pub fn new(held: Arc<Held>, zone: TimeZone) -> Self {
        Self { held, zone }
    }

    /// Names and what they show. A catalog that cannot be read shows less.
    fn all(&self) -> BTreeMap<String, Snapshot> {
        let snapshots = self.held.pool.snapshots_readable();
        let (snapshots, _) = snapshots.unwrap_or_default();
        let mut all = BTreeMap::new();
        // Oldest first: the newest state keeps the plain name.
        for snapshot in snapshots {
            if snapshot.kind == SnapshotKind::Image {
                let state = format!("{}@{}", snapshot.name, short_id(&snapshot));
                all.insert(snapshot.name.clone(), snapshot.clone());
                all.insert(state, snapshot);
            }
        }
        all
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.all().into_keys().collect()
    }
}

impl Exports for HeldExports {
    fn list(&self) -> Vec<ExportEntry> {
        let entry = |(name, snapshot): (String, Snapshot)| ExportEntry {
            description: format!("image of {}", short_id(&snapshot)),
            size_bytes: snapshot.root.len,
            name,
        };
        self.all().into_iter().map(entry).collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Volume>> {
        let pool = &self.held.pool;
        let (snapshots, _) = pool.snapshots_readable().ok()?;
        let found = choose_named(&snapshots, name, &SnapshotFilter::default());
        let snapshot = found.ok().filter(|s| s.kind == SnapshotKind::Image)?;
        let (root, what) = (snapshot.root, &snapshot.name);
        Some(Arc::new(image_volume(
            pool, snapshot, root, what, &self.zone,
        )))
    }

    fn default_name(&self) -> Option<String> {
        let mut plain = self.names().into_iter().filter(|name| !name.contains('@'));
        match (plain.next(), plain.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }
}

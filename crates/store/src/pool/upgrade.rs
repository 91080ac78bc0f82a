//! Adds features to a pool that an older program made. The program calls this.
//!
//! Invariant: nothing is stored that needs a feature before both copies of the config name it and
//! are durable. A feature is never removed.

use super::Pool;
use chunk_store::Result;
use chunk_store::superblock::put_config;
use format::config::{
    Config, FEATURE_INCOMPAT_OWNERS, FEATURE_RO_COMPAT_JOURNAL_PLACE,
    FEATURE_RO_COMPAT_RESERVATIONS, FEATURES_INCOMPAT_KNOWN,
};
use format::snapshot::{OwnerNames, Snapshot};
use media::Barrier;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use units::SnapshotId;

impl Pool {
    /// Returns the features that new pools have and this one does not: bits of
    /// `features_incompat`.
    pub fn features_lacking(&self) -> u64 {
        FEATURES_INCOMPAT_KNOWN & !self.storage.features.load(Ordering::Relaxed)
    }

    /// Adds these features, durable on return. Sessions that begin later use them. Programs that do
    /// not know them refuse the pool from now on.
    pub fn upgrade(&self) -> Result<()> {
        self.storage.check_writable()?;
        if self.features_lacking() == 0 {
            return Ok(());
        }
        let mut config = self.storage.config_now();
        config.features_incompat |= FEATURES_INCOMPAT_KNOWN;
        self.add_features(&config)
    }

    /// Returns true if the journal may be on another device.
    pub fn has_journal_place(&self) -> bool {
        self.has_ro_feature(FEATURE_RO_COMPAT_JOURNAL_PLACE)
    }

    fn has_ro_feature(&self, feature: u64) -> bool {
        self.storage.features_ro.load(Ordering::Relaxed) & feature != 0
    }

    /// Lets the journal be on another device, durable on return. Programs that do not know of that
    /// refuse to write to the pool from now on.
    pub fn add_journal_place(&self) -> Result<()> {
        self.add_ro_feature(FEATURE_RO_COMPAT_JOURNAL_PLACE)
    }

    /// Returns true if the catalog may have persistent reservations.
    pub fn has_reservations(&self) -> bool {
        self.has_ro_feature(FEATURE_RO_COMPAT_RESERVATIONS)
    }

    /// Lets the catalog have persistent reservations, durable on return. Programs that do not know
    /// them refuse to write to the pool from now on.
    pub fn add_reservations(&self) -> Result<()> {
        self.add_ro_feature(FEATURE_RO_COMPAT_RESERVATIONS)
    }

    fn add_ro_feature(&self, feature: u64) -> Result<()> {
        self.storage.check_writable()?;
        if self.has_ro_feature(feature) {
            return Ok(());
        }
        let mut config = self.storage.config_now();
        config.features_ro_compat |= feature;
        self.add_features(&config)
    }

    fn add_features(&self, config: &Config) -> Result<()> {
        let storage = &self.storage;
        put_config(&*storage.media.blobs, config)?;
        storage.media.blobs.barrier(Barrier::ConfigBeforeAck)?;
        let (features, features_ro) = (config.features_incompat, config.features_ro_compat);
        storage.features.store(features, Ordering::Relaxed);
        storage.features_ro.store(features_ro, Ordering::Relaxed);
        Ok(())
    }

    /// Returns a snapshot without the fields that no reader of this pool needs to know: names of
    /// owners, and the snapshot that it is a rewrite of.
    pub(super) fn storable<'a>(&self, snapshot: &'a Snapshot) -> Cow<'a, Snapshot> {
        if self.storage.features.load(Ordering::Relaxed) & FEATURE_INCOMPAT_OWNERS != 0 {
            return Cow::Borrowed(snapshot);
        }
        Cow::Owned(Snapshot {
            owners: OwnerNames::default(),
            original: SnapshotId::default(),
            ..snapshot.clone()
        })
    }
}

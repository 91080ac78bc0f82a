//! Knowledge of an observer of all acknowledgements of a pool. `process` and `examine` use it.
//!
//! Invariant: tiny and obvious; it knows nothing of containers, roots or indexes.

use super::source::Source;
use format::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use store::SecretKey;
use units::SnapshotId;

/// A snapshot and its required contents.
#[derive(Clone, PartialEq, Eq)]
pub struct Truth {
    /// Its record.
    pub snapshot: Snapshot,
    /// Its contents.
    pub source: Arc<Source>,
}

/// Effect of one acknowledged operation. Keys are numbered, see [`secret`].
#[derive(Clone)]
pub enum Change {
    /// A new pool with these keys; none: not encrypted.
    Init(Vec<u32>),
    /// Adds a key.
    AddKey(u32),
    /// Removes a key.
    RemoveKey(u32),
    /// A commit; added records may replace removed ones.
    Commit {
        /// New records.
        add: Vec<Truth>,
        /// Removed records.
        remove: Vec<SnapshotId>,
    },
    /// Stored bytes that no snapshot needs change.
    Rot,
    /// The damage is put into quarantine.
    Repair,
    /// Gc runs from now on.
    Collect,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init(keys) => write!(f, "init {keys:?}"),
            Self::AddKey(key) => write!(f, "add key {key}"),
            Self::RemoveKey(key) => write!(f, "remove key {key}"),
            Self::Rot => write!(f, "rot"),
            Self::Repair => write!(f, "repair"),
            Self::Collect => write!(f, "collect"),
            Self::Commit { add, remove } => {
                let added: Vec<_> = add
                    .iter()
                    .map(|t| (&t.snapshot.name, t.snapshot.id))
                    .collect();
                write!(f, "commit {added:?} without {remove:?}")
            }
        }
    }
}

/// A pool as its users know it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The pool exists.
    pub exists: bool,
    /// Keys that open it; without any it is not encrypted.
    pub keys: BTreeSet<u32>,
    /// Keys that must not open it any more.
    pub keys_removed: BTreeSet<u32>,
    /// Snapshots.
    pub snapshots: BTreeMap<SnapshotId, Truth>,
    /// Removed snapshots, which may be in the trash.
    pub removed: BTreeMap<SnapshotId, Truth>,
    /// Check may find damage that affects no snapshot.
    pub is_rotten: bool,
    /// Copies may exist beside their originals, and containers may be named but deleted.
    pub is_collected: bool,
}

impl Model {
    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Init(keys) => {
                self.exists = true;
                self.keys.extend(keys);
            }
            Change::AddKey(key) => {
                self.keys.insert(*key);
            }
            Change::RemoveKey(key) => {
                self.keys.remove(key);
                self.keys_removed.insert(*key);
            }
            Change::Rot => self.is_rotten = true,
            Change::Repair => self.is_rotten = false,
            Change::Collect => self.is_collected = true,
            Change::Commit { add, remove } => {
                for id in remove {
                    if let Some(truth) = self.snapshots.remove(id) {
                        self.removed.insert(*id, truth);
                    }
                }
                for truth in add {
                    self.snapshots.insert(truth.snapshot.id, truth.clone());
                }
            }
        }
    }

    /// The snapshot taken last.
    pub fn newest(&self) -> Option<&Truth> {
        let taken = |t: &&Truth| t.snapshot.taken;
        self.snapshots.values().max_by_key(taken)
    }

    /// The snapshots taken first.
    pub fn oldest(&self, count: usize) -> Vec<Truth> {
        let mut all: Vec<Truth> = self.snapshots.values().cloned().collect();
        all.sort_by_key(|truth| truth.snapshot.taken);
        all.truncate(count);
        all
    }
}

/// Returns the key of a number. One in eight is a password. Recovery keys need no key stretching,
/// so they open most states.
pub fn secret(number: u32) -> SecretKey {
    if is_password(number) {
        return SecretKey::Password(format!("password {number}").into_bytes());
    }
    let mut key = [0x5a; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    SecretKey::Recovery(key)
}

/// Returns true for numbers whose key takes long to try.
pub(super) fn is_password(number: u32) -> bool {
    number % 8 == 5
}

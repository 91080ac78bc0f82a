//! Names every point at which the program waits for durability, in one place. The store and
//! `dir_blobs` pass them.
//!
//! Invariant: no sync is issued without one of these names. The simulator can therefore omit
//! exactly one of them, and a test can prove that it is needed (style 11).

/// A durability point. Each comment says which data must be durable before which.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Barrier {
    /// A blob's bytes, before its final name appears: a name never leads to torn bytes.
    BlobBeforeName,
    /// A new directory's entry in its parent, before the names in it count as durable.
    DirectoryBeforeNames,
    /// Names of config and first key, before the first root: a root means a pool that opens.
    PoolBeforeRoot,
    /// Names of all containers that a root can reach, before the root's bytes are put.
    ContainersBeforeRoot,
    /// The root's name, before the commit is acknowledged.
    RootBeforeAck,
    /// The root that opening found, before older ones are removed. A killed process may have left
    /// it visible to the next process but not durable.
    RootBeforeOldRoots,
    /// The removal of old roots, before the deletion of containers that they may reach. A pool is
    /// never rewound to an incomplete commit.
    RootsBeforeContainers,
    /// The names of the remaining key slots, before one is removed. A killed process may have left
    /// them visible to the next process but not durable.
    KeysBeforeRemoval,
    /// A new key slot's name, or the removal of one, before the command reports success.
    KeyBeforeAck,
    /// Both names of a config with more features, before the command reports success and before a
    /// writer uses one of them.
    ConfigBeforeAck,
    /// Index buckets, before the index header says clean; then the header. An index that lost
    /// entries would store chunks twice; one without a clean header is rebuilt.
    IndexBeforeClean,
    /// Buckets in the index's copy on a faster device, before its stamp says that it equals the
    /// file; and the erasure of the stamp, before the file changes. A copy with other buckets than
    /// the file's would hide chunks.
    IndexCopyBeforeStamp,
    /// The root that opening found, before a flush is acknowledged on top of it. A killed process
    /// may have left it visible to the next process but not durable.
    RootBeforeJournal,
    /// Containers that journal records refer to, before a flush of these records is acknowledged.
    ContainersBeforeJournal,
    /// Names of the journal's slots, before a record in one of them counts as durable.
    JournalSlotsBeforeUse,
    /// Records in the journal's last slot that may be only in the page cache (the process died or
    /// its sync failed), before anything relies on them.
    JournalReplayBeforeUse,
    /// Records of a full slot, before the next slot's header says where they end.
    JournalBeforeNextSlot,
    /// Records, before a flush is acknowledged.
    JournalBeforeAck,
    /// Names of the files that record the journal's reach, before a flush is acknowledged that only
    /// they confirm.
    ReachNamesBeforeUse,
    /// Contents of these files, before the first flush in a slot is acknowledged, and regularly
    /// before later ones.
    ReachBeforeAck,
    /// The name that the fast device gets for the journal, before the pool says that the journal is
    /// there.
    JournalDeviceBeforePlace,
    /// The record of where the journal is, before anything is written to the journal there, or the
    /// device is no longer needed.
    JournalPlaceBeforeUse,
}

impl Barrier {
    /// All points, in declaration order.
    pub const ALL: [Self; 22] = [
        Self::BlobBeforeName,
        Self::DirectoryBeforeNames,
        Self::PoolBeforeRoot,
        Self::ContainersBeforeRoot,
        Self::RootBeforeAck,
        Self::RootBeforeOldRoots,
        Self::RootsBeforeContainers,
        Self::KeysBeforeRemoval,
        Self::KeyBeforeAck,
        Self::ConfigBeforeAck,
        Self::IndexBeforeClean,
        Self::IndexCopyBeforeStamp,
        Self::RootBeforeJournal,
        Self::ContainersBeforeJournal,
        Self::JournalSlotsBeforeUse,
        Self::JournalReplayBeforeUse,
        Self::JournalBeforeNextSlot,
        Self::JournalBeforeAck,
        Self::ReachNamesBeforeUse,
        Self::ReachBeforeAck,
        Self::JournalDeviceBeforePlace,
        Self::JournalPlaceBeforeUse,
    ];
}

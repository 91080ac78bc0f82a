//! Every point at which the program waits for durability, by name and in one place.
//!
//! Invariant: no sync is issued without one of these names, so that the simulator can leave out
//! exactly one of them and a test can prove that it is needed (style 11).

/// A durability point. The comment says what must be durable before what.
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
    /// The root that opening found, before older ones are removed: a killed process may have left it
    /// where the next one sees it and a power loss does not.
    RootBeforeOldRoots,
    /// The removal of old roots, before containers go that they may reach: a pool is never rewound to
    /// a commit that is not whole.
    RootsBeforeContainers,
    /// The names of the key slots that stay, before one is removed: a killed process may have left
    /// them where the next one sees them and a power loss does not.
    KeysBeforeRemoval,
    /// A new key slot's name, or the removal of one, before the command says so.
    KeyBeforeAck,
    /// Index buckets, before the index header calls itself clean; then the header. An index that
    /// lost entries would store chunks twice; one without a clean header is built anew.
    IndexBeforeClean,
    /// The root that opening found, before a flush is acknowledged on top of it: a killed process
    /// may have left it where the next one sees it and a power loss does not.
    RootBeforeJournal,
    /// Containers that journal records refer to, before a flush of these records is acknowledged.
    ContainersBeforeJournal,
    /// Names of the journal's slots, before a record in one of them counts as durable.
    JournalSlotsBeforeUse,
    /// What was found in the journal's last slot and may have been in the page cache only (its
    /// process died, its sync failed), before anybody acts on it.
    JournalReplayBeforeUse,
    /// Records of a slot that is full, before the next slot's header says where they end.
    JournalBeforeNextSlot,
    /// Records, before a flush is acknowledged.
    JournalBeforeAck,
    /// Names of the files that say how far the journal reaches, before a flush is acknowledged that
    /// only they vouch for.
    ReachNamesBeforeUse,
    /// What they say, before the first flush in a slot is acknowledged, and every so many later
    /// ones.
    ReachBeforeAck,
}

impl Barrier {
    /// All of them, in declaration order.
    pub const ALL: [Self; 18] = [
        Self::BlobBeforeName,
        Self::DirectoryBeforeNames,
        Self::PoolBeforeRoot,
        Self::ContainersBeforeRoot,
        Self::RootBeforeAck,
        Self::RootBeforeOldRoots,
        Self::RootsBeforeContainers,
        Self::KeysBeforeRemoval,
        Self::KeyBeforeAck,
        Self::IndexBeforeClean,
        Self::RootBeforeJournal,
        Self::ContainersBeforeJournal,
        Self::JournalSlotsBeforeUse,
        Self::JournalReplayBeforeUse,
        Self::JournalBeforeNextSlot,
        Self::JournalBeforeAck,
        Self::ReachNamesBeforeUse,
        Self::ReachBeforeAck,
    ];
}

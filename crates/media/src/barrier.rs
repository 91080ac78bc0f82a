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
    /// The names of the key slots that stay, before one is removed: a killed process may have left
    /// them where the next one sees them and a power loss does not.
    KeysBeforeRemoval,
    /// A new key slot's name, or the removal of one, before the command says so.
    KeyBeforeAck,
    /// Index buckets, before the index header calls itself clean; then the header. An index that
    /// lost entries would store chunks twice; one without a clean header is built anew.
    IndexBeforeClean,
}

impl Barrier {
    /// All of them, in declaration order.
    pub const ALL: [Self; 8] = [
        Self::BlobBeforeName,
        Self::DirectoryBeforeNames,
        Self::PoolBeforeRoot,
        Self::ContainersBeforeRoot,
        Self::RootBeforeAck,
        Self::KeysBeforeRemoval,
        Self::KeyBeforeAck,
        Self::IndexBeforeClean,
    ];
}

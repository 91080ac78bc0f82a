//! The engine over `chunk_store`: a pool with its read path, write path, recovery and check, and
//! the primitives of garbage collection and defragmentation. It knows no volume, protocol or
//! command line. `volumes`, `maintenance`, `archive` and the program call it.
//!
//! ```text
//! pool -> read_path, write_path, recovery, check, collect, defragment -> chunk_store -> media
//! ```
//!
//! Invariant: a commit is acknowledged only when everything it refers to is durable. Bytes are
//! returned only after this process verified them.
//!
//! Modules stand in pipeline order and import only to their left; `cargo xtask tidy` checks it.
#![forbid(unsafe_code)]

mod budget;
mod check;
mod collect;
mod defragment;
mod pool;
mod recovery;
mod space;
mod worker;
mod write_path;

pub use budget::PoolMemory;
pub use check::{Affected, CheckDepth, CheckProgress, CheckReport};
pub use chunk_store::catalog::{Discarded, Forgotten, InventoryEntry, TrashedContainer};
pub use chunk_store::chunk_map::LookupCounts;
pub use chunk_store::container::RegionPlace;
pub use chunk_store::index::{IndexCopyState, IndexCopyStatus};
pub use chunk_store::recipe::{ChunkRun, LostPart, ObjectBuilder, Repairing, VisitPiece};
pub use chunk_store::superblock::{MasterKey, NewSecret, SecretKey, SlotInfo};
pub use chunk_store::{Result, StoreError, StoreErrorKind};
pub use collect::{
    CachedChunks, ContainerUsage, CopyCounts, CopyRound, Deletable, Deletion, Expiry, GcPermit,
    GcStep, HeldCounts, Mark, MarkSummary, MarkedContainer, Needed, NothingCached, OpenVolumes,
    Owners, Purged, Retired, RoundResult, SnapshotExpiry,
};
pub use defragment::{
    Copying, Cost, Fragmentable, Move, MoveCounts, Mover, Moves, Places, read_at_once,
};
pub use pool::{
    DamageHints, Damaged, Health, HeldBack, Hold, HolderKind, Holders, InitOptions, Keys,
    KnownDamage, OpenMode, OpenSnapshot, Pool, Purpose, ReaderSeen, RecordSlots, Repair,
    SnapshotHolder, SnapshotRoot, SpaceCounts, Unlocked, Verification, Watch, is_no_pool,
    trace_key,
};
pub use read_path::{
    Admit, Approach, ChunkRef, ImageVolume, Keep, Loaded, ObjectHistory, ReadCounts, Reader,
    RecentRegions, Route, changed_ranges, is_comparable, tell_changes,
};
pub use space::MarkCounts;
pub use write_path::{
    Base, Committed, GrowingObject, IMAGE_REGION_BYTES, Lane, LaneOptions, Probe, RegionKind,
    WriteCounts, WriteSession,
};

// Unit tests share files with `tests/`, and those files name the crate.
#[cfg(test)]
extern crate self as store;
#[cfg(test)]
mod testing;

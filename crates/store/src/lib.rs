//! The engine: containers, fingerprint index, recipes, catalog, read path, write path, recovery,
//! check. It knows no protocol and no command line.
//!
//! Modules stand in pipeline order and import only to their left; `cargo xtask tidy` checks it.
#![forbid(unsafe_code)]

mod error;
// Pipeline order, left to right.
mod budget;
pub mod catalog;
mod check;
mod chunk_map;
mod collect;
pub mod container;
mod defragment;
mod device;
mod index;
mod pool;
mod read_path;
pub mod recipe;
mod recovery;
mod space;
pub mod superblock;
mod write_path;

pub use budget::PoolMemory;
pub use catalog::{Discarded, Forgotten, InventoryEntry, TrashedContainer};
pub use check::{Affected, CheckDepth, CheckProgress, CheckReport};
pub use chunk_map::LookupCounts;
pub use collect::{
    CachedChunks, ContainerUsage, CopyCounts, CopyRound, Deletable, Deletion, Expiry, GcPermit,
    GcStep, HeldCounts, Mark, MarkSummary, MarkedContainer, Needed, NothingCached, OpenVolumes,
    Purged, Retired, RoundResult, SnapshotExpiry,
};
pub use container::{Region, RegionPlace};
pub use defragment::{
    Copying, Cost, Fragmentable, Move, MoveCounts, Mover, Moves, Places, read_at_once,
};
pub use device::{
    DeviceQueue, FlowCounts, PacedDisk, RequestQueue, StepTurn, Turn, Writes, flow_of,
};
pub use error::{Result, StoreError, StoreErrorKind};
pub use index::{Coverage, FingerprintIndex, Found, IndexCounters, Location, Opened};
pub use pool::{
    DamageHints, Damaged, HeldBack, Hold, HolderKind, InitOptions, KnownDamage, OpenMode,
    OpenSnapshot, Pool, Purpose, ReaderSeen, RecordSlots, Repair, SnapshotHolder, SnapshotRoot,
    SpaceCounts, Unlocked, Verification, is_no_pool, trace_key,
};
pub use read_path::{
    Approach, ChunkRef, History, ImageVolume, Keep, Loaded, ReadCounts, Reader, Route,
    changed_ranges, is_comparable, tell_changes,
};
pub use recipe::{ChunkRun, LostPart, Mending, ObjectBuilder, VisitPiece};
pub use space::MarkCounts;
pub use superblock::{MasterKey, NewSecret, SecretKey, SlotInfo};
pub use write_path::{
    Base, Committed, GrowingObject, Lane, LaneOptions, Probe, WriteCounts, WriteSession,
};

#[cfg(test)]
extern crate self as store;

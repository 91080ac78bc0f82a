//! The engine: containers, fingerprint index, recipes, catalog, read path, write path, recovery,
//! check. It knows no protocol and no command line.
//!
//! Modules stand in pipeline order and import only to their left; `cargo xtask tidy` checks it.
#![forbid(unsafe_code)]

mod error;
// Pipeline order, left to right.
mod budget;
mod catalog;
mod check;
mod chunk_map;
mod collect;
mod container;
mod defragment;
mod device;
mod index;
mod journal;
mod pool;
mod read_path;
mod recipe;
mod recovery;
mod space;
mod superblock;
mod volumes;
mod write_path;

pub use budget::{PoolMemory, VolumesMemory};
pub use catalog::{Discarded, Forgotten, InventoryEntry, TrashedContainer};
pub use check::{Affected, CheckDepth, CheckProgress, CheckReport};
pub use chunk_map::LookupCounts;
pub use collect::{
    CachedChunks, ContainerUsage, CopyCounts, CopyRound, Deletable, Deletion, Expiry, GcPermit,
    GcStep, HeldCounts, Mark, MarkSummary, MarkedContainer, NothingCached, Purged, Retired,
    RoundResult, SnapshotExpiry,
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
pub use journal::{
    Inspection, Journal, JournalDamage, JournalOptions, JournalUsage, LostWrites, Record,
};
pub use pool::{
    DamageHints, Damaged, HeldBack, Hold, HolderKind, InitOptions, KnownDamage, OpenMode,
    OpenSnapshot, Pool, ReaderSeen, RecordSlots, Repair, SnapshotHolder, SnapshotRoot, SpaceCounts,
    Unlocked, Verification, is_no_pool,
};
pub use read_path::{ChunkRef, History, ImageVolume, ReadCounts, Reader};
pub use recipe::{ChunkRun, LostPart, Mending, ObjectBuilder, VisitPiece};
pub use space::MarkCounts;
pub use superblock::{MasterKey, NewSecret, SecretKey, SlotInfo};
pub use volumes::{
    AccessOptions, CacheMeter, CacheTally, CheckpointCounts, DecisionCounters, DirectLimits,
    KeptWrites, MemoryByOwner, RestraintCounts, States, Step, Switches, Thresholds, View,
    VolumeHandle, VolumeStatus, Volumes, VolumesOptions,
};
pub use write_path::{
    Committed, GrowingObject, Lane, LaneOptions, Probe, WriteCounts, WriteSession,
};

//! The fast tier: a cache of chunks on a device that is faster than the pool's (DDFS, ATC'18;
//! Differentiated Storage Services, SOSP'11). The store calls this.
//!
//! ```text
//! offer --> staging, by class --step--> cache block --one write--> slot of the tier's file
//! lookup --> index in memory --> slot, offset --one read--> seal, fingerprint --> chunk
//! ```
//!
//! Chunks of one class are packed into *cache blocks* of some MiB. A block has one time of last use
//! and is evicted as a whole. A chunk is found by its fingerprint, so a duplicate is cached once.
//!
//! Invariant: a lookup returns the chunk's bytes, verified, or nothing. Whatever the device does
//! (errors, loss, old or foreign contents) is a miss. Nothing here needs a sync: a block that did
//! not arrive whole fails its checks when it is read, and everything here is also in the pool.
#![forbid(unsafe_code)]

mod block;
mod budget;
mod class;
mod ghosts;
mod health;
mod index;
mod keys;
mod measuring;
mod options;
mod scan;
mod slots;
mod staging;
mod status;
mod step;
mod tier;
mod victims;
mod writer;

pub use class::{CacheClass, KindShares, TierSettings};
pub use format::tier::TierKind as Kind;
pub use ghosts::Access;
pub use keys::PoolKeys;
pub use options::{BYTES_OF_INDEX_BYTE, TierOptions};
pub use status::{ClassStatus, Status, TierState};
pub use step::TierStep;
pub use tier::{Chunk, Offer, Tier};

//! From a fingerprint to verified bytes, and back: key slots and roots, containers, the fingerprint
//! index, recipes, the catalog. It knows no pool, no session and no protocol.
//!
//! Invariant: bytes that leave this room were verified, or their type says that they were not; what is
//! stored is never changed in place. Called by `store`, and by `volumes` for recipes.
//!
//! Modules stand in pipeline order and import only to their left; `cargo xtask tidy` checks it.
#![forbid(unsafe_code)]

mod error;
// Pipeline order, left to right.
pub mod catalog;
pub mod chunk_map;
pub mod container;
pub mod index;
pub mod recipe;
pub mod superblock;

pub use error::{Result, StoreError, StoreErrorKind};

//! Finds verified bytes by fingerprint, and stores them: key slots and roots, containers, the
//! fingerprint index, recipes, the catalog. It knows no pool, session or protocol. `store` calls
//! it, and `volumes` does for recipes.
//!
//! ```text
//! fingerprint -> index -> chunk_map -> container -> verified chunk
//! object -> recipe -> fingerprints;  root -> catalog -> objects, containers
//! ```
//!
//! Invariant: bytes that leave this crate are verified, unless their type says that they are not.
//! Stored containers are never changed in place.
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

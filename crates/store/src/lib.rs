//! The engine: containers, fingerprint index, recipes, catalog, read path, write path, recovery,
//! check. It knows no protocol and no command line.
//!
//! Modules stand in pipeline order and import only to their left; `cargo xtask tidy` checks it.
#![forbid(unsafe_code)]

mod error;

pub use error::{Result, StoreError, StoreErrorKind};

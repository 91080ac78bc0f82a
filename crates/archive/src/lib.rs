//! File trees and disk images, in and out of a pool. The program's commands call this.
//!
//! ```text
//! backup:  filesystem::capture -> backup::walk -> ingest (lanes) -> pool
//! restore: pool -> restore::walk -> files (workers) -> filesystem::apply
//! image:   file or stream <-> ingest | export <-> pool
//! ```
//!
//! Invariant: this crate knows no command line, no terminal and no signal: a long run talks to an
//! [`Observer`]. A failure of one file is reported and stops that file only.
#![forbid(unsafe_code)]

pub mod backup;
mod error;
pub mod filesystem;
pub mod image;
mod ingest;
mod observer;
pub mod owners;
mod partial;
pub mod restore;
pub mod rewrite;
pub mod selection;
pub mod tar;

pub use error::ArchiveError;
pub use observer::{FileChange, Observer, Warning};

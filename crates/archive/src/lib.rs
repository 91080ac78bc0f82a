//! File trees and disk images, in and out of a pool.
//!
//! Invariant: this room knows no command line, no terminal and no signal: a long run talks to an
//! [`Observer`]. A failure of one file is told and stops that file only. The program's commands
//! call it.
#![forbid(unsafe_code)]

pub mod backup;
mod error;
pub mod filesystem;
pub mod image;
mod ingest;
mod observer;
pub mod printable;
pub mod restore;
pub mod selection;
pub mod tar;

pub use error::ArchiveError;
pub use observer::{Observer, Warning};

//! File trees and disk images, in and out of a pool.
//!
//! Invariant: this room knows no command line, no terminal and no signal. A failure of one file is
//! told and stops that file only. The program's commands call it.
#![forbid(unsafe_code)]

pub mod filesystem;
pub mod printable;
pub mod selection;
pub mod tar;

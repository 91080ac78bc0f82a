//! Duet's table: maintenance at idle priority beside a web server, on one disk, with and without page events.
//!
//! Invariant: driver, sessions, page cache and its eviction are the real ones; disk, queue and web server are
//! models in virtual time. Called by `evaluation`, and by a small test.

pub mod files;
pub mod grid;
pub mod page;
mod product;
pub mod settings;
mod task;
pub mod web;
pub mod world;

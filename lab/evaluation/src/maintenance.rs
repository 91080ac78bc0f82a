//! Duet's table: maintenance at idle priority beside a web server, on one disk, with and without
//! page events.
//!
//! The program `evaluation` calls this; so does a small test.
//! Invariant: driver, sessions, page cache and its eviction are the real ones. Disk, queue and web
//! server are models in virtual time.

pub mod due_page;
pub mod files;
pub mod grid;
pub mod page;
mod product;
pub mod settings;
mod task;
pub mod web;
pub mod world;

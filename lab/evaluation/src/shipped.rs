//! Duet's table with what ships: the maintenance tasks of `crates/maintenance`, their controller
//! and the scheduler of `crates/qos`, over a pool and its volumes, on one disk in virtual time.
//!
//! The program `evaluation` calls this; so do tests.
//!
//! ```text
//! web server ──────────────> Volumes ──> Pool ──┐                 requests, in order
//! tasks (threads, one at a time) ──> Pool ──────┴─> Medium ──────────────────────────┐
//!    └─ run_task(): grant, goes_on ──> World: virtual time <── qos::Scheduler, Disk <─┘
//! ```
//!
//! Invariant: pool, volumes, page cache, tasks, controller and scheduler are the real ones. The
//! disk, the web server and time are models. Code runs in no time; its requests then take
//! their time.

mod charging;
mod link;
mod medium;
pub mod page;
mod pieces;
mod pool;
pub mod runs;
pub mod settings;
mod tasks;
pub mod world;

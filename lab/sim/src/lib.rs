//! The simulator: a disk that forgets what was not synced, and an explorer of what it may forget.
//! Tests of the store use it; no production code does.
//!
//! ```text
//! Scenario::run on SimDisk --> log --> Walker --> CrashPoint --plan--> disk image
//!                                                                         |
//!                                      Scenario::check (recovery) <-------+
//! ```
//!
//! Invariant: everything is a function of the arguments and a seed: no system time, no system
//! randomness, no real file. [`SimDisk`] implements `media::Disk` in memory and records the
//! operations. [`Explorer`] runs a [`Scenario`] once, builds the states in which a power loss may
//! leave the disk (`crash` has the fault model), and has the scenario check each of them.
//! [`pool_histories`], [`volume_histories`] and [`journal_histories`] are the scenarios of a pool,
//! its volumes and its journal.
#![forbid(unsafe_code)]

mod bad_sectors;
mod block;
mod content;
mod crash;
mod damage;
mod disk;
mod exploration;
mod explore;
mod fault;
mod file;
mod gc;
mod history;
mod image;
pub mod journal_histories;
mod pending;
mod plan;
pub mod pool_histories;
mod record;
pub mod rounds;
mod seed;
mod slab;
mod state;
mod subdirectory;
mod tree;
pub mod volume_histories;

pub use bad_sectors::BadSectors;
pub use crash::CrashPoint;
pub use damage::Damage;
pub use disk::SimDisk;
pub use exploration::{Explorer, Failure, Report, Step};
pub use fault::{Fault, OperationCounts};
pub use history::{Expected, History, Scenario};
pub use image::Image;
pub use pending::Walker;
pub use plan::{Plan, Rest, Tear};
pub use record::{Effect, Entry, Op, Recording};
pub use seed::Seed;
pub use subdirectory::Subdirectory;

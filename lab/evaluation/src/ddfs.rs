//! DDFS's ladder (ATC'18) with what ships: random reads of images by many clients, over an array of
//! disks and a flash device of one percent of them, in virtual time.
//!
//! The program `evaluation` calls this; so do tests.
//!
//! ```text
//! clients (images, eight requests each) ──> Server (`rooms`) ──> World: disks, flash, processors
//! Base: the pool with the images, written once; each row opens a copy
//! ```
//!
//! Invariant: pool, volumes, page cache, tier and index copy are the real ones. Devices, processors
//! and time are models; the pool stands for a larger one, so each chain of requests begins at a
//! place of its own on the disks. Nothing is fitted to the ladder.

pub mod beside;
pub mod load;
pub mod page;
pub mod pool;
pub mod rows;
pub mod settings;
pub mod streams;
pub mod traffic;

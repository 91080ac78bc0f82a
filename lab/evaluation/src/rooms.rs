//! A machine with the real rooms of a server, over models of its devices, in virtual time: pool,
//! volumes, journal, page cache, fast tier and the index's copy are those that ship.
//!
//! The pages of classes and of DDFS call this.
//!
//! ```text
//! clients ──> Volumes ──> Pool ──> RecordedDisk (pool) ──┐  requests, in order
//!                │          └────> RecordedDisk (fast) ──┴─> Recorder ──> chains ──> World
//!                └── checkpoints, fetches, the tier's steps: chains of their own ────────┘
//! World: virtual time, an array of disks, a flash device
//! ```
//!
//! Invariant: code runs in no time when its client's turn has come. Its requests are a chain: each
//! begins when the one before has ended. Chains of different clients share the devices.

pub mod array;
pub mod machine;
pub mod pacing;
pub mod places;
pub mod recorder;
pub mod server;
pub mod ssd;
pub mod world;

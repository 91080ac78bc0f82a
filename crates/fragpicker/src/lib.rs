//! FragPicker: defragment only what hurts (Park, Eom: "FragPicker: A New Defragmentation Tool for
//! Modern Storage Devices", SOSP'21).
//!
//! What costs is a request that has to be split because its bytes lie in several pieces. So the
//! requests are traced, and of each object only the ranges are moved that are requested, that are
//! hot, and that do lie in pieces.
//!
//! Invariant: pure: no I/O, no clock, no threads of its own; a plan only names ranges, and a
//! wrong one costs I/O. Called by maintenance for the store, and for files of a Linux host.
//!
//! 1. [`Trace::record`]: requests become ranges of 4 KiB blocks. Buffered sequential reads become the
//!    windows of 128 KiB in which the system reads ahead: those inside the window vanish, a request
//!    that does not continue closes it. Direct requests and writes stay as they are.
//! 2. [`Trace::ranges`]: of one object, overlapping ranges become one, with all their requests
//!    added up; ranges that only touch stay apart, as each is one request.
//! 3. [`hottest`]: the percentage of ranges with the most requests.
//! 4. [`plan`]: those that do not lie in as few pieces as they could, where a [`Layout`] says
//!    what lies where. Shared pieces are left alone unless asked for.
//! 5. [`bypass`]: without a trace, each window of 128 KiB that contains a break.
//! 6. [`sparse`]: without a trace, of what is read from its begin to its end: the runs that give a segment few bytes.
//!
//! # Limits
//!
//! A trace remembers a fixed number of different ranges; with one more, the coldest quarter goes and
//! is counted. Counts halve every so many requests, so what was hot once does not stay so, and a
//! scan of everything does not push out what is requested again and again.
#![forbid(unsafe_code)]

mod analysis;
mod layout;
mod plan;
mod sparse;
mod trace;

pub use analysis::{HotRange, hottest};
pub use layout::{Layout, Piece};
pub use plan::{Plan, PlanOptions, bypass, plan, windows};
pub use sparse::{SEGMENT_BYTES, SPARSE_BYTES, Sparse, Spot, sparse};
pub use trace::{Access, REQUEST_WEIGHT, Trace, TraceOptions};

/// Ranges begin and end at multiples of this, bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// What a system reads ahead at once, bytes.
pub const WINDOW_BYTES: u64 = 128 << 10;

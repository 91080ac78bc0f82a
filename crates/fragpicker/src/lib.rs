//! Implements FragPicker: it defragments only ranges whose fragmentation costs (Park, Eom:
//! "FragPicker:
//! A New Defragmentation Tool for Modern Storage Devices", SOSP'21).
//!
//! A request costs more when it has to be split because its bytes lie in several pieces. FragPicker
//! therefore traces requests. Of each object it moves only the ranges that are requested, hot and
//! fragmented.
//!
//! Maintenance calls this for the store, and for files of a Linux host.
//! Invariant: pure: no I/O, no clock, no threads of its own. A plan only names ranges; a wrong one
//! costs I/O.
//!
//! 1. [`Trace::record`]: requests become ranges of 4 KiB blocks. Buffered sequential reads become
//!    the windows of 128 KiB in which the system reads ahead. Requests inside a window are not
//!    counted; a request that does not continue closes it. Direct requests and writes stay as they
//!    are.
//! 2. [`Trace::ranges`]: overlapping ranges of one object become one, with all their requests added
//!    up. Ranges that only touch stay apart, because each is one request.
//! 3. [`hottest`]: selects the percentage of ranges with the most requests.
//! 4. [`plan`]: selects the ranges that lie in more pieces than necessary, according to a
//!    [`ObjectLayout`].
//!    Shared pieces are left alone unless requested.
//! 5. [`bypass`]: without a trace, selects each window of 128 KiB that contains a break.
//! 6. [`sparse`]: without a trace, for objects that are read from begin to end: selects the runs
//!    that give a segment few bytes.
//!
//! A second reason to move a range is that a random read of it fetches much more than it needs:
//! [`Fetch`] says whether, [`hottest_chunks`] selects.
//!
//! # Limits
//!
//! A trace remembers a fixed number of different ranges. When it is full, it drops the coldest
//! quarter and counts them. Weights halve after a fixed number of requests. Ranges that were hot
//! once therefore cool down, and a scan of everything does not displace ranges that are requested
//! again and again.
#![forbid(unsafe_code)]

mod amplification;
mod analysis;
mod layout;
mod plan;
mod sparse;
mod trace;

pub use amplification::{Fetch, SMALL_PERCENT, SMALL_REGION_BYTES, hottest_chunks, is_short};
pub use analysis::{HotRange, hottest};
pub use layout::{ObjectLayout, Piece};
pub use plan::{MovePlan, PlanOptions, bypass, plan, windows};
pub use sparse::{SEGMENT_BYTES, SPARSE_BYTES, Sparse, Spot, sparse};
pub use trace::{REQUEST_WEIGHT, Trace, TraceOptions, TracedRequest};

/// Ranges begin and end at multiples of this, bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// Size of the system's read-ahead window, bytes.
pub const WINDOW_BYTES: u64 = 128 << 10;

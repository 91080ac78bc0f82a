//! Classifies accesses to an object as sequential, monotonic or random, for each region of the
//! object (DDFS, "Can't we all get along?", ATC'18), and plans read-ahead from that.
//!
//! The front of a volume calls this.
//! Invariant: pure: no I/O, no clock, no allocation. The answer depends on the requests alone. It
//! is a hint; a wrong one costs time.
//!
//! # How a request is classified
//!
//! The object is split into regions of at least 2 GiB, at most 16. Each remembers its last 16
//! requests. A request belongs to the region in which it starts. A request is *near* another if it
//! starts within the threshold of where that one starts or ends, or between the two.
//!
//! | history | near any of the 16 | newest five all at or after the oldest five | pattern |
//! |---|---|---|---|
//! | not full | | | sequential |
//! | full | yes | | sequential |
//! | full | no | yes | monotonic |
//! | full | no | no | random |
//!
//! "Increasing" is a property of the history and not of two neighbours. Every second of two random
//! requests lies after the one before it, and parallel requests of a monotonic reader overtake each
//! other. One in 252 random requests looks monotonic. Six others may overtake a monotonic request.
//!
//! # Consequences
//!
//! - Sequential streams stay sequential as long as each has a request among the last 16 of its
//!   region. They may be several, and out of order by less than the threshold. A stream that begins
//!   later begins with one request that is not sequential.
//! - Reading backwards in steps below the threshold is sequential, in larger steps random.
//! - From random to sequential: the second request of the stream is sequential.
//! - From sequential to gaps upwards: monotonic at once. From random to gaps upwards: monotonic
//!   from the sixteenth request at the latest; earlier requests are random or monotonic.
//! - To random: the first request that is far from all is not sequential.
#![forbid(unsafe_code)]

mod detector;
mod prefetch;

pub use detector::Detector;
pub use prefetch::{Fetch, FetchInto, FetchLimits, NextLook, Prefetch, STREAMS};
pub use units::Pattern;

/// Distance up to which a request is near another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    /// The distance, bytes.
    pub bytes: u64,
}

impl Threshold {
    /// Returns one mebibyte, for sixteen requests of 64 KiB in flight.
    ///
    /// Returns less for an object so small that most requests would be near: a 1024th of it, but 64
    /// KiB at least.
    pub fn for_object(object_bytes: u64) -> Self {
        let bytes = (object_bytes / 1024).clamp(64 << 10, 1 << 20);
        Self { bytes }
    }
}

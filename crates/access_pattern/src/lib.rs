//! How an object is accessed: sequential, monotonic or random, told apart for each region of the
//! object (DDFS, "Can't we all get along?", ATC'18), and what that says about fetching ahead.
//!
//! Invariant: pure: no I/O, no clock, no allocation; the answer depends on the requests alone. It
//! is a hint: a wrong one costs time. Called by the front of a volume.
//!
//! # How a request is judged
//!
//! The object is split into regions of at least 2 GiB, at most 16; each remembers its last 16
//! requests. A request belongs to the region in which it starts. *Near* means: it starts within
//! the threshold of where any of the 16 starts or ends, or between the two.
//!
//! | history | near any of the 16 | newest five all at or after the oldest five | pattern |
//! |---|---|---|---|
//! | not full | | | sequential |
//! | full | yes | | sequential |
//! | full | no | yes | monotonic |
//! | full | no | no | random |
//!
//! "Increasing" is asked of the history and not of two neighbours: every second of two random
//! requests lies after the one before it, and parallel requests of a monotonic reader overtake
//! each other. Of random requests one in 252 looks monotonic; a monotonic request may be overtaken
//! by six others.
//!
//! # What follows
//!
//! - Sequential streams, also several, also out of order by less than the threshold, stay
//!   sequential as long as each has a request among the last 16 of its region. A stream that
//!   begins later begins with one request that is not sequential.
//! - Reading backwards in steps below the threshold is sequential, in larger steps random.
//! - From random to sequential: the second request of the stream is sequential.
//! - From sequential to gaps upwards: monotonic at once. From random to gaps upwards: from the
//!   sixteenth request at the latest; those before are random or monotonic.
//! - To random: the first request that is far from all is not sequential.
#![forbid(unsafe_code)]

mod detector;
mod prefetch;

pub use detector::Detector;
pub use prefetch::{Fetch, FetchInto, FetchLimits, Look, Prefetch, STREAMS};

/// How a request relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Pattern {
    /// It continues, or is near, what was accessed; or there is too little history to say.
    #[default]
    Sequential,
    /// It lies at or after what was accessed, with a gap: changed blocks, strides.
    Monotonic,
    /// None of the two.
    Random,
}

/// Distance up to which a request is near another, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    /// See the type.
    pub bytes: u64,
}

impl Threshold {
    /// A mebibyte, for sixteen requests of 64 KiB in flight; less for objects so small that most
    /// of them would be near: a 1024th, but 64 KiB at least.
    pub fn for_object(object_bytes: u64) -> Self {
        let bytes = (object_bytes / 1024).clamp(64 << 10, 1 << 20);
        Self { bytes }
    }
}

//! The write path: chunks into lanes, lanes into containers, one commit at the end.
//!
//! Invariant: nothing is acknowledged before [`WriteSession::commit`] returns; what was stored
//! before a failure is adopted by the next writer. A chunk is stored once per session, however
//! many lanes meet it. Called by pool; lanes are driven by the program's threads.

mod growing;
mod lane;
mod session;
mod session_state;

pub use growing::GrowingObject;
pub use lane::{Lane, LaneOptions, Probe};
pub use session::Base;
pub(crate) use session::Start;
pub use session::{Committed, WriteCounts, WriteSession};

//! The write path: chunks into lanes, lanes into containers, one commit at the end. The pool opens
//! sessions; threads of the program, of volumes and of maintenance drive the lanes.
//!
//! ```text
//! chunk -> fingerprint -> claim -> region -> compress, seal -> container -> put
//! commit: containers, catalog, barrier, root, barrier
//! ```
//!
//! Invariant: nothing is acknowledged before [`WriteSession::commit`] returns. The next writer
//! adopts containers that were stored before a failure. A session stores a chunk once, even if
//! several lanes have it.

mod growing;
mod lane;
mod region_sizes;
mod session;
mod session_state;

pub use growing::GrowingObject;
pub use lane::{Lane, LaneOptions, Probe};
pub(crate) use region_sizes::FINE_REGION_BYTES;
pub use region_sizes::{IMAGE_REGION_BYTES, RegionKind};
pub use session::Base;
pub(crate) use session::Start;
pub use session::{Committed, WriteCounts, WriteSession};

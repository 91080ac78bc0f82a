//! Duet: maintenance works first on pages that are in memory already (Amvrosiadis, Brown, Goel:
//! "Opportunistic Storage Maintenance", SOSP'15).
//!
//! The page cache reports events of pages, from many threads. Each maintenance task registers a
//! session, fetches the events and first does the work that needs the fewest reads. Only I/O is at
//! stake: if events are late, lost or wrong, a task does the same work in its own order.
//!
//! Invariant: pure: no I/O, no clock, no threads of its own.
//!
//! ```text
//! page cache --record--> Duet (table) --fetch--> Session --> Driver --process--> Task
//!                            ^                      |
//! Present (pages in memory) -+----- replay ---------+
//! ```
//!
//! # Which events a session gets
//!
//! A session has one [`Space`], a [`Scope`] within it, and a [`Mask`]. For a single event, it
//! learns that the event happened since the last delivery; order and number are lost. For a state,
//! it gets the event that leads to the current state, if the session does not know that state:
//!
//! | state | events | delivered |
//! |---|---|---|
//! | Exists | Added, Removed | the last one, unless the two cancel each other |
//! | Modified | Dirtied, Flushed | the same |
//!
//! At first a session gets the pages that are in memory, as Added (and Dirtied). Its own fetches
//! replay them piece by piece, so registration is cheap however much is in memory. During the
//! replay and after losses, the table does not know what the session has learned of a page.
//! Opposite events then do not cancel each other: the session may get a state that it knows
//! already, but never keeps a wrong one. Receivers must therefore treat items as assignments: "is
//! in memory now".
//!
//! # The table
//!
//! All sessions share one table: 64 shards, each a dense array of records of 56 bytes (page, link,
//! 16 bits for each of 15 sessions). Linear hashing finds records; it grows and shrinks by one
//! bucket. A record exists exactly while it has events for some session. When its events cancel
//! out, it is removed at once and the last record takes its place. Measured: 61 bytes for a pending
//! page, whatever the number of sessions.
//!
//! A fetch visits the shards in turn and walks each one downwards. Records only move downwards, so
//! every item that is there when a walk through a shard begins is delivered in that walk, whatever
//! is added meanwhile. A fetch looks at a bounded number of records and waits only for the lock of
//! a shard.
//!
//! # Limits
//!
//! - An event that no session wants costs one relaxed load.
//! - The number of pending pages is limited. Above the limit, the session with the most pending
//!   items loses some. They are counted ([`Session::lost`]); [`Session::resync`] starts again with
//!   the pages in memory.
//! - At most 15 sessions ([`Duet::SESSIONS_MAX`]).
//!
//! # Done work
//!
//! Each session keeps sparse bitmaps. Block-like sessions have a bit for each unit of [`Work`].
//! File-like sessions also record which objects were seen and which are relevant. Whether an object
//! is in a [`Scope::Snapshot`] is asked once, when an item of it is fetched, so that no lock of the
//! page cache is held. Later events of irrelevant objects are not recorded.
//!
//! # The driver
//!
//! One [`Driver`] serves every [`Task`], in bounded steps. A step fetches events and updates the
//! queue of units that have pages in memory, highest [`Task::score`] first. It takes the best unit,
//! else the next one in the task's own order, processes it, and marks it as done. Work that others
//! did ([`News`]) is not done again. Work that became stale is done again at the end. Tasks help
//! each other without coordination: the page cache reports to all of them what one of them reads.
//!
//! A step says what it may use ([`Access`]). It fetches events and does units whose pages are all
//! in memory before anything asks for an I/O grant. Only the other units need a grant.
//!
//! A driver can be paused, limited and cancelled. The caller stores its [`TaskProgress`]; a driver
//! made from that continues. Failed work is skipped, counted, and tried again by such a driver.
#![forbid(unsafe_code)]

mod driver;
mod hash;
mod merge;
mod page;
mod progress;
mod records;
mod session;
mod shard;
mod sparse_set;
mod subscriber;
mod table;
mod task;
mod work;

pub use driver::{Driver, DriverOptions, DriverStep, Pace, Status};
pub use page::{Events, Item, Mask, MixedMask, Page, Space};
pub use progress::{ProgressError, TaskCounts, TaskProgress};
pub use session::{NothingPresent, Position, Present, Session};
pub use subscriber::{Members, Scope};
pub use table::{Duet, DuetOptions, ITEM_BYTES_MAX, TooManySessions};
pub use task::{Access, News, Processed, Task};
pub use work::{PART_BITS_MAX, Work, WorkSet};

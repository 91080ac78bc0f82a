//! Duet: maintenance that works on what is in memory already (Amvrosiadis, Brown, Goel:
//! "Opportunistic Storage Maintenance", SOSP'15).
//!
//! A page cache reports what happens to pages; tasks register sessions, are told of it when they
//! ask, and do the work first for which the fewest bytes have to be read. Nothing is at stake but
//! I/O: a task whose events are late, lost or wrong does the same work in its own order.
//!
//! Invariant: pure: no I/O, no clock, no threads of its own. Called by the page cache (events, from
//! many threads) and by maintenance (sessions).
//!
//! # What a session is told
//!
//! A session is about one [`Space`], within it a [`Scope`], and has a [`Mask`]. Of a single event
//! it is told that it has happened since it was last told (order and number are lost). Of a state it
//! is told the event that leads to the state that is now, if the session does not know it:
//!
//! | state | events | told |
//! |---|---|---|
//! | Exists | Added, Removed | the last one, unless the two cancel each other |
//! | Modified | Dirtied, Flushed | the same |
//!
//! A session first gets the present: each page that is in memory is told as Added (and Dirtied).
//! It is replayed piece by piece by the session's own fetches, so registering is cheap whatever is in
//! memory. While that lasts, and after losses, a page may have been told in one way or another; then
//! opposite events do not cancel each other, and the session may be told what it knows already, but never
//! is left with what is not true. So who listens treats items as assignments: "is in memory now".
//!
//! # The table
//!
//! One for all sessions: 64 shards, each a dense array of records of 56 bytes (page, link, 16 bits
//! for each of 15 sessions) with linear hashing over it, which grows and shrinks by one bucket. A
//! record exists exactly while some session has something to be told: what cancels out is removed at
//! once, the last record takes its place. 61 bytes a pending page were measured, whatever the number of
//! sessions.
//!
//! A fetch gives each shard its turn, and walks downwards through it: what moves, moves downwards,
//! so each item that is there when a round through a shard begins is told in that round, whatever comes
//! meanwhile. A fetch looks at a bounded number of records and waits for nothing but the lock of a
//! shard.
//!
//! # Limits
//!
//! - With no session that wants it, an event costs one relaxed load.
//! - Pending pages have a limit. Beyond it, the session with the most waiting loses items; they are
//!   counted ([`Session::lost`]), and [`Session::resync`] starts again with the present.
//! - 15 sessions ([`Duet::SESSIONS_MAX`]).
//!
//! # What is done
//!
//! Each session has sets of what it has done and seen, as sparse bitmaps: block-like sessions a bit for
//! each unit of [`Work`], file-like ones also which objects were seen and which are relevant. Whether
//! an object is in a [`Scope::Snapshot`] is asked once, when an item of it is fetched, so with no
//! lock of the page cache held; later events of irrelevant objects are not recorded.
//!
//! # The driver
//!
//! One for all tasks ([`Driver`] over a [`Task`]), in bounded steps: fetch; update the queue of works of
//! which pages are in memory, the highest [`Task::score`] first; take the best, or else the next in
//! the task's own order; process, set done. What is done by others ([`News`]) is not done again, and what
//! is undone is done at the end. Several tasks help each other without knowing it: what one reads,
//! the page cache reports to all.
//!
//! A step says what it may use ([`Access`]): events are heard, and works of which all pages are in memory are
//! done, before anybody asks for a turn at the device. Only the others wait for one.
//!
//! A driver can be paused, limited and cancelled; its [`Progress`] is stored where the caller likes,
//! and a driver made from it goes on. Failed work is left aside, counted, and tried again then.
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

pub use driver::{Driver, DriverOptions, Status, Step};
pub use page::{Events, Item, Mask, MixedMask, Page, Space};
pub use progress::{Counts, Progress, ProgressError};
pub use session::{NothingPresent, Position, Present, Session};
pub use subscriber::{Members, Scope};
pub use table::{Duet, ITEM_BYTES_MAX, Options, TooManySessions};
pub use task::{Access, News, Processed, Task};
pub use work::{PART_BITS_MAX, Work, WorkSet};

/// A poisoned lock guards what is whole between calls.
fn unpoisoned<T>(locked: std::sync::LockResult<T>) -> T {
    locked.unwrap_or_else(|e| e.into_inner())
}

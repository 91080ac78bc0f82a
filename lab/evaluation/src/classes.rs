//! The table of Differentiated Storage Services (SOSP'11) by what ships, beside a conventional
//! cache on the same devices.
//!
//! The program `evaluation` calls this; so do tests.
//!
//! ```text
//! loads ──> file system ──> host's memory ──> Storage: Conventional (a model), or
//!   (several requests in flight)                        Served (rooms::server: the real rooms)
//! ```
//!
//! Invariant: all storages get the same operations of the same file system; its commits come by
//! time, so slower ones get more of them. Time of the measured part
//! ends when the last client has its answer; what is dirty then is reported apart.

mod conventional;
mod files;
mod guest;
mod host;
pub mod loads;
mod lru;
pub mod outcome;
pub mod page;
pub mod plot;
mod rows;
mod served;
pub mod settings;
mod storage;
pub mod stored;

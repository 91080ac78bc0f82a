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
//! Invariant: all storages get the same requests of the same file system. Time of the measured part
//! ends when the last client has its answer; what is dirty then is reported apart.

mod conventional;
mod files;
mod host;
pub mod loads;
mod lru;
pub mod page;
mod served;
pub mod settings;
mod storage;

//! Gives each request of a served volume its class (Differentiated Storage Services, SOSP'11),
//! without help of the guest: by the policy, and by the file system inside the volume.
//!
//! ```text
//! front end ─> Classified ─ request with its class ─> volume
//!                 │  ▲ contents of the block
//!                 ▼  │
//!      what was written ─> Notes ─> Layout <─ reads, in the background ─ volume
//! ```
//!
//! The server wraps what it serves; its thread calls [`Classifiers::step`].
//! Invariant: a class is a hint. No request waits for a classification, fails by one, or changes
//! what is read and stored. Without a policy, a request costs one load more.
#![forbid(unsafe_code)]

mod classified;
mod classifiers;
mod counts;
mod notes;
mod served;

pub use classified::Classified;
pub use classifiers::{Classifiers, FileRead, LayoutStatus, Stepped};
pub use counts::ClassCounts;
pub use disk_layout::Counters;

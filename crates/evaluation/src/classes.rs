//! The table of Differentiated Storage Services (SOSP'11): three loads over an SSD cache and a
//! disk, without a cache, with LRU over everything, and with T1 to T5.
//!
//! The program `evaluation` calls this; so does a small test.
//! Invariant: requests are classified by the policies that ship and evicted by the engine that
//! ships (`crates/classes`). Only the file system, the devices and the loads are models.

pub mod files;
pub mod loads;
pub mod machine;
pub mod page;

//! The table of Differentiated Storage Services (SOSP'11): three loads over an SSD cache and a
//! disk, without a cache, with LRU over everything, and with T1 to T5.
//!
//! The program `evaluation` calls this; so does a small test.
//! Invariant: requests are classified by the policies that ship, and the classes that evict are
//! chosen by the code of the caches that ship (`classes::ClassOccupancy`). The file system, the
//! cache of blocks, the devices and the loads are models.

mod block_cache;
pub mod files;
pub mod loads;
pub mod machine;
pub mod page;

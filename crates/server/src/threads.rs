//! The background threads of a server. The program starts and ends them, in its order.
//!
//! Invariant: each thread works in bounded steps and ends when its handle is dropped. Clients never
//! wait for one, except writers that need the space that it frees. Threads report their findings
//! through [`crate::program::Program`].
//!
//! ```text
//! task      - the loop of a maintenance task's thread, for verifier and defragger
//! destager  - checkpoints: journal and overlays --> containers
//! verifier  - scrub, repair
//! defragger - defragmentation; copies hot chunks by itself
//! collector - garbage collection
//! tiering   - the fast tier: directories of blocks at the start, then blocks of staged chunks
//! classifying - file systems inside served volumes, for classes of I/O
//! access    - reads the rules of iSCSI access again
//! trimmer   - returns free memory to the system
//! watchdog  - tells the service manager that the server lives
//! settle    - the last checkpoint, at the server's end
//! ```

pub mod access;
mod background;
pub mod classifying;
pub mod collector;
pub mod defragger;
pub mod destager;
mod settling;
pub(crate) mod task;
pub mod tiering;
pub mod trimmer;
pub mod verifier;
pub mod watchdog;

pub use background::Background;
pub use settling::{SettleError, settle};

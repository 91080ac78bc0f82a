//! The threads of a server beside those of its clients.
//!
//! Invariant: each works in bounded steps and ends when it is dropped; none is waited for by a
//! client, but by writers who need what it gives. They say through [`crate::program::Program`] what
//! they find. The program starts and ends them, in its order.

mod background;
pub mod defragger;
mod destager;
pub mod reclaimer;
mod settling;
pub mod verifier;
mod watchdog;

pub use background::Background;
pub use destager::Destager;
pub use settling::{SettleError, settle};
pub use watchdog::Watchdog;

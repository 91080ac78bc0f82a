//! What a server does for its clients.
//!
//! Invariant: a request is admitted before it runs. The program's server implements it, connections
//! call it.

use super::view::View;
use super::wire::Request;
use crate::caller::Caller;
use crate::exit::Exit;
use device::DeviceQueue;

/// What a server does for its clients.
pub trait Commands: Send + Sync + 'static {
    /// Looks at a request before it runs: an error is why it will not. `own` is which files this
    /// process sees.
    fn admit(&self, request: &Request, own: &View) -> Result<(), String>;

    /// Runs an admitted command to its end, on a thread that is in the client's directory.
    fn run(&self, caller: Caller, request: Request) -> Exit;

    /// Where clients that read the pool themselves take turns.
    fn device(&self) -> &DeviceQueue;
}

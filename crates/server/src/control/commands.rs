//! The commands that a server can run for its clients. The program, which knows the commands,
//! implements this; connections call it.
//!
//! Invariant: a request is admitted before it runs.

use super::view::View;
use super::wire::CommandRequest;
use device::DeviceQueue;
use terminal::command_context::CommandContext;

/// Runs commands for clients.
pub trait Commands: Send + Sync + 'static {
    /// Checks a request before it runs. An error is the reason for the refusal. `own` is the view
    /// of the file system that this process has.
    fn admit(&self, request: &CommandRequest, own: &View) -> Result<(), String>;

    /// Runs an admitted command to its end and returns its exit code. The calling thread has the
    /// client's working directory.
    fn run(&self, context: CommandContext, request: CommandRequest) -> u8;

    /// Returns the queue that grants I/O to clients that read the pool themselves.
    fn device(&self) -> &DeviceQueue;
}

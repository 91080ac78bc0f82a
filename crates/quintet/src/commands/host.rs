//! `host`: the page cache of this machine. [`super::run`] calls this.
//!
//! Invariant: no pool is opened, and no file is read or changed.

mod cached;
mod doctor;
mod events;

use super::invocation::Invocation;
use crate::cli::HostCommand;
use crate::exit::Exit;
use archive::filesystem::PathError;
use std::io;
use std::path::PathBuf;

pub(super) fn run(invocation: &Invocation, command: &HostCommand) -> anyhow::Result<Exit> {
    match command {
        HostCommand::Cached(args) => cached::run(invocation, args),
        HostCommand::Events(args) => events::run(invocation, args),
        HostCommand::Doctor(args) => doctor::run(invocation, args),
    }
}

/// Warns of each path that could not be asked about.
fn warn(invocation: &Invocation, failed: Vec<(PathBuf, io::Error)>) {
    for (path, source) in failed {
        invocation.console.warn_path(&PathError {
            operation: "ask what is in memory of it",
            path,
            source,
        });
    }
}

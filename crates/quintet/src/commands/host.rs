//! `host`: the page cache and the file systems of this machine. [`super::run`] calls this.
//!
//! Invariant: no file is changed. `defrag run` alone changes where files lie. `scrub` alone opens a
//! pool, to read.

mod cached;
mod defrag;
mod doctor;
mod events;
mod scrub;

use super::invocation::Invocation;
use crate::cli::HostCommand;
use archive::filesystem::PathError;
use std::io;
use std::path::PathBuf;
use terminal::exit::Exit;

pub(super) fn run(invocation: &Invocation, command: &HostCommand) -> anyhow::Result<Exit> {
    match command {
        HostCommand::Cached(args) => cached::run(invocation, args),
        HostCommand::Events(args) => events::run(invocation, args),
        HostCommand::Doctor(args) => doctor::run(invocation, args),
        HostCommand::Scrub(args) => scrub::run(invocation, args),
        HostCommand::Defrag(command) => defrag::run(invocation, command),
    }
}

/// Capabilities that open files of other users and ask about them.
const READS_OTHERS: &str = "CAP_DAC_READ_SEARCH and CAP_FOWNER";
/// Capabilities that move extents of other users' files.
const MOVES_OTHERS: &str = "CAP_DAC_OVERRIDE and CAP_FOWNER";

/// Warns of each path that could not be asked about.
fn warn(invocation: &Invocation, failed: Vec<(PathBuf, io::Error)>) {
    warn_of(
        invocation,
        "ask what is in memory of it",
        READS_OTHERS,
        failed,
    );
}

/// Warns of each path, and names the capabilities that would help.
fn warn_of(
    invocation: &Invocation,
    operation: &'static str,
    capabilities: &str,
    failed: Vec<(PathBuf, io::Error)>,
) {
    let mut refused = 0;
    for (path, source) in failed {
        refused += u64::from(source.kind() == io::ErrorKind::PermissionDenied);
        invocation.console.warn_path(&PathError {
            operation,
            path,
            source,
        });
    }
    if refused > 0 {
        let files = units::count(refused, "path");
        invocation.console.warn(format!(
            "{files} not permitted; run as root, or with {capabilities}"
        ));
    }
}

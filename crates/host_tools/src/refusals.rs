//! Warns of paths that the system refused to answer for. The commands call this.
//!
//! Invariant: each path gets a line, and all of them together one about the missing capabilities.

use archive::filesystem::PathError;
use std::io;
use std::path::PathBuf;
use terminal::shell::Shell;

/// Capabilities that open files of other users and ask about them.
pub(crate) const READS_OTHERS: &str = "CAP_DAC_READ_SEARCH and CAP_FOWNER";
/// Capabilities that move extents of other users' files.
pub(crate) const MOVES_OTHERS: &str = "CAP_DAC_OVERRIDE and CAP_FOWNER";

/// Warns of each path that could not be asked about.
pub(crate) fn warn(shell: &Shell, failed: Vec<(PathBuf, io::Error)>) {
    warn_of(shell, "ask what is in memory of it", READS_OTHERS, failed);
}

/// Warns of each path, and names the capabilities that would help.
pub(crate) fn warn_of(
    shell: &Shell,
    operation: &'static str,
    capabilities: &str,
    failed: Vec<(PathBuf, io::Error)>,
) {
    let mut refused = 0;
    for (path, source) in failed {
        refused += u64::from(source.kind() == io::ErrorKind::PermissionDenied);
        shell.console.warn_path(&PathError {
            operation,
            path,
            source,
        });
    }
    if refused > 0 {
        let files = units::count(refused, "path");
        shell.console.warn(format!(
            "{files} not permitted; run as root, or with {capabilities}"
        ));
    }
}

//! Warns of paths that the system refused to answer for. The commands call this.
//!
//! Invariant: many paths that fail for one reason get one line, and all of them together one about
//! the missing capabilities.

use archive::filesystem::PathError;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use terminal::console::printable;
use terminal::shell::Shell;

/// Capabilities that open files of other users and ask about them.
pub(crate) const READS_OTHERS: &str = "CAP_DAC_READ_SEARCH and CAP_FOWNER";
/// Capabilities that move extents of other users' files.
pub(crate) const MOVES_OTHERS: &str = "CAP_DAC_OVERRIDE and CAP_FOWNER";

/// More paths than this that fail for one reason are reported as one.
const ALIKE_MAX: usize = 3;

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
    let is_refused = |e: &io::Error| e.kind() == io::ErrorKind::PermissionDenied;
    let refused = failed.iter().filter(|(_, e)| is_refused(e)).count() as u64;
    let mut groups: Vec<(String, Vec<PathError>)> = Vec::new();
    for (path, source) in failed {
        let reason = units::reason(&source);
        let error = PathError {
            operation,
            path,
            source,
        };
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, group)) => group.push(error),
            None => groups.push((reason, vec![error])),
        }
    }
    // Programs get every path.
    let alike_max = match shell.console.json() {
        true => usize::MAX,
        false => ALIKE_MAX,
    };
    for (_, group) in &groups {
        match group.as_slice() {
            [first, others @ ..] if others.len() >= alike_max => {
                let path = printable(first.path.as_os_str().as_bytes());
                let others = others.len();
                let text = first.text_with(path);
                shell
                    .console
                    .warn(format!("{text} (and {others} more like this)"));
            }
            few => few.iter().for_each(|error| shell.console.warn_path(error)),
        }
    }
    if refused > 0 {
        let files = units::count(refused, "path");
        shell.console.warn(format!(
            "{files} not permitted; run as root, or with {capabilities}"
        ));
    }
}

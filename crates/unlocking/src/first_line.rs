//! Reads the first line of a file that contains a location or a secret. Settings, passwords and
//! recovery keys call this.
//!
//! Invariant: a file that is too long, or whose first line is empty, is refused with its name.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use terminal::command_context::CommandContext;
use terminal::environment::SettingError;
use zeroize::Zeroizing;

/// Maximum size of the file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Returns the first line of the file at `path`. `name` is the setting that names the file.
pub fn first_line(
    name: &str,
    path: &Path,
    context: &CommandContext,
) -> Result<OsString, SettingError> {
    first_line_of(name, &path.display(), context.open(path))
}

/// The same for what is open already. `place` is its name in messages.
pub(crate) fn first_line_of(
    name: &str,
    place: &dyn std::fmt::Display,
    file: std::io::Result<impl Read>,
) -> Result<OsString, SettingError> {
    let refuse = |e: &dyn std::fmt::Display| SettingError::new(name, format!("{place}: {e}"));
    // The line may be a secret. The buffer never grows, because growing would leave copies in freed
    // memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 2));
    file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|e| SettingError::of_file(name, place, &e))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse(&"it is too long"));
    }
    let line = units::lines::first(&bytes).map_err(|e| refuse(&e))?;
    match line.is_empty() {
        true => Err(refuse(&"its first line is empty")),
        false => Ok(OsString::from_vec(line.to_vec())),
    }
}

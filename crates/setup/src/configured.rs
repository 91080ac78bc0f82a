//! Finds the configuration file and reads its text. The program's settings take the pool from it if
//! nothing else names one; the commands about the file read all of it.
//!
//! Invariant: a file that others can change is refused, because its commands run with the rights of
//! this user.

use anyhow::{Context, bail};
use configuration::Configuration;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use terminal::command_context::CommandContext;

/// Path of the file that the timers use.
pub const DEFAULT: &str = "/etc/quintet/quintet.toml";
/// Variable that names another.
pub const VARIABLE: &str = "QUINTET_CONFIG";
/// Maximum size of the file, bytes.
const BYTES_MAX: u64 = 1 << 20;
const OTHERS_WRITE: u32 = 0o002;

/// Returns the path of the file: the one given, else that of the environment, else the one in
/// `/etc`.
pub fn path(given: Option<&Path>, context: &CommandContext) -> PathBuf {
    let named = context.environment.value(VARIABLE).map(Path::new);
    given
        .or(named)
        .unwrap_or_else(|| Path::new(DEFAULT))
        .to_owned()
}

/// Reads a file.
pub fn text(context: &CommandContext, path: &Path) -> anyhow::Result<String> {
    let place = path.display();
    let fails = || {
        format!(
            "cannot read the configuration file {place}; write one (docs/tasks.md), or name it with --config FILE \
             or {VARIABLE}"
        )
    };
    // A pipe has no owner that counts.
    let metadata = path.metadata().with_context(fails)?;
    if metadata.is_file() && metadata.mode() & OTHERS_WRITE != 0 {
        bail!("every user can change {place}, and so what runs here; run chmod o-w {place}");
    }
    let mut text = String::new();
    let input = context.open(path).with_context(fails)?;
    let read = input.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(fails)?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{place} is larger than 1 MiB; name another file");
    }
    Ok(text)
}

/// Returns the configuration, or why there is none.
pub fn configuration(
    context: &CommandContext,
    given: Option<&Path>,
) -> Result<Configuration, String> {
    let path = path(given, context);
    let place = path.display();
    let text = text(context, &path).map_err(|e| {
        let cause = e.root_cause();
        match cause.downcast_ref::<std::io::Error>() {
            Some(error) => format!("{place}: {}", units::reason(error)),
            None => cause.to_string(),
        }
    })?;
    let read = Configuration::parse(&text);
    read.map_err(|_| format!("{place} has mistakes; run quintet config check"))
}

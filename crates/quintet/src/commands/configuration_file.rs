//! Finds and reads the configuration file. `config`, `run` and `notify` call this.
//!
//! Invariant: nothing of a file with a mistake is used. A file that others can change is refused,
//! because its commands run with the rights of this user.

use super::invocation::Invocation;
use crate::cli::ConfigArgs;
use anyhow::{Context, bail};
use configuration::Configuration;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use terminal::json::Object;
use units::count;

const DEFAULT: &str = "/etc/quintet/quintet.toml";
const VARIABLE: &str = "QUINTET_CONFIG";
/// Maximum size of the file, bytes.
const BYTES_MAX: u64 = 1 << 20;
const OTHERS_WRITE: u32 = 0o002;

/// A file that was read.
pub(super) struct ConfigurationFile {
    /// Its path.
    pub path: PathBuf,
    /// Its contents.
    pub configuration: Configuration,
}

impl ConfigurationFile {
    /// Reads the file that the option names, else the environment, else the one in `/etc`. Prints
    /// its mistakes.
    pub fn read(invocation: &Invocation, args: &ConfigArgs) -> anyhow::Result<Self> {
        let named = invocation.context.environment.value(VARIABLE);
        let named = args.config.clone().or(named.map(PathBuf::from));
        let path = named.unwrap_or_else(|| PathBuf::from(DEFAULT));
        let text = text_of(invocation, &path)?;
        let mistakes = match Configuration::parse(&text) {
            Ok(configuration) => {
                return Ok(Self {
                    path,
                    configuration,
                });
            }
            Err(mistakes) => mistakes,
        };
        for mistake in &mistakes {
            tell(invocation, &path, mistake.line, &mistake.key, &mistake.why)?;
        }
        let many = count(mistakes.len() as u64, "mistake");
        bail!("{} has {many}; correct the file", path.display())
    }
}

/// Prints a mistake with its place.
pub(super) fn tell(
    invocation: &Invocation,
    path: &Path,
    line: usize,
    key: &str,
    why: &str,
) -> std::io::Result<()> {
    let console = &invocation.console;
    let path = path.display().to_string();
    if !console.json() {
        let key = match key {
            "" => String::new(),
            key => format!("{key}: "),
        };
        console.say(&format!("{path}:{line}: {key}{why}"));
    }
    console.message(
        Object::message("error")
            .text("file", &path)
            .integer("line", line as u64)
            .text("key", key)
            .text("message", why),
    )
}

fn text_of(invocation: &Invocation, path: &Path) -> anyhow::Result<String> {
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
    let input = invocation.context.open(path).with_context(fails)?;
    let read = input.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(fails)?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{place} is larger than 1 MiB; name another file");
    }
    Ok(text)
}

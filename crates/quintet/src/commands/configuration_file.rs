//! Reads the configuration file. `config`, `run`, `notify` and `setup` call this.
//!
//! Invariant: nothing of a file with a mistake is used.

use super::invocation::Invocation;
use anyhow::bail;
use command_line::ConfigArgs;
use configuration::Configuration;
use setup::configured;
use std::path::{Path, PathBuf};
use terminal::json::Object;
use units::count;

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
        let path = configured::path(args.config.as_deref(), &invocation.context);
        let text = configured::text(&invocation.context, &path)?;
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

//! Arguments of `config`, `run` and `notify`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// Configuration file; by default QUINTET_CONFIG or /etc/quintet/quintet.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The configuration file.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration file, and list its jobs and when they run
    #[command(after_help = "\
Examples:
  quintet config check
  quintet config check --config ./quintet.toml

Everything is checked that needs no password: keys and values, with their lines; whether sources, password
files and programs exist. Exit code 1: a job cannot run as the file says. Warnings do not count.")]
    Check(ConfigArgs),
}

/// Run jobs of the configuration file, as timers do.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet run
  quintet run etc db
  quintet run forget
  quintet run copy:offsite
  quintet run watch

Without a name all jobs run: backups, forget and gc, copies, check, scrub, watch. A job that fails does not
keep the others from running; the worst exit code is that of the run. Of a failure, damage, a full disk or
a silent source, the channels of [notify] hear. A notification that cannot be delivered is a warning, and
makes the exit code 1 if it was 0.

`watch` looks for sources without a recent backup, damage, and a full disk. It reports each once a day, and
ends with code 3, or 21 for damage, as long as there is one.")]
pub struct RunArgs {
    /// Jobs: a source, forget, copy:NAME (or NAME), check, scrub, watch
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The file.
    #[command(flatten)]
    pub file: ConfigArgs,
}

/// Try the channels of the configuration file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet notify --test

Exit code 1: a channel did not accept the notification.")]
pub struct NotifyArgs {
    /// Send a test notification through each channel, and say what answered
    #[arg(long, required = true)]
    pub test: bool,
    /// The file.
    #[command(flatten)]
    pub file: ConfigArgs,
}

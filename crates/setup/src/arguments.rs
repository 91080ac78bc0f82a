//! The command line of `setup`. The program includes it in its own.
//!
//! Invariant: this module decides nothing.

use clap::Args;
use std::path::PathBuf;

/// Make everything that scheduled backups need.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet setup --dry-run
  quintet setup --pool /srv/pool --backup /home /etc \\
    --recovery-key-file /media/usb/pool.recovery
  quintet setup
  quintet setup --remove

It makes what is missing: the user quintet, the configuration file, a password, the pool, and a systemd service
and timer for each job of the file. What is there stays, except for units that setup wrote: run it again
whenever you have changed the file. Each step is one line of output.

The recovery key of a new pool is shown once, on the terminal. Keep it on another medium: without password
and recovery key the contents of the pool are lost.")]
pub struct SetupArgs {
    /// Directory of the pool in a new configuration file [default: /srv/pool]
    #[arg(long, value_name = "DIR")]
    pub pool: Option<PathBuf>,
    /// Files and directories to back up, in a new configuration file [default: /home /etc]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub backup: Vec<PathBuf>,
    /// Write the recovery key of a new pool to this file too, which must be on another medium
    #[arg(long, value_name = "FILE")]
    pub recovery_key_file: Option<PathBuf>,
    /// Write the timers, but do not enable and start them
    #[arg(long)]
    pub no_start: bool,
    /// Show the steps, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Remove the units that setup wrote. Configuration, keys and pool stay
    #[arg(long, conflicts_with_all = ["pool", "backup", "recovery_key_file", "no_start"])]
    pub remove: bool,
    /// Configuration file; by default QUINTET_CONFIG or /etc/quintet/quintet.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

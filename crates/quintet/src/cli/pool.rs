//! Arguments of `init`, and of the hidden `generate`.

use crate::sizes;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Make a pool.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet -r /srv/pool init
  quintet -r /srv/pool init --recovery-key-file /media/usb/pool.recovery
  quintet -r /srv/pool init --no-encryption

Whoever loses all passwords and recovery keys of an encrypted pool loses its contents.")]
pub struct InitArgs {
    /// Do not encrypt; whoever reads the pool's files reads the data
    #[arg(long, conflicts_with_all = ["recovery_key_file", "label"])]
    pub no_encryption: bool,
    /// Also make a recovery key and write it to this new file
    #[arg(long, value_name = "FILE")]
    pub recovery_key_file: Option<PathBuf>,
    /// What to call the first password
    #[arg(long, value_name = "TEXT", default_value = "first")]
    pub label: String,
    /// Average size of content-defined chunks, a power of two
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = sizes::parse)]
    pub chunk_size: u64,
}

/// Write man pages or a completion script.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// What to write
    pub what: GenerateWhat,
    /// Directory that gets the man pages; a script goes to standard output
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub to: PathBuf,
}

/// What `generate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GenerateWhat {
    /// Man pages, one a command
    Man,
    /// Completion for bash
    Bash,
    /// Completion for zsh
    Zsh,
    /// Completion for fish
    Fish,
    /// Completion for PowerShell
    Powershell,
    /// Completion for elvish
    Elvish,
}

//! Arguments of `init`, `parity` and `generate`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use terminal::sizes;

/// Make a pool.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet -r /srv/pool init
  quintet -r /srv/pool init --recovery-key-file /media/usb/pool.recovery
  quintet -r /srv/pool init --no-encryption

If you lose all passwords and recovery keys of an encrypted pool, you lose its contents.")]
pub struct InitArgs {
    /// Do not encrypt: everyone who can read the pool's files can read the data
    #[arg(long, conflicts_with_all = ["recovery_key_file", "label"])]
    pub no_encryption: bool,
    /// Also make a recovery key and write it to this new file
    #[arg(long, value_name = "FILE")]
    pub recovery_key_file: Option<PathBuf>,
    /// Label of the first password
    #[arg(long, value_name = "TEXT", default_value = "first")]
    pub label: String,
    /// Average size of content-defined chunks, a power of two
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = sizes::parse)]
    pub chunk_size: u64,
    /// Parity of stored data, percent: it repairs sectors that the disk loses; 0: none
    #[arg(long, value_name = "PERCENT", default_value_t = PARITY_PERCENT,
          value_parser = clap::value_parser!(u8).range(0..=50))]
    pub parity: u8,
}

/// Parity of new pools, percent: measured (docs/evaluation/damage.md).
pub const PARITY_PERCENT: u8 = 2;

/// Parity of containers.
#[derive(Debug, Subcommand)]
pub enum ParityCommand {
    /// Set the parity of new containers, percent of their data; 0: none
    #[command(after_help = "\
Example:
  quintet parity set 5

Existing containers stay unchanged. The copies that gc makes of them get the new parity.")]
    Set {
        /// 0 to 50
        #[arg(value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=50))]
        percent: u8,
    },
    /// Show the parity of new containers
    Show,
}

/// Give a pool of an older version the features of new pools.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet upgrade --dry-run
  quintet upgrade

Changes no stored data: gc and defragmentation use the features for what they store again. Older
versions of quintet cannot open the pool after that, not even to read it; there is no way back.")]
pub struct UpgradeArgs {
    /// Only show the features that the pool would get
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Write man pages or a completion script.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet generate man --to /usr/local/share/man/man1
  quintet generate bash >/usr/local/share/bash-completion/completions/quintet
  quintet generate zsh >/usr/local/share/zsh/site-functions/_quintet
  quintet generate fish >/usr/local/share/fish/vendor_completions.d/quintet.fish

Packages contain all of these. The scripts ask the program what fits: commands and options, and names of
snapshots, volumes and policies. Names of a pool are there if it is open within a second without a
question: it is not encrypted, or its password is in QUINTET_PASSWORD or a file.")]
pub struct GenerateArgs {
    /// The output to write
    pub what: GenerateWhat,
    /// Directory that gets the man pages; a script goes to standard output
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub to: PathBuf,
}

/// Outputs of `generate`.
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

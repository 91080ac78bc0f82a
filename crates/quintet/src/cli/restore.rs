//! Arguments of `restore`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::inspect::FilterArgs;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Bring files of a snapshot back.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet restore latest --target /tmp/restored
  quintet restore latest:/home/alice/work --target /home/alice/work --overwrite if-changed
  quintet restore 3f2a91c4 --target / --include /etc/fstab
  quintet restore latest --target /srv --delete --dry-run
  quintet restore 3f2a91c4 --target /tmp/left --partial
  quintet restore latest --target /srv --verify --json

On a terminal restore shows what it would replace or remove, and asks, unless --overwrite or --yes is given.")]
pub struct RestoreArgs {
    /// Snapshot: latest, or the beginning of its name; with :PATH only what is below PATH
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub snapshot: OsString,
    /// Directory that gets the files
    #[arg(short, long, value_name = "DIRECTORY")]
    pub target: PathBuf,
    /// Only what matches; repeatable
    #[arg(short, long, value_name = "PATTERN")]
    pub include: Vec<OsString>,
    /// Leave out what matches; repeatable
    #[arg(short, long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// File with patterns for --include, one a line
    #[arg(long, value_name = "FILE")]
    pub include_file: Vec<PathBuf>,
    /// File with patterns for --exclude, one a line
    #[arg(long, value_name = "FILE")]
    pub exclude_file: Vec<PathBuf>,
    /// When to write over files that are there
    /// [default: always, after asking on a terminal]
    #[arg(long, value_name = "WHEN")]
    pub overwrite: Option<OverwriteArg>,
    /// Replace and remove without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Write into existing files, only what differs, instead of replacing them
    #[arg(long)]
    pub in_place: bool,
    /// Remove what is in the target and not in the snapshot
    #[arg(long)]
    pub delete: bool,
    /// Make holes of all runs of zeroes, not only of those that were holes
    #[arg(long)]
    pub sparse: bool,
    /// Of damaged files restore what is left: what is damaged becomes holes, the attribute
    /// user.quintet.damaged names it, and the modification time is 1970
    #[arg(long)]
    pub partial: bool,
    /// Files belong to who restores; set-user-ID programs of others lose that bit
    #[arg(long)]
    pub no_owner: bool,
    /// Drop set-user-ID and set-group-ID bits and capabilities of programs
    #[arg(long)]
    pub no_setuid: bool,
    /// Leave out block and character devices
    #[arg(long)]
    pub no_devices: bool,
    /// Leave extended attributes and ACLs alone
    #[arg(long)]
    pub no_xattrs: bool,
    /// Read all restored files again and compare them with the snapshot
    #[arg(long)]
    pub verify: bool,
    /// Say what would be restored, replaced and removed, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Filter for `latest`.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Rule for existing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverwriteArg {
    /// Write all of them
    Always,
    /// Write those whose size or modification time differs
    IfChanged,
    /// Write those that are older than in the snapshot
    IfNewer,
    /// Leave all of them
    Never,
}

//! Arguments of `restore`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::inspect::FilterArgs;
use super::patterns::{ExcludeArgs, IncludeArgs};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use terminal::sizes;

/// Restore files of a snapshot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet restore latest --target /tmp/restored
  quintet restore latest:/home/al/work --target ~/work --overwrite if-changed
  quintet restore latest:/etc/fstab --target /tmp      (one file: /tmp/fstab)
  quintet restore 3f2a91c4 --target / --include /etc/fstab
  quintet restore latest --target /srv --delete --dry-run
  quintet restore 3f2a91c4 --target /tmp/left --partial
  quintet restore latest --target /srv --verify --json

On a terminal restore first shows the files that it would replace or remove, and asks. --overwrite and
--yes suppress the question.")]
pub struct RestoreArgs {
    /// Snapshot: latest, or the beginning of its name; with :PATH only that file, or what is in
    /// that directory
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub snapshot: OsString,
    /// Directory for the restored files
    #[arg(short, long, value_name = "DIRECTORY")]
    pub target: PathBuf,
    /// Patterns of restored files.
    #[command(flatten)]
    pub includes: IncludeArgs,
    /// Patterns of excluded files.
    #[command(flatten)]
    pub excludes: ExcludeArgs,
    /// When to overwrite existing files
    /// [default: always, after asking on a terminal]
    #[arg(long, value_name = "WHEN")]
    pub overwrite: Option<OverwriteArg>,
    /// Replace and remove without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Change only the differing parts of existing files, instead of replacing the files
    #[arg(long)]
    pub in_place: bool,
    /// Remove files of the target that are not in the snapshot
    #[arg(long)]
    pub delete: bool,
    /// Turn all runs of zeroes into holes, not only original holes
    #[arg(long)]
    pub sparse: bool,
    /// Restore the sound parts of damaged files. Damaged parts become holes, the attribute
    /// user.quintet.damaged lists them, and the modification time is 1970
    #[arg(long)]
    pub partial: bool,
    /// Restore all files as your own; set-user-ID programs of others lose that bit
    #[arg(long)]
    pub no_owner: bool,
    /// Restore owners and groups by number. By default a file belongs to the user and group of this
    /// machine that have the names of the stored ones, or else the stored numbers
    #[arg(long, conflicts_with = "no_owner")]
    pub numeric_ids: bool,
    /// Drop set-user-ID and set-group-ID bits and capabilities of programs
    #[arg(long)]
    pub no_setuid: bool,
    /// Do not restore block and character devices
    #[arg(long)]
    pub no_devices: bool,
    /// Do not restore extended attributes and ACLs
    #[arg(long)]
    pub no_xattrs: bool,
    /// Read all restored files and compare them with the snapshot
    #[arg(long)]
    pub verify: bool,
    /// Show what would be restored, replaced and removed, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Maximum bytes read from the pool each second (10M), compressed as they are stored; 0: no
    /// limit
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Filter for `latest`.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Rule for existing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverwriteArg {
    /// Overwrite all files
    Always,
    /// Overwrite files whose size or modification time differs
    IfChanged,
    /// Overwrite files that are older than in the snapshot
    IfNewer,
    /// Overwrite no file
    Never,
}

//! Arguments of `snapshots`, `ls`, `find`, `diff` and `dump`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::patterns::{ExcludeArgs, IncludeArgs};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// List snapshots.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet snapshots --host web1 --tag nightly
  quintet snapshots --path /home --latest 3
  quintet snapshots 3f2a --json")]
pub struct SnapshotsArgs {
    /// Only these: latest, or beginnings of their names
    #[arg(value_name = "SNAPSHOT")]
    pub snapshots: Vec<String>,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Only the newest N of each host and set of paths
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    pub latest: Option<usize>,
}

/// Filters for snapshots.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArgs {
    /// Only snapshots of this host; repeatable
    #[arg(short = 'H', long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Only snapshots with these tags (comma: all of them; repeated: any)
    #[arg(long, value_name = "TAG[,TAG]")]
    pub tag: Vec<String>,
    /// Only snapshots of this path, or image or stream of this name; repeatable: all of them
    #[arg(long, value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// List files of a snapshot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet ls latest
  quintet ls -l latest /home/alice
  quintet ls --recursive latest:/etc --json
  quintet ls --recursive latest --include '*.conf'")]
pub struct LsArgs {
    /// Snapshot: latest, or the beginning of its name
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub snapshot: OsString,
    /// Paths in the snapshot; by default its top
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Show mode, owner, size and time
    #[arg(short, long)]
    pub long: bool,
    /// Include all subdirectories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Show sizes with units
    #[arg(long)]
    pub human_readable: bool,
    /// Patterns of listed files.
    #[command(flatten)]
    pub includes: IncludeArgs,
    /// Patterns of excluded files.
    #[command(flatten)]
    pub excludes: ExcludeArgs,
    /// Filter for `latest`.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Find files by name in snapshots.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet find fstab
  quintet find '*.key' --snapshot latest
  quintet find /home/alice/work/**/report.pdf --newest 2026-01-01")]
pub struct FindArgs {
    /// Names, paths or patterns (see quintet help patterns)
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<OsString>,
    /// Ignore the case of letters
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Only in this snapshot, or below a path of it; repeatable
    #[arg(short, long, value_name = "SNAPSHOT[:PATH]")]
    pub snapshot: Vec<OsString>,
    /// Show mode, owner, size and time
    #[arg(short, long)]
    pub long: bool,
    /// Only files modified at this time or later
    #[arg(long, value_name = "TIME")]
    pub oldest: Option<String>,
    /// Only files modified at this time or earlier
    #[arg(long, value_name = "TIME")]
    pub newest: Option<String>,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Show the differences between two snapshots.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet diff 3f2a91c4 latest
  quintet diff 3f2a:/home/alice latest:/home/alice --metadata
  quintet diff disk@3f2a91c4 disk

Marks: + added, - removed, M content, T type, U metadata (with --metadata).
For two states of an image it shows offset and length of different ranges, in whole chunks.")]
pub struct DiffArgs {
    /// The earlier snapshot, or NAME[@SNAPSHOT] of an image
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub before: OsString,
    /// The later snapshot, or NAME[@SNAPSHOT] of an image
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub after: OsString,
    /// Also show files whose owner, mode, time or attributes alone differ
    #[arg(long)]
    pub metadata: bool,
    /// Filter for `latest`.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Write a file to standard output, a directory as a tar archive.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet dump latest /etc/fstab
  quintet dump latest /home/alice > alice.tar
  quintet dump latest:/home/alice work --target work.tar
  quintet dump db.sql@latest | psql db")]
pub struct DumpArgs {
    /// Snapshot: latest, the beginning of its name, or NAME@SNAPSHOT of a stream or image
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    pub snapshot: OsString,
    /// Path in the snapshot; by default all of it
    #[arg(value_name = "PATH")]
    pub inside: Option<OsString>,
    /// New file for the output, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// Write binary data to a terminal too
    #[arg(long)]
    pub force: bool,
    /// Filter for `latest`.
    #[command(flatten)]
    pub filter: FilterArgs,
}

//! Arguments of `backup`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::patterns::ExcludeArgs;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use terminal::sizes;

/// Store file trees, or a stream.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet backup /home /etc --exclude '*.o' --exclude-caches --tag nightly
  quintet backup --one-file-system --exclude-file /etc/quintet/excludes /
  quintet backup --stdin-filename db.sql --stdin-from-command -- pg_dump db

Exit code 3: some files could not be read. All others are stored.")]
pub struct BackupArgs {
    /// Files and directories; with --stdin-from-command, the command and its arguments
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Read all files again, even those that have not changed since the last snapshot
    #[arg(short, long)]
    pub force: bool,
    /// Show what would be stored, and store nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Save no snapshot if contents, names, metadata and tags are those of the last one. One that
    /// lacks something is saved. Times of the directories above the paths count too
    #[arg(long, conflicts_with = "dry_run")]
    pub skip_if_unchanged: bool,
    /// Snapshot to compare with; by default the newest one of this host and these paths
    #[arg(long, value_name = "SNAPSHOT", hide_short_help = true)]
    pub parent: Option<String>,
    /// Take a file for unchanged if its inode number and status change time differ, but neither
    /// size nor modification time: for FUSE and network file systems whose inode numbers change
    #[arg(long)]
    pub ignore_inode: bool,
    /// The same if only the status change time differs, as after a change of mode or owner
    #[arg(long, hide_short_help = true)]
    pub ignore_ctime: bool,
    /// Tag of the new snapshot; several with commas or repeated
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub tag: Vec<String>,
    /// Host of the new snapshot; by default this one
    #[arg(short = 'H', long, value_name = "NAME")]
    pub host: Option<String>,
    /// Time of the new snapshot; by default now
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub time: Option<String>,
    /// Compression of new data: zstd, zstd:LEVEL, lz4, none, auto or max
    #[arg(long, value_name = "METHOD")]
    pub compression: Option<String>,
    /// Region size of new data, the unit of compression and of reads: 64 KiB to 1536 KiB. Larger
    /// regions take less space; smaller ones are faster for random reads. Files of 64 MiB or more
    /// get 128 KiB at most
    #[arg(long, value_name = "SIZE", value_parser = region_size, hide_short_help = true)]
    pub region_size: Option<usize>,
    /// Number of files that are read at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), hide_short_help = true)]
    pub read_concurrency: Option<u16>,
    /// Order in which files are read: cached reads files first that are in memory, tree reads them
    /// in the order of their names. By default cached, where the system says what is in memory
    #[arg(long, value_name = "ORDER", value_enum, hide_short_help = true)]
    pub order: Option<ReadOrder>,
    /// Leave the disk to others: read with idle I/O priority, and only while the disk is idle, but
    /// at least 4 MiB a second
    #[arg(long)]
    pub background: bool,
    /// Maximum bytes read each second (10M); no more are stored either. 0: no limit. Files that
    /// have not changed are not read
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Read a state that does not change meanwhile: a snapshot of each btrfs subvolume (needs
    /// root), else a reflink of each file on btrfs and xfs. Says how many files have neither
    #[arg(long, conflicts_with = "order")]
    pub snapshot: bool,

    /// Patterns of excluded files.
    #[command(flatten)]
    pub excludes: ExcludeArgs,
    /// Exclude the contents of directories with a CACHEDIR.TAG file
    #[arg(long, help_heading = "Selection")]
    pub exclude_caches: bool,
    /// Exclude the contents of directories that contain this file
    #[arg(
        long,
        value_name = "NAME[:HEADER]",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub exclude_if_present: Vec<OsString>,
    /// Exclude files larger than this
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, help_heading = "Selection")]
    pub exclude_larger_than: Option<u64>,
    /// Do not enter other file systems
    #[arg(short = 'x', long, help_heading = "Selection")]
    pub one_file_system: bool,
    /// File with paths or patterns to back up, one on each line; - is standard input
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub files_from: Vec<PathBuf>,
    /// Like --files-from, but each line is a path and no pattern, without spaces removed
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub files_from_verbatim: Vec<PathBuf>,
    /// Like --files-from-verbatim, but separated by NUL bytes
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub files_from_raw: Vec<PathBuf>,

    /// Store standard input. A program before a pipe can fail unnoticed: prefer
    /// --stdin-from-command
    #[arg(
        long,
        conflicts_with_all = ["paths", "stdin_from_command", "order", "background", "snapshot", "ignore_inode", "ignore_ctime"],
        help_heading = "Streams"
    )]
    pub stdin: bool,
    /// Store the output of a command; if the command fails, nothing is stored
    #[arg(
        long,
        requires = "paths",
        conflicts_with_all = ["order", "background", "snapshot", "ignore_inode", "ignore_ctime"],
        help_heading = "Streams"
    )]
    pub stdin_from_command: bool,
    /// Store the stream also if it is empty. By default that is a failure
    #[arg(long, help_heading = "Streams", hide_short_help = true)]
    pub allow_empty: bool,
    /// Name of the stream
    #[arg(
        long,
        value_name = "NAME",
        default_value = "stdin",
        help_heading = "Streams"
    )]
    pub stdin_filename: String,
}

/// Value of `--order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadOrder {
    /// Files with the largest part in memory first, at most 100 files before or after their place
    Cached,
    /// In the order of their names
    Tree,
}

/// Minimum region size, bytes.
const REGION_BYTES_MIN: u64 = 64 << 10;
/// Maximum region size, bytes. Incompressible data, with one chunk more than requested, must fit
/// into the 2 MiB of a stored region.
const REGION_BYTES_MAX: u64 = 1536 << 10;

/// Parses the size of a region.
pub(super) fn region_size(text: &str) -> Result<usize, String> {
    let bytes = terminal::sizes::parse(text).map_err(|e| e.to_string())?;
    match usize::try_from(bytes) {
        Ok(size) if (REGION_BYTES_MIN..=REGION_BYTES_MAX).contains(&bytes) => Ok(size),
        _ => Err("a region has 64 KiB to 1536 KiB".to_owned()),
    }
}

//! Arguments of `quintet host`. The program's command line includes them.
//!
//! Invariant: this module decides nothing. Help, man pages and shell completions come from these
//! definitions.

use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use terminal::amounts::{Percent, seconds};
use terminal::sizes;

/// Subcommands of `host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Show how much of a tree is in memory
    Cached(HostCachedArgs),
    /// Watch pages of files come into memory, leave it, become dirty, and be written
    Events(HostEventsArgs),
    /// Say what works on this machine, what is done instead, and why
    Doctor(HostDoctorArgs),
    /// Compare what is on the disk with the newest snapshot of it
    Scrub(HostScrubArgs),
    /// Move fragmented ranges of files into one piece each
    #[command(
        subcommand,
        after_help = "\
Examples:
  quintet host defrag analyse /srv
  quintet host defrag trace /srv -o trace --seconds 600
  quintet host defrag run /srv --trace trace --dry-run"
    )]
    Defrag(HostDefragCommand),
}

/// Show how much of a tree is in memory.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host cached /var/lib/postgresql
  quintet host cached /home --depth 2
  quintet host cached /home --json

Asks the system (cachestat, Linux 6.5) and reads nothing. A directory's line counts all files below it, on
the same mount. Root may ask about every file, others about files that they own or may write; the
rest is named, and the exit code is 3.")]
pub struct HostCachedArgs {
    /// Directory or file
    pub path: PathBuf,
    /// Levels of directories that get a line of their own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: usize,
}

/// Watch pages of files.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host events /srv
  quintet host events /srv --interval 5 --json
  quintet host events /home --poll --count 10

Takes events from the kernel (eBPF; needs root, or CAP_BPF and CAP_PERFMON) on ext4, xfs, btrfs and FUSE.
Elsewhere it compares states every interval (cachestat) and says so: pages that came and went between
two looks are not seen then. `quintet host doctor` says what is missing. Ends with Ctrl-C.")]
pub struct HostEventsArgs {
    /// Directory or file; only files on its mount are watched
    pub path: PathBuf,
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: f64,
    /// Ends after so many looks
    #[arg(short = 'c', long, value_name = "N")]
    pub count: Option<u64>,
    /// Compare states, even where there are events
    #[arg(long)]
    pub poll: bool,
}

/// Say what works on this machine.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host doctor
  quintet host doctor /srv --json

Tries everything that `quintet host` uses, for the file system of the path, and says what to do where
something is missing. Changes nothing.")]
pub struct HostDoctorArgs {
    /// Path on the file system in question
    #[arg(default_value = ".")]
    pub path: PathBuf,
}

/// Subcommands of `host defrag`.
#[derive(Debug, Subcommand)]
pub enum HostDefragCommand {
    /// Show in how many pieces files lie, and how large the pieces are
    Analyse(HostAnalyseArgs),
    /// Record which ranges of files programs read and write
    Trace(HostTraceArgs),
    /// Move fragmented ranges of files into one piece each
    Run(HostDefragRunArgs),
    /// Show what a run does, and what the last one did
    Status(HostDefragStatusArgs),
}

/// Show what a run does, and what the last one did.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host defrag status
  quintet host defrag status /srv --json

Shows the last run of each path by this user, or of one path, as of a second ago at most. A run records its state in
STATE_DIRECTORY, else as root in /var/lib/quintet, else in XDG_STATE_HOME/quintet or ~/.local/state/quintet.")]
pub struct HostDefragStatusArgs {
    /// Path of the run
    pub path: Option<PathBuf>,
}

/// Show in how many pieces files lie.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host defrag analyse /var/lib/postgresql
  quintet host defrag analyse disk.img --json
  quintet host defrag analyse /srv --trace trace --hot 20 --svg pieces.svg

Reads no data and changes no file. With a trace it shows what `run` with the same trace would write,
and how many requests to the device that would save when the recorded requests are made again.")]
pub struct HostAnalyseArgs {
    /// Directory or file
    pub path: PathBuf,
    /// Ranges to look at, and the plot
    #[command(flatten)]
    pub heat: HeatArgs,
    /// Move whole windows between fragmented ones too, up to 1 MiB, so that a file that is read
    /// from begin to end needs no seek between moved ranges and others. Auto: on disks with arms
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub join: JoinArg,
}

/// Which ranges count, and a plot of the pieces.
#[derive(Args, Debug)]
pub struct HeatArgs {
    /// Look at the hot ranges of a trace only
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Percent of the requested ranges of each file that count as hot
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "50",
        value_parser = Percent::parse,
        requires = "trace"
    )]
    pub hot: Percent,
    /// Draw the sizes of the pieces into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Record which ranges of files programs read and write.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host defrag trace /srv -o trace --seconds 600
  quintet host defrag trace /srv/db -o trace -- sh -c 'psql -f report.sql'
  quintet host defrag trace /srv -o trace --exact              (until Ctrl-C)

Takes requests from the kernel (eBPF; needs root, or CAP_BPF and CAP_PERFMON) on ext4, xfs and btrfs:
buffered and direct, by system calls, libaio, io_uring and mappings, of all programs. Requests that the
page cache answers count too. Buffered requests are seen as pages; --exact sees system calls to the byte.")]
pub struct HostTraceArgs {
    /// Directory or file; only files on its mount
    pub path: PathBuf,
    /// File for the trace
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Record so long; otherwise until the command ends, or Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Record system calls to the byte; slows every system call of the machine down by about 0.1 us
    #[arg(long)]
    pub exact: bool,
    /// Replace the file
    #[arg(long)]
    pub force: bool,
    /// Run this command, and record until it ends
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "seconds")]
    pub command: Vec<OsString>,
}

/// Move fragmented ranges of files into one piece each.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host defrag run /var/lib/postgresql --dry-run
  quintet host defrag run /srv --trace trace --hot 20 --limit-rate 20M
  quintet host defrag run /srv --limit-bytes 10G
  quintet host defrag run /srv/images --shared

Works on ext4, xfs and btrfs, while the files are in use. Moves the hot ranges of a trace that lie in more than
one piece; without a trace, windows of 128 KiB that do. Left alone, with the reason: what reflinks or snapshots share, compressed,
encrypted, immutable and swap files, programs (on ext4), and what finds no free space in one piece.
Ctrl-C ends it between two steps of at most 8 MiB; nothing has to be undone. There is no undo.
`quintet host defrag status` shows what it does.")]
pub struct HostDefragRunArgs {
    /// Directory or file; only files on its mount
    pub path: PathBuf,
    /// Move each window of 128 KiB that contains a break, whether it is read or not (the default)
    #[arg(long, conflicts_with = "trace")]
    pub bypass: bool,
    /// Ranges to look at, and the plot
    #[command(flatten)]
    pub heat: HeatArgs,
    /// Show what would be moved, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Move whole windows between fragmented ones too, up to 1 MiB, so that a file that is read
    /// from begin to end needs no seek between moved ranges and others. Auto: on disks with arms
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub join: JoinArg,
    /// Also move what reflinks or snapshots share; the moved parts then take their space twice
    #[arg(long)]
    pub shared: bool,
    /// Maximum bytes written
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit_bytes: Option<u64>,
    /// Maximum bytes read and written each second
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit_rate: Option<u64>,
    /// Order in which ranges are moved
    #[arg(long, value_name = "ORDER", value_enum, default_value = "cached")]
    pub order: MoveOrder,
    /// Leave the disk to others: idle I/O priority, and only while the disk is idle, but at least
    /// one step a second
    #[arg(long)]
    pub background: bool,
}

/// Value of `--order` of `host defrag run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MoveOrder {
    /// Ranges in memory first, among the next 1024 steps: they need no reads
    Cached,
    /// In the order of names and offsets
    Tree,
}

/// Value of `--join`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JoinArg {
    /// On disks with arms, as far as the system knows
    Auto,
    /// Everywhere
    Always,
    /// Nowhere: move fragmented windows only
    Never,
}

/// Compare what is on the disk with the newest snapshot of it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet host scrub /srv
  quintet host scrub /srv/photos --background --limit-rate 20M
  quintet host scrub /srv --snapshot 1f3a --exclude '*.log' --json

Reads each file from the disk, past the page cache, and compares it with the snapshot; of the pool it reads
directories and recipes only. A file whose times or size differ was changed since: no finding. A file with equal times
and size and other bytes is rotten; restore it. Continues where an interrupted scrub of the same path and options
has stopped. Exit code 21: files are rotten or unreadable. 3: some could not be opened.")]
pub struct HostScrubArgs {
    /// Directory or file, as it was backed up
    pub path: PathBuf,
    /// Snapshot to compare with; by default the newest one of this host that has the path
    #[arg(long, value_name = "SNAPSHOT")]
    pub snapshot: Option<String>,
    /// Host of the snapshot; by default this one
    #[arg(short = 'H', long, value_name = "NAME")]
    pub host: Option<String>,
    /// Leave out matching files; repeatable
    #[arg(short, long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Do not enter other file systems
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// Begin anew, even if a scrub of the path was interrupted
    #[arg(long)]
    pub restart: bool,
    /// Leave the disk to others: read with idle I/O priority, and only while the disk is idle, but
    /// at least 4 MiB a second
    #[arg(long)]
    pub background: bool,
    /// Maximum bytes read from the disk each second
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit_rate: Option<u64>,
}

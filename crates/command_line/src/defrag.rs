//! Arguments of `defrag`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};
use terminal::amounts::Percent;
use terminal::sizes;

/// Put together data that is read together and is fragmented.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  quintet defrag --dry-run
  quintet defrag
  quintet defrag --hot 20 --limit 50M disk
  quintet defrag --bypass disk
  quintet defrag start                  (in the background of the server)
  quintet defrag status
  quintet defrag pause

Random writes fragment a volume: its data lies in many places of the pool. A server records which ranges
of its volumes and snapshots are read (the trace). A run copies only ranges that are read often and are
fragmented, each to one place. It reports the cost of reading before and after, and the part of the data
that it wrote.

Without a trace, or with --bypass, a run copies every fragmented range of 128 KiB: of the named objects, or
of all volumes. Of named streams it copies the short runs.

A range that several volumes or snapshots share is moved only if that helps more requests than it hurts.
`quintet gc` frees the old copies.

A server copies hot chunks of images into small regions by itself (hot-chunks in `quintet qos set --help`).
A run of a user ends such a run, and begins.

The progress is recorded. After Ctrl-C the run is paused; `quintet defrag resume` or the same command
continues it. If the process died, the next server continues the run; without a server, `resume` does. A
different defrag command abandons the run. Its copies stay."
)]
pub struct DefragArgs {
    /// The subcommand. Without one: defragment now, and wait for the end
    #[command(subcommand)]
    pub command: Option<DefragCommand>,
    /// Objects and limits of the run.
    #[command(flatten)]
    pub run: DefragRunArgs,
    /// Show what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// As `pause`
    #[arg(long, hide = true, conflicts_with_all = ["objects", "dry_run", "resume"])]
    pub pause: bool,
    /// As `resume`
    #[arg(long, hide = true, conflicts_with_all = ["objects", "dry_run"])]
    pub resume: bool,
}

/// Objects and limits of a run.
#[derive(Args, Clone, Debug)]
pub struct DefragRunArgs {
    /// Volumes, images or snapshots: names, or beginnings of their ids. Without any: all objects in
    /// the trace, or all volumes
    #[arg(value_name = "OBJECT")]
    pub objects: Vec<String>,
    /// Ignore the trace and examine all data
    #[arg(long)]
    pub bypass: bool,
    /// Percent of the requested ranges of each object that count as hot
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = Percent::parse)]
    pub hot: Percent,
    /// Also move shared ranges when that hurts other owners
    #[arg(long)]
    pub move_shared: bool,
    /// Everything, in pieces or not: to compare with
    #[arg(long, hide = true)]
    pub whole: bool,
    /// Maximum bytes read and written each second (10M); 0: no limit
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
}

/// Switches of a run.
#[derive(Clone, Debug, Subcommand)]
pub enum DefragCommand {
    /// Start a run in the background of the server
    #[command(after_help = "\
Examples:
  quintet defrag start
  quintet defrag start --limit 50M disk")]
    Start(DefragRunArgs),
    /// Pause the run until `resume`
    #[command(after_help = "\
Examples:
  quintet defrag pause

Its copies stay. It stays paused after a restart of the server.")]
    Pause,
    /// Resume the run: in the background of the server, or here without a server
    #[command(after_help = "\
Examples:
  quintet defrag resume
  quintet defrag resume --limit 50M

This also changes the limit of a running run.")]
    Resume {
        /// Maximum bytes read and written each second
        #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
        limit: Option<u64>,
    },
    /// End the run for good; its copies stay
    #[command(after_help = "\
Examples:
  quintet defrag cancel")]
    Cancel,
    /// Show the progress of the run, or the result of the last one
    #[command(after_help = "\
Examples:
  quintet defrag status
  quintet defrag status --json")]
    Status,
}

impl DefragArgs {
    /// Returns the subcommand, from either spelling.
    pub fn switch(&self) -> Option<DefragCommand> {
        match (self.pause, self.resume) {
            (true, _) => Some(DefragCommand::Pause),
            (_, true) => Some(DefragCommand::Resume {
                limit: self.run.limit,
            }),
            _ => self.command.clone(),
        }
    }
}

//! Arguments of `defrag`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};
use server::sizes;

/// Put together what is read at once and lies in pieces.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  quintet defrag --dry-run
  quintet defrag
  quintet defrag --hot 20 --limit 50M disk
  quintet defrag --bypass disk
  quintet defrag start                  (in the background of the server that holds the pool)
  quintet defrag status
  quintet defrag pause

A volume that is written here and there comes to lie in pieces all over the pool. What is read at once,
often, and lies in pieces is copied to one place, and nothing else: a server remembers what was read of its
volumes and snapshots (the trace). Says what reading costs before and after, and what part of rewriting
everything was written for it.

Without a trace, or with --bypass, every 128 KiB that lie in pieces are copied, of all volumes or of those
that are named; of streams that are named, the short runs.

What volumes and snapshots share is moved only if that serves more requests than it hurts. The old copies
are given back by `quintet gc`.

How far a run is is written down: after Ctrl-C it is paused, and goes on with `quintet defrag resume`, or
when the same is asked for again. A run that was under way when its process died is taken up by the next
server; without one, by `resume`. Asking for something else gives it up; what it copied stays."
)]
pub struct DefragArgs {
    /// The subcommand. Without one: defragment, and wait for the end
    #[command(subcommand)]
    pub command: Option<DefragCommand>,
    /// Objects and limits of the run.
    #[command(flatten)]
    pub run: DefragRunArgs,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// As `pause`
    #[arg(long, hide = true, conflicts_with_all = ["objects", "dry_run", "resume"])]
    pub pause: bool,
    /// As `resume`
    #[arg(long, hide = true, conflicts_with_all = ["objects", "dry_run"])]
    pub resume: bool,
}

/// Of a run.
#[derive(Args, Clone, Debug)]
pub struct DefragRunArgs {
    /// Volumes, images or snapshots, by name or by the beginning of their id; none: whatever the
    /// trace knows, or all volumes
    #[arg(value_name = "OBJECT")]
    pub objects: Vec<String>,
    /// Ask no trace: look at everything
    #[arg(long)]
    pub bypass: bool,
    /// Of what was read of each object, the part that was read most
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = PercentArg::parse)]
    pub hot: PercentArg,
    /// Also what that hurts other owners of
    #[arg(long)]
    pub move_shared: bool,
    /// Everything, in pieces or not: to compare with
    #[arg(long, hide = true)]
    pub whole: bool,
    /// Bytes that are read and written in a second, at most
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
}

/// Switches of a run.
#[derive(Clone, Debug, Subcommand)]
pub enum DefragCommand {
    /// Let the server do it in the background
    #[command(after_help = "\
Examples:
  quintet defrag start
  quintet defrag start --limit 50M disk")]
    Start(DefragRunArgs),
    /// Let the run stand still, until `resume`
    #[command(after_help = "\
Examples:
  quintet defrag pause

What it copied stays. Over a restart of the server it stays paused.")]
    Pause,
    /// Let the run go on, in the background of the server, or here if there is none
    #[command(after_help = "\
Examples:
  quintet defrag resume
  quintet defrag resume --limit 50M

Also gives a run that is under way another limit.")]
    Resume {
        /// Bytes that are read and written in a second, at most
        #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
        limit: Option<u64>,
    },
    /// End the run for good; what it copied stays
    #[command(after_help = "\
Examples:
  quintet defrag cancel")]
    Cancel,
    /// Show how far the run is, or what the last one did
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

/// A percentage from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentArg(pub u8);

impl PercentArg {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim().trim_end_matches('%').trim_end();
        match number.parse() {
            Ok(percent @ 1..=100) => Ok(Self(percent)),
            _ => Err(format!("{text:?} is not a percentage (1 to 100)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(PercentArg::parse("50"), Ok(PercentArg(50)));
        assert_eq!(PercentArg::parse(" 7 % "), Ok(PercentArg(7)));
        for wrong in ["", "0", "101", "-1", "1.5", "x"] {
            assert!(PercentArg::parse(wrong).is_err(), "{wrong}");
        }
    }
}

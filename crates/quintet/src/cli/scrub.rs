//! Arguments of `scrub`.

use crate::sizes;
use clap::{Args, Subcommand};

/// Verify everything that is stored, in the background if a server holds the pool.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  quintet scrub
  quintet scrub --limit 50M
  quintet scrub start
  quintet scrub pause
  quintet scrub status

Reads every region of every container, except those that a reader of the same server has just
verified. Damage is set aside as by `quintet repair`, and the files that it reaches are named.

Without a server `quintet scrub` does it in the foreground; interrupted, it goes on from there the next
time. A server does it when its clients leave the disk alone, and slowly when they do not; `start`
and `pause` are its switches, and a pass that was under way goes on when the next server starts.

Exit codes: 0 nothing was wrong; 20 damage was found and every snapshot is whole; 21 something is
missing and is named: back up its source again."
)]
pub struct ScrubArgs {
    /// What to do; nothing: verify, now
    #[command(subcommand)]
    pub command: Option<ScrubCommand>,
    /// Bytes that are read in a second, at most
    #[command(flatten)]
    pub limit: ScrubLimitArgs,
}

/// How fast.
#[derive(Args, Clone, Copy, Debug)]
pub struct ScrubLimitArgs {
    /// Bytes that are read in a second, at most
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
}

/// Switches of a server's scrub.
#[derive(Debug, Subcommand)]
pub enum ScrubCommand {
    /// Let the server begin, or go on
    #[command(after_help = "\
Examples:
  quintet scrub start
  quintet scrub start --limit 50M

Also gives a scrub that is under way another limit, or none.")]
    Start(ScrubLimitArgs),
    /// Let the server stop, until `start`
    #[command(after_help = "\
Examples:
  quintet scrub pause")]
    Pause,
    /// Show how far it is, and when everything was last verified
    #[command(after_help = "\
Examples:
  quintet scrub status
  quintet scrub status --json")]
    Status,
}

//! Arguments of `scrub`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::replica::ReplicaArgs;
use clap::{Args, Subcommand};
use terminal::sizes;

/// Verify everything that is stored. A server does it in the background.
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
  quintet scrub --replica /mnt/pool --replica-password-file /root/other

A scrub reads every region of every container, except regions that a reader of the same server has
just verified. It puts damage into quarantine, as `quintet repair` does, and names the files that the
damage reaches.

Without a server the command scrubs in the foreground. After an interruption the next run continues.
A server scrubs while its clients leave the disk alone, and slowly while they do not. `start` and
`pause` control it. An unfinished pass continues when the next server starts.

With --replica the scrub stores lost data again from another pool that has copies of the same
snapshots. It takes only data that is, byte for byte, the lost data. A server does this at the end of
the pass. The replica's password comes from --replica-password-file, --replica-password-command or
--replica-key-file, else from QUINTET_REPLICA_PASSWORD, QUINTET_REPLICA_PASSWORD_FILE or
QUINTET_REPLICA_PASSWORD_COMMAND. Otherwise the program asks for it.

Exit codes: 0 no damage; 20 damage was found and every snapshot is complete; 21 data is missing: the
command names it, and a new backup of its source repairs it."
)]
pub struct ScrubArgs {
    /// The subcommand. Without one: scrub now
    #[command(subcommand)]
    pub command: Option<ScrubCommand>,
    /// Limits and replica of the pass.
    #[command(flatten)]
    pub pass: ScrubPassArgs,
}

/// Limits of a pass.
#[derive(Args, Clone, Debug)]
pub struct ScrubPassArgs {
    /// Maximum bytes read each second (10M); 0: no limit
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// The replica.
    #[command(flatten)]
    pub replica: ReplicaArgs,
}

/// Switches of a server's scrub.
#[derive(Debug, Subcommand)]
pub enum ScrubCommand {
    /// Start the server's scrub, or resume it
    #[command(after_help = "\
Examples:
  quintet scrub start
  quintet scrub start --limit 50M

This also changes the limit and the replica of a running scrub. Without --limit it has no limit;
without --replica it has no replica. A restarted server does not know the replica.")]
    Start(ScrubPassArgs),
    /// Pause the server's scrub until `start`
    #[command(after_help = "\
Examples:
  quintet scrub pause")]
    Pause,
    /// Show the progress, and when everything was last verified
    #[command(after_help = "\
Examples:
  quintet scrub status
  quintet scrub status --json")]
    Status,
}

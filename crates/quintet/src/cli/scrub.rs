//! Arguments of `scrub`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::replica::ReplicaArgs;
use clap::{Args, Subcommand};
use server::sizes;

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
  quintet scrub --replica /mnt/other/pool --replica-password-file /root/other.password

Reads every region of every container, except those that a reader of the same server has just
verified. Damage is set aside as by `quintet repair`, and the files that it reaches are named.

Without a server `quintet scrub` does it in the foreground; interrupted, it goes on from there the next
time. A server does it when its clients leave the disk alone, and slowly when they do not; `start`
and `pause` are its switches, and a pass that was under way goes on when the next server starts.

With --replica what is lost, now or since earlier, is stored again from another pool that has copies of
the same snapshots: nothing is taken but what is, byte for byte, what is lost. A server does it at the end
of the pass. The replica's password: --replica-password-file, --replica-password-command or
--replica-key-file, else QUINTET_REPLICA_PASSWORD, QUINTET_REPLICA_PASSWORD_FILE or
QUINTET_REPLICA_PASSWORD_COMMAND, else it is asked for.

Exit codes: 0 nothing was wrong; 20 damage was found and every snapshot is whole; 21 something is
missing and is named: back up its source again."
)]
pub struct ScrubArgs {
    /// The subcommand. Without one: verify, now
    #[command(subcommand)]
    pub command: Option<ScrubCommand>,
    /// Limits and replica of the pass.
    #[command(flatten)]
    pub pass: ScrubPassArgs,
}

/// How fast, and what with.
#[derive(Args, Clone, Debug)]
pub struct ScrubPassArgs {
    /// Bytes that are read in a second, at most
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// The replica.
    #[command(flatten)]
    pub replica: ReplicaArgs,
}

/// Switches of a server's scrub.
#[derive(Debug, Subcommand)]
pub enum ScrubCommand {
    /// Let the server begin, or go on
    #[command(after_help = "\
Examples:
  quintet scrub start
  quintet scrub start --limit 50M

Also gives a scrub that is under way another limit, or none, and another replica, or none. A server
that was restarted knows of no replica.")]
    Start(ScrubPassArgs),
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

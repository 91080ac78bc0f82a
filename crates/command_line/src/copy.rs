//! Arguments of `copy`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::FilterArgs;
use clap::Args;
use std::path::PathBuf;
use terminal::sizes;

/// Copy snapshots to another pool. Only missing data is sent.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet copy --to /mnt/other/pool --all
  quintet copy --to /mnt/pool --to-password-file /root/other latest
  quintet copy --to /mnt/other/pool disk@monday --limit 50M
  quintet copy --to /mnt/other/pool --host web1 --dry-run
  quintet copy --pause

The pools may have different passwords and keys. A snapshot keeps its name. So a second copy sends
nothing, and a copy of a newer snapshot of the same source sends only the changes. All data is verified
before it is sent. After an interruption the next run does not send the same data again.

If the pool has a server, the copy runs in that server and first takes data that is in memory. `status`
shows it, and --pause and --resume control it. If the receiving pool has a server, the copy runs there
and reads the other pool from its disk; --pause and --resume then control that server.

The password of the receiving pool comes from --to-password-file, --to-password-command or
--to-key-file, else from QUINTET_TO_PASSWORD, QUINTET_TO_PASSWORD_FILE or QUINTET_TO_PASSWORD_COMMAND.
Otherwise the program asks for it.")]
pub struct CopyArgs {
    /// Snapshots: latest, beginnings of their names, VOLUME@NAME or IMAGE
    #[arg(value_name = "SNAPSHOT", conflicts_with = "all")]
    pub snapshots: Vec<String>,
    /// All snapshots that pass the filters
    #[arg(long)]
    pub all: bool,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The receiving pool.
    #[command(flatten)]
    pub to: ToArgs,
    /// Show what would be sent and stored, and send nothing. Reads as much as the copy would
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Maximum bytes sent each second, compressed as the other pool stores them; 0: no limit
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Pause the copies of a server until --resume
    #[arg(long, conflicts_with_all = ["snapshots", "all", "dry_run", "resume"])]
    pub pause: bool,
    /// Resume the copies of a server
    #[arg(long, conflicts_with_all = ["snapshots", "all", "dry_run"])]
    pub resume: bool,
    /// Compression in the receiving pool: zstd, zstd:LEVEL, lz4, none, auto or max
    #[arg(long, value_name = "HOW")]
    pub compression: Option<String>,
}

/// The pool that receives.
#[derive(Args, Clone, Debug, Default)]
pub struct ToArgs {
    /// Directory of the pool that receives (or QUINTET_TO_REPOSITORY)
    #[arg(long, value_name = "POOL")]
    pub to: Option<PathBuf>,
    /// Source of its password.
    #[command(flatten)]
    pub password: ToPasswordArgs,
}

/// Source of the receiving pool's password.
#[derive(Args, Clone, Debug, Default)]
pub struct ToPasswordArgs {
    /// File whose first line is the password of the receiving pool
    #[arg(long, value_name = "FILE")]
    pub to_password_file: Option<PathBuf>,
    /// Program whose first line of output is that password
    #[arg(long, value_name = "COMMAND")]
    pub to_password_command: Option<String>,
    /// File with a recovery key of the receiving pool
    #[arg(long, value_name = "FILE")]
    pub to_key_file: Option<PathBuf>,
    /// Confirm that the receiving pool is not encrypted. Without this option an unencrypted pool is
    /// refused if you give a password, or if the pool was encrypted before
    #[arg(long, hide_short_help = true, conflicts_with_all = ["to_password_file", "to_password_command", "to_key_file"])]
    pub to_insecure_no_password: bool,
}

//! Arguments of `copy`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::FilterArgs;
use clap::Args;
use server::sizes;
use std::path::PathBuf;

/// Copy snapshots to another pool, only what is missing there.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet copy --to /mnt/other/pool --all
  quintet copy --to /mnt/other/pool --to-password-file /root/other.password latest
  quintet copy --to /mnt/other/pool disk@monday --limit 50M
  quintet copy --to /mnt/other/pool --host web1 --dry-run
  quintet copy --pause

The pools may have different passwords and keys. A snapshot keeps its name, so copying it again sends
nothing, and a newer one of the same source sends what changed since. What is sent is verified first.
Interrupted or killed, the next run finds what was sent and does not send it again.

In the server that holds the pool, if there is one, it takes first what is in memory; `status` shows it,
and --pause and --resume switch it. If a server holds the receiving pool it runs there, and reads the other
one from its disk, whoever holds that; --pause and --resume are that server's then. The receiving
pool's password: --to-password-file, --to-password-command or
--to-key-file, else QUINTET_TO_PASSWORD, QUINTET_TO_PASSWORD_FILE or QUINTET_TO_PASSWORD_COMMAND,
else it is asked for.")]
pub struct CopyArgs {
    /// Snapshots: latest, beginnings of their names, VOLUME@NAME or IMAGE
    #[arg(value_name = "SNAPSHOT", conflicts_with = "all")]
    pub snapshots: Vec<String>,
    /// All snapshots that the filters leave
    #[arg(long)]
    pub all: bool,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The receiving pool.
    #[command(flatten)]
    pub to: ToArgs,
    /// Say what would be sent and stored, and send nothing: reads what the copy would read
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Bytes read and sent a second, at most
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Let the copies that a server is making stop, until --resume
    #[arg(long, conflicts_with_all = ["snapshots", "all", "dry_run", "resume"])]
    pub pause: bool,
    /// Let them go on
    #[arg(long, conflicts_with_all = ["snapshots", "all", "dry_run"])]
    pub resume: bool,
    /// How what is sent is stored there: zstd, zstd:LEVEL, lz4, none, auto or max
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

/// Where the password of the receiving pool comes from.
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
    /// The receiving pool is not encrypted, and that is meant: else it is refused when a password
    /// is given, or when it was encrypted before
    #[arg(long, hide_short_help = true, conflicts_with_all = ["to_password_file", "to_password_command", "to_key_file"])]
    pub to_insecure_no_password: bool,
}

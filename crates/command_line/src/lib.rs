//! The command line: defines every command, flag and example once. The program parses arguments
//! with it.
//!
//! Invariant: this crate decides nothing. It turns text into typed arguments, which the program's
//! settings and commands check. Help, man pages and shell completions come from these definitions.
#![forbid(unsafe_code)]

mod backup;
mod collect;
mod copy;
mod defrag;
pub mod help;
mod image;
mod inspect;
mod jobs;
mod keys;
mod maintain;
mod mount;
mod password_flags;
mod patterns;
mod policy;
mod pool;
mod qos;
mod replica;
mod restore;
mod retain;
mod scrub;
mod serve;
mod status;
mod top;
mod volume;
mod wait;

pub use backup::{BackupArgs, ReadOrder};
pub use collect::{GcArgs, PeriodArg, UndeleteArgs};
pub use copy::{CopyArgs, ToArgs, ToPasswordArgs};
pub use defrag::{DefragArgs, DefragCommand, DefragRunArgs};
pub use image::{ExportArgs, ImageFormat, ImportArgs};
pub use inspect::{DiffArgs, DumpArgs, FilterArgs, FindArgs, LsArgs, SnapshotsArgs};
pub use jobs::{ConfigArgs, ConfigCommand, NotifyArgs, RunArgs};
pub use keys::{KeyCommand, NewKeyArgs};
pub use maintain::{CheckArgs, RepairArgs, StatsArgs, StatsBy, SubsetArg};
pub use mount::{MountArgs, MountGuardArgs};
pub use patterns::{ExcludeArgs, IncludeArgs, PATTERNS_HELP};
pub use policy::{ContentsArg, PatternArg, PolicyCommand, PolicyExplainArgs, PolicySetArgs};
pub use pool::{GenerateArgs, GenerateWhat, InitArgs, ParityCommand, UpgradeArgs};
pub use qos::{QosCommand, QosSetArgs};
pub use replica::{ReplicaArgs, ReplicaPasswordArgs};
pub use restore::{OverwriteArg, RestoreArgs};
pub use retain::{ForgetArgs, KeepArgs, RewriteArgs, TagArgs};
pub use scrub::{ScrubArgs, ScrubCommand, ScrubPassArgs};
pub use serve::{FastShares, JournalOn, ServeArgs};
pub use status::StatusArgs;
pub use top::TopArgs;
pub use volume::{
    VolumeCloneArgs, VolumeCommand, VolumeCreateArgs, VolumeDeleteArgs, VolumeInfoArgs,
    VolumeLossArgs, VolumeRenameArgs, VolumeResizeArgs, VolumeRollbackArgs,
};
pub use wait::WaitArg;

use clap::{Args, Parser, Subcommand};
use host_tools::HostCommand;
use setup::SetupArgs;
use std::path::PathBuf;
use terminal::sizes;

/// Deduplicating, encrypted protection store.
#[derive(Debug, Parser)]
#[command(
    name = "quintet",
    about = "Deduplicating, encrypted protection store for disk images, file trees and streams",
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = false,
    max_term_width = 100
)]
pub struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// End of the help of the program.
const AFTER_LONG_HELP: &str = "\
Examples:
  export QUINTET_REPOSITORY=/srv/pool QUINTET_PASSWORD_FILE=/root/pool.password
  quintet init
  quintet backup /home /etc
  quintet snapshots
  quintet restore latest --target /tmp/restored
  quintet import -f qcow2 disk.qcow2 disk
  quintet serve --read-only --nbd-socket /run/quintet.sock
  quintet forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run
  quintet gc
  quintet copy --to /mnt/other/pool --all
  quintet check --read-data --subset 1/7

More:
  quintet COMMAND --help    details and examples
  quintet help patterns     what --exclude, --include and find match

Environment:
  QUINTET_REPOSITORY        directory of the pool
  QUINTET_REPOSITORY_FILE   file whose first line is that directory
  QUINTET_PASSWORD          password of the pool
  QUINTET_PASSWORD_FILE     file whose first line is the password
  QUINTET_PASSWORD_COMMAND  program whose first line of output is the password
  QUINTET_PASSPHRASE_FD     number of an open file with the password in its
                            first line
  QUINTET_TO_REPOSITORY     directory of the pool that copy fills
  QUINTET_TO_PASSWORD       its password; also _FILE and _COMMAND
  QUINTET_REPLICA_PASSWORD  password of a replica; also _FILE and _COMMAND
  QUINTET_CONFIG            configuration file: jobs, and the pool if nothing
                            else names one
  QUINTET_CACHE_DIR         directory in which this machine remembers pools, to
                            notice replaced or older ones; by default below
                            XDG_CACHE_HOME or HOME
  QUINTET_CONTROL_DIRECTORY directory for the control socket of a pool whose
                            file system has no sockets; by default /run/quintet
                            or /run/user/UID/quintet
  QUINTET_COMPRESSION       zstd, zstd:LEVEL, lz4, none, auto or max
  QUINTET_MEMORY            memory for caches and queues
  QUINTET_FAST              directory of the fast tier (serve --fast); restore,
                            dump, export and mount read it too
  QUINTET_FAST_SIZE         bytes that the fast tier may take
  QUINTET_PROGRESS_FPS      updates of the progress display each second
  NO_COLOR, TMPDIR are honoured

Exit codes:
    0 done
    1 failed
    3 done, except for some files
   10 there is no pool
   11 a running process has the pool open for writing
   12 wrong password or key
   20 corruption found and repaired
   21 corruption found, not repaired
  130 interrupted
  141 the reader of the output closed it
";

/// Flags of all commands.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Directory of the pool
    #[arg(short = 'r', long, global = true, value_name = "POOL")]
    pub repo: Option<PathBuf>,
    /// File whose first line is the directory of the pool
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "repo")]
    pub repository_file: Option<PathBuf>,
    /// Source of the password.
    #[command(flatten)]
    pub password: PasswordArgs,
    /// Accept the pool as it is now, although this machine knows another pool or a newer state at
    /// this place. This machine then remembers the new one
    #[arg(long, global = true, hide_short_help = true)]
    pub accept_changed_pool: bool,
    /// Memory for index, caches and queues (K, M, G or KiB, MiB, GiB)
    #[arg(long, global = true, value_name = "SIZE", value_parser = sizes::parse)]
    pub memory: Option<u64>,
    /// How long a command that writes waits for another one that does (0, 30s, 5m, 2h). 0: fail at
    /// once [default: 1m]
    #[arg(long, global = true, value_name = "TIME", hide_short_help = true, value_parser = WaitArg::parse)]
    pub wait: Option<WaitArg>,
    /// Write results as JSON, one object on each line
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing on success, except the output of lists and dry runs. Warnings and errors are
    /// printed
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more: backup, restore and copy list what they store, restore or find; twice: also what
    /// they leave as it is
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Sources of the pool's password.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct PasswordArgs {
    /// File whose first line is the password
    #[arg(long, global = true, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Program whose first line of output is the password
    #[arg(long, global = true, value_name = "COMMAND", hide_short_help = true)]
    pub password_command: Option<String>,
    /// File with a recovery key, instead of a password
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub key_file: Option<PathBuf>,
    /// Confirm that the pool is not encrypted. Without this option an unencrypted pool is refused
    /// if you give a password, or if the pool was encrypted before
    #[arg(long, global = true, hide_short_help = true, conflicts_with_all = ["password_file", "password_command", "key_file"])]
    pub insecure_no_password: bool,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a pool
    Init(InitArgs),
    /// Passwords and recovery keys of a pool
    #[command(subcommand)]
    Key(KeyCommand),
    /// Show or set the parity of new containers, which repairs lost sectors
    #[command(subcommand)]
    Parity(ParityCommand),
    /// Give a pool of an older version the features of new pools
    Upgrade(UpgradeArgs),
    /// Store file trees, or a stream
    Backup(BackupArgs),
    /// Restore files of a snapshot
    Restore(RestoreArgs),
    /// List snapshots
    #[command(visible_alias = "list")]
    Snapshots(SnapshotsArgs),
    /// List files of a snapshot
    Ls(LsArgs),
    /// Find files by name in snapshots
    Find(FindArgs),
    /// Show the differences between two snapshots
    Diff(DiffArgs),
    /// Write a file to standard output, a directory as a tar archive
    Dump(DumpArgs),
    /// Change the tags of snapshots
    Tag(TagArgs),
    /// Make snapshots again without some files, or with another host or time
    Rewrite(RewriteArgs),
    /// Forget snapshots, by name or by a policy
    Forget(ForgetArgs),
    /// Restore forgotten snapshots from the trash
    Undelete(UndeleteArgs),
    /// Free the space that nothing needs
    Gc(GcArgs),
    /// Store a disk image
    Import(ImportArgs),
    /// Write a stored disk image to a file
    Export(ExportArgs),
    /// Copy snapshots to another pool; only missing data is sent
    Copy(CopyArgs),
    /// Verify that everything is present and unchanged
    Check(CheckArgs),
    /// Put damaged data into quarantine, so that the next backup stores it again
    Repair(RepairArgs),
    /// Verify everything that is stored; a server does it in the background
    Scrub(ScrubArgs),
    /// Show or set the shares of a server's device
    #[command(subcommand)]
    Qos(QosCommand),
    /// Show, explain and set policies for I/O classes
    #[command(
        subcommand,
        after_help = "\
Examples:
  quintet policy show
  quintet policy show vm-images >mine.csv
  quintet policy explain mine.csv --contents journal --write
  quintet -r /srv/pool policy set mine.csv
  quintet -r /srv/pool policy status"
    )]
    Policy(PolicyCommand),
    /// Put together data that is read together and is fragmented
    Defrag(DefragArgs),
    /// Show how much is stored, and how well it is compressed
    Stats(StatsArgs),
    /// Show the state of the pool, and what to do about problems
    Status(StatusArgs),
    /// Make everything that scheduled backups need: user, pool, keys, configuration, timers
    Setup(SetupArgs),
    /// Check the configuration file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run the jobs of the configuration file, as timers do
    Run(RunArgs),
    /// Try the notifications of the configuration file
    Notify(NotifyArgs),
    /// Watch a server at work
    Top(TopArgs),
    /// Writable disks in the pool
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Show the contents and events of this machine's page cache
    #[command(subcommand)]
    Host(HostCommand),
    /// Show volumes, images and snapshots as files
    Mount(MountArgs),
    /// Serve the contents of the pool
    Serve(ServeArgs),
    /// Write man pages and shell completions
    Generate(GenerateArgs),
    /// The syntax of patterns
    #[command(hide = true, long_about = PATTERNS_HELP, help_template = "{about}\n")]
    Patterns,
    /// Remove the mount of a program that has ended
    #[command(hide = true)]
    MountGuard(MountGuardArgs),
}

#[cfg(test)]
mod tests;

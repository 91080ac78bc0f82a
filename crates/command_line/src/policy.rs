//! Arguments of `policy`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand, ValueEnum, value_parser};
use terminal::sizes;
use units::Origin;

/// Subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show a policy for I/O classes, or list those that ship
    Show(PolicyShowArgs),
    /// Put a policy in force in the server, until it ends
    Set(PolicySetArgs),
    /// Show what each class did since the server began
    Status,
    /// Print the policy in force with shares of the fast tier that would serve better
    Advise(PolicyAdviseArgs),
    /// Say which rule gives a request its class, and what follows
    Explain(PolicyExplainArgs),
}

/// Show a policy.
#[derive(Args, Debug)]
pub struct PolicyShowArgs {
    /// Name of a policy that ships, or a file; without it: the names
    pub policy: Option<String>,
}

/// Put a policy in force.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet -r /srv/pool policy set vm-images
  quintet -r /srv/pool policy set ./mine.csv
  quintet -r /srv/pool policy set none
  quintet policy set adaptive && quintet policy set auto

The policy holds from the next request on, until the server ends. To keep it, start the server with
quintet serve --policy. auto: the server divides the fast tier among the classes of the policy in force
itself, by what clients read, until another policy is set.")]
pub struct PolicySetArgs {
    /// Name of a policy that ships, a file, none, or auto
    pub policy: String,
    /// With auto: time in use from one decision to the next [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u32).range(1..))]
    pub every: Option<u32>,
}

/// Print the policy in force with better shares of the fast tier.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet -r /srv/pool policy advise
  quintet policy advise >better.csv && quintet policy set ./better.csv

The server measures a sample of what clients read, and what other shares would have brought. Only what it
saw counts: ask after hours of the usual load.")]
pub struct PolicyAdviseArgs {
    /// Fail if the server measured for less time in use
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = value_parser!(u32).range(1..))]
    pub after: u32,
}

/// Explain the class of a request.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet policy explain vm-images --contents journal --write
  quintet policy explain mine.csv --volume disk1 --offset 1M --pattern rand
  quintet policy explain t2 --file-size 1M --file-offset 0")]
pub struct PolicyExplainArgs {
    /// Name of a policy that ships, or a file
    pub policy: String,
    /// The request writes
    #[arg(long)]
    pub write: bool,
    /// Volume
    #[arg(long, value_name = "NAME", default_value = "")]
    pub volume: String,
    /// Offset in the volume
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, default_value = "0")]
    pub offset: u64,
    /// Length of the request
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, default_value = "4K")]
    pub size: u64,
    /// Origin of the request
    #[arg(long, value_enum, default_value_t = OriginArg::Client)]
    pub origin: OriginArg,
    /// Access pattern of the requests around it
    #[arg(long, value_enum)]
    pub pattern: Option<PatternArg>,
    /// Contents of the blocks
    #[arg(long, value_enum, conflicts_with_all = ["file_size", "file_offset"])]
    pub contents: Option<ContentsArg>,
    /// Size of the file that the blocks belong to
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub file_size: Option<u64>,
    /// Offset in that file
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, requires = "file_size")]
    pub file_offset: Option<u64>,
    /// Class that the client sent (GROUP NUMBER of SCSI)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub wire: u8,
}

/// Origins, by the names that policies use.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum OriginArg {
    /// A client of a front end
    Client,
    /// A backup
    Backup,
    /// A restore
    Restore,
    /// A copy to another pool
    Replication,
    /// A scrub
    Scrub,
    /// Garbage collection
    Gc,
    /// Defragmentation
    Defragmentation,
}

impl From<OriginArg> for Origin {
    fn from(origin: OriginArg) -> Self {
        match origin {
            OriginArg::Client => Self::Foreground,
            OriginArg::Backup => Self::Backup,
            OriginArg::Restore => Self::Restore,
            OriginArg::Replication => Self::Replication,
            OriginArg::Scrub => Self::Scrub,
            OriginArg::Gc => Self::Collect,
            OriginArg::Defragmentation => Self::Defragment,
        }
    }
}

/// Access patterns.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum PatternArg {
    /// Sequential
    Seq,
    /// Upwards, with gaps
    Mono,
    /// Random
    Rand,
}

/// Contents of blocks that belong to no file.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum ContentsArg {
    /// Superblocks, bitmaps, inodes, extents
    Metadata,
    /// The journal or log of the file system
    Journal,
    /// Entries of a directory
    Directory,
    /// Not in use
    Free,
}

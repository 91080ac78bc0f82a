//! Arguments of `check`, `repair` and `stats`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::inspect::FilterArgs;
use super::replica::ReplicaArgs;
use clap::{Args, ValueEnum};

/// Verify that everything is present and unchanged.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet check
  quintet check --read-data
  quintet check --read-data --subset 3/7     (1/7 to 7/7 read everything)

Exit code 21: damage was found. The command names the files that the damage reaches. Then run
`quintet repair`.

A check takes data from the system's page cache where it can. So it does not verify the disk, and does
not change the date of verification in `quintet status`. `quintet scrub` does both.")]
pub struct CheckArgs {
    /// Also read, decrypt and hash the data itself
    #[arg(long)]
    pub read_data: bool,
    /// Read the data of part N of T only
    #[arg(long, value_name = "N/T", requires = "read_data", value_parser = SubsetArg::parse)]
    pub subset: Option<SubsetArg>,
}

/// Put damaged data into quarantine, so that the next backup stores it again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet repair
  quintet repair --dry-run
  quintet repair --subset 3/7     (reads the data of one part only)
  quintet repair --replica /mnt/other/pool
  quintet repair --replica /mnt/other/pool --dry-run

A repair reads everything, as `check --read-data` does. It puts damaged regions into quarantine: new
data is not deduplicated against them. So a backup of the same sources stores their contents again,
and old snapshots become complete. A repair deletes nothing. A region in quarantine that is sound again
leaves quarantine. With --replica the repair stores lost data again from another pool that has copies of
the same snapshots (see quintet scrub --help).

Exit codes: 0 no damage; 20 damage was found and every snapshot is complete; 21 data is still missing:
the command names it, and a new backup of its source repairs it. A dry run gives 0 or 21.")]
pub struct RepairArgs {
    /// Read the data of part N of T only
    #[arg(long, value_name = "N/T", value_parser = SubsetArg::parse)]
    pub subset: Option<SubsetArg>,
    /// Show the damage and what the repair would do, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Only end the warnings about volume writes that the journal lost
    #[arg(long, conflicts_with_all = ["replica", "dry_run", "subset"])]
    pub acknowledge_lost_writes: bool,
    /// The replica.
    #[command(flatten)]
    pub replica: ReplicaArgs,
}

/// A part of all data, written `n/t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubsetArg {
    /// Number of the part, 1 to `parts`.
    pub part: u64,
    /// Number of parts.
    pub parts: u64,
}

impl SubsetArg {
    /// Parses `n/t`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(part, parts)| {
            Some((part.trim().parse().ok()?, parts.trim().parse().ok()?))
        });
        match numbers {
            Some((part, parts)) if part >= 1 && part <= parts => Ok(Self { part, parts }),
            Some((part, parts)) => Err(format!("there is no part {part} of {parts}")),
            None => Err(format!("{text:?} is not N/T (example: 1/7)")),
        }
    }
}

/// Show how much is stored, and how well it is deduplicated and compressed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet stats
  quintet stats --by snapshot --host web1")]
pub struct StatsArgs {
    /// One line for each snapshot, or one for all
    #[arg(long, value_name = "WHAT", default_value = "pool")]
    pub by: StatsBy,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// The scope of `stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatsBy {
    /// The whole pool; reads all directories and recipes
    Pool,
    /// Each snapshot, with the figures from the time when it was taken
    Snapshot,
}

//! Arguments of `check`, `repair` and `stats`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::inspect::FilterArgs;
use super::replica::ReplicaArgs;
use clap::{Args, ValueEnum};

/// Verify that everything is there and as it was written.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet check
  quintet check --read-data
  quintet check --read-data --subset 3/7     (seven such runs, 1/7 to 7/7, read everything)

Exit code 21 means that damage was found; the files that it reaches are named. `quintet repair`
does something about it. What the system has in its page cache is not read from the disk, so this is
no verification of the disk and does not set the date that `quintet status` shows: `quintet scrub` does.")]
pub struct CheckArgs {
    /// Also read, decrypt and hash the data itself
    #[arg(long)]
    pub read_data: bool,
    /// Read the data of part N of T only
    #[arg(long, value_name = "N/T", requires = "read_data", value_parser = SubsetArg::parse)]
    pub subset: Option<SubsetArg>,
}

/// Quarantine what is damaged, so that the next backup stores it anew.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet repair
  quintet repair --dry-run
  quintet repair --subset 3/7     (reads the data of one part only)
  quintet repair --replica /mnt/other/pool
  quintet repair --replica /mnt/other/pool --dry-run

Reads everything, as `check --read-data` does. Regions whose bytes are damaged are noted in the pool:
nothing new is deduplicated against them, so a backup of the same sources stores their contents
anew, and old snapshots that need them become whole. Nothing is removed. A region that was noted
and proves to be whole is taken back. With --replica what is lost is stored again from another pool
that has copies of the same snapshots (see quintet scrub --help).

Exit codes: 0 nothing was wrong; 20 damage was found and every snapshot is whole; 21 something is
still missing and is named: back up its source again. A dry run repairs nothing: 0 or 21.")]
pub struct RepairArgs {
    /// Read the data of part N of T only
    #[arg(long, value_name = "N/T", value_parser = SubsetArg::parse)]
    pub subset: Option<SubsetArg>,
    /// Say what is damaged and what the repair would do, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Only end the warnings about writes to volumes that the journal has lost
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

/// Show how much is stored, and how well.
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
    /// Each snapshot, from what was noted when it was taken
    Snapshot,
}

//! Arguments of `status`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::PeriodArg;
use clap::Args;

/// Show the state of the pool on one screen, and what to do about problems.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet status
  quintet status --json
  quintet status --memory-plan
  quintet status --memory-plan --memory 4G
  quintet status -q || mail -s 'the pool needs help' root

The worst finding is the state and the exit code:
  ONLINE    0   no problem
  DEGRADED  3   everything can be read, but you must act: a snapshot is overdue
                or incomplete, a verification is overdue, or the disk fills or
                is read-only
  DAMAGED  21   stored data is lost or damaged
  FAILED    1   the server cannot store new data

A source is overdue when its newest snapshot is older than one and a half times the usual interval,
which is a day or more. A tag says another interval: every=6h (h, d or w). If no later snapshot will
follow, give the newest one the tag `final`. Files that changed while they were read are a note only.")]
pub struct StatusArgs {
    /// Maximum age of the last complete verification (30d, 8w; 0: no limit)
    #[arg(long, value_name = "TIME", default_value = "45d", value_parser = PeriodArg::parse)]
    pub verify_within: PeriodArg,
    /// Show the shares of --memory: of the running server, with their use, or of a server that
    /// would be started with the --memory given here
    #[arg(long)]
    pub memory_plan: bool,
}

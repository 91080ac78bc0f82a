//! Arguments of `status`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::PeriodArg;
use clap::Args;

/// Show the pool on one screen, with what to do if anything.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet status
  quintet status --json
  quintet status --memory-plan
  quintet status --memory-plan --memory 4G
  quintet status -q || mail -s 'the pool needs help' root

The worst of what is found is the state and the exit code:
  ONLINE    0   nothing is wrong
  DEGRADED  3   all can be read, but somebody has to act: a snapshot is overdue or incomplete,
                a verification is overdue, the disk fills
  DAMAGED  21   something that was stored is lost or damaged
  FAILED    1   the server cannot store what it is asked to

A source is overdue when its newest snapshot is half as old again as is usual for it; the tag
`final` on that snapshot says that there will be none after it.")]
pub struct StatusArgs {
    /// Everything should have been verified within this time (30d, 8w; 0: do not ask)
    #[arg(long, value_name = "TIME", default_value = "45d", value_parser = PeriodArg::parse)]
    pub verify_within: PeriodArg,
    /// Show who gets how much of --memory: of the server that holds the pool, with what is in use,
    /// or of one that would be started with the --memory given here
    #[arg(long)]
    pub memory_plan: bool,
}

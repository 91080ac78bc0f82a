//! Arguments of `top`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::Args;
use terminal::amounts::seconds;

/// Watch a server at work.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet top
  quintet top --interval 5 --json --count 12
  quintet top --once

The display shows the requests of clients for each volume, their latencies, the caches and the journal,
since the last update. Latencies are those of the store, without the network. Ctrl-C ends it.")]
pub struct TopArgs {
    /// Seconds between updates
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub interval: f64,
    /// End after so many updates
    #[arg(short = 'c', long, value_name = "N")]
    pub count: Option<u64>,
    /// Print one update as plain lines, also to a terminal
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
}

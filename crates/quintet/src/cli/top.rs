//! Arguments of `top`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::Args;

/// Watch a server at work.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet top
  quintet top --interval 5 --json --count 12

Shows what clients ask of each volume and how long it takes, the caches and the journal, since the last
look. Latencies are those of the store, without the network. Ends with Ctrl-C.")]
pub struct TopArgs {
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub interval: f64,
    /// Ends after so many looks
    #[arg(short = 'c', long, value_name = "N")]
    pub count: Option<u64>,
}

/// Parses an interval from a tenth of a second to an hour.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.1 to 3600 seconds".to_owned()),
    }
}

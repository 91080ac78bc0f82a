//! Arguments of `defrag`.

use crate::sizes;
use clap::Args;

/// Put together what is read at once and lies in pieces.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet defrag --dry-run
  quintet defrag
  quintet defrag --hot 20 --limit 50M disk
  quintet defrag --bypass disk
  quintet defrag --pause                (what a server does for another command)

A volume that is written here and there comes to lie in pieces all over the pool. What is read at once,
often, and lies in pieces is copied to one place, and nothing else: a server remembers what was read of its
volumes and snapshots (the trace). Says what reading costs before and after, and what part of rewriting
everything was written for it.

Without a trace, or with --bypass, every 128 KiB that lie in pieces are copied, of all volumes or of those
that are named; of streams that are named, the short runs.

What volumes and snapshots share is moved only if that serves more requests than it hurts. The old copies
are given back by `quintet gc`. Interrupted, it has lost nothing.")]
pub struct DefragArgs {
    /// Volumes, images or snapshots, by name or by the beginning of their id; none: whatever the trace
    /// knows, or all volumes
    #[arg(value_name = "OBJECT")]
    pub objects: Vec<String>,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Ask no trace: look at everything
    #[arg(long)]
    pub bypass: bool,
    /// Of what was read of each object, the part that was read most
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = PercentArg::parse)]
    pub hot: PercentArg,
    /// Also what that hurts other owners of
    #[arg(long)]
    pub move_shared: bool,
    /// Everything, in pieces or not: to compare with
    #[arg(long, hide = true)]
    pub whole: bool,
    /// Let the run that goes on in the server stand still, until --resume
    #[arg(long, conflicts_with_all = ["objects", "dry_run", "resume"])]
    pub pause: bool,
    /// Let it go on
    #[arg(long, conflicts_with_all = ["objects", "dry_run"])]
    pub resume: bool,
    /// Bytes that are read and written in a second, at most
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
}

/// 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentArg(pub u8);

impl PercentArg {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim().trim_end_matches('%').trim_end();
        match number.parse() {
            Ok(percent @ 1..=100) => Ok(Self(percent)),
            _ => Err(format!("{text:?} is not a percentage (1 to 100)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(PercentArg::parse("50"), Ok(PercentArg(50)));
        assert_eq!(PercentArg::parse(" 7 % "), Ok(PercentArg(7)));
        for wrong in ["", "0", "101", "-1", "1.5", "x"] {
            assert!(PercentArg::parse(wrong).is_err(), "{wrong}");
        }
    }
}

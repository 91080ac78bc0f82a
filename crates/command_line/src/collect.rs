//! Arguments of `gc` and `undelete`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::Args;
use server::settings::period_s;
use terminal::sizes;

const DAY_S: u64 = 86_400;

/// Free the space that no snapshot and no volume needs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet gc --dry-run
  quintet gc --limit 50M
  quintet gc --trash-period 0      (nothing can be undeleted afterwards)
  quintet gc --set-trash-minimum 30d

A collection runs beside backups and volumes. If the pool has a server, the server runs it.
`quintet undelete` restores forgotten snapshots until the trash period is over. Unneeded containers
first go into the trash. A later run deletes them, after a day at the earliest (sooner with a shorter
trash period). So run it every day. An interruption loses nothing.

If needed data is damaged, the command ends with code 21 and deletes nothing. Run check and repair
first.")]
pub struct GcArgs {
    /// Show what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Maximum bytes copied each second (10M); 0: no limit
    #[arg(long, alias = "rate-limit", value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Maximum bytes copied in this run; the next run does the rest
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub max_copy: Option<u64>,
    /// Copy until partly needed containers have at most this much unused data, in percent of the
    /// needed data
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=100))]
    pub max_unused: u64,
    /// Time during which `undelete` restores forgotten snapshots (0, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = PeriodArg::parse)]
    pub trash_period: PeriodArg,
    /// Collect nothing. Set the minimum trash period of the pool, for every gc. To shorten it
    /// later, you need a recovery key (--key-file) that existed when it was first set
    #[arg(long, value_name = "TIME", value_parser = PeriodArg::parse, conflicts_with_all = ["dry_run", "limit", "max_copy"])]
    pub set_trash_minimum: Option<PeriodArg>,
}

/// Restore forgotten snapshots from the trash.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet undelete            (lists forgotten snapshots)
  quintet undelete 3f2a91c4

This works until the first `quintet gc` after the trash period of a snapshot.")]
pub struct UndeleteArgs {
    /// Beginnings of their names; without any, lists the trash
    #[arg(value_name = "SNAPSHOT")]
    pub snapshots: Vec<String>,
}

/// A time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodArg {
    /// Seconds.
    pub seconds: u64,
}

impl PeriodArg {
    /// Default trash period of `gc`.
    pub const DEFAULT: Self = Self { seconds: 7 * DAY_S };

    /// Parses `0`, or a number with `s`, `h`, `d` or `w`.
    pub fn parse(text: &str) -> Result<Self, String> {
        period_s(text).map(|seconds| Self { seconds })
    }

    /// Returns the span in nanoseconds.
    pub fn nanoseconds(self) -> i64 {
        i64::try_from(self.seconds)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods() {
        let seconds = |text| PeriodArg::parse(text).map(|p| p.seconds);
        assert_eq!(seconds("0"), Ok(0));
        assert_eq!(seconds("0d"), Ok(0));
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("12h"), Ok(12 * 3600));
        assert_eq!(PeriodArg::parse("7d"), Ok(PeriodArg::DEFAULT));
        assert_eq!(seconds("2w"), Ok(14 * DAY_S));
        for wrong in [
            "",
            "7",
            "d",
            "-1d",
            "1.5d",
            "7x",
            "5m",
            "99999999999d",
            "9999999w",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

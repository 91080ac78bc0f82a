//! Arguments of `gc` and `undelete`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::Args;
use server::settings::period_s;
use server::sizes;

const DAY_S: u64 = 86_400;

/// Give back the space that no snapshot and no volume needs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet gc --dry-run
  quintet gc --rate-limit 50M
  quintet gc --trash-period 0      (nothing can be undeleted afterwards)
  quintet gc --set-trash-minimum 30d

Runs beside backups, volumes and everything else, in the server that holds the pool if there is one.
Forgotten snapshots can be taken back with `quintet undelete` until the trash period is over. What
is not needed goes to the trash first and is deleted by a later run, a day later at the earliest
(sooner with a shorter trash period), so run it every day. Interrupted, it has lost nothing.

Damage to what is needed stops it with code 21 before anything goes: run check and repair first.")]
pub struct GcArgs {
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Copy no more than this each second
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub rate_limit: Option<u64>,
    /// Copy no more than this in all: the rest is left for the next run
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub max_copy: Option<u64>,
    /// Copy until no more than this is unused in containers of data that are needed in part,
    /// percent of what is needed
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=100))]
    pub max_unused: u64,
    /// How long forgotten snapshots can be taken back (0, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = PeriodArg::parse)]
    pub trash_period: PeriodArg,
    /// Collect nothing; set in the pool how long any gc keeps forgotten snapshots at least. Only a
    /// recovery key (--key-file) that was there when it was first set can shorten it
    #[arg(long, value_name = "TIME", value_parser = PeriodArg::parse, conflicts_with_all = ["dry_run", "rate_limit", "max_copy"])]
    pub set_trash_minimum: Option<PeriodArg>,
}

/// Take forgotten snapshots back.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet undelete            (lists what can be taken back)
  quintet undelete 3f2a91c4

Snapshots can be taken back until the first `quintet gc` after their trash period.")]
pub struct UndeleteArgs {
    /// Beginnings of their names; without any, lists what is in the trash
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
            "99999999999d",
            "9999999w",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

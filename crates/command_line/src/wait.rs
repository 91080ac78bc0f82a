//! The argument of `--wait`. [`super::GlobalArgs`] includes it.
//!
//! Invariant: see [`super`].

use server::settings::time_s;
use std::time::Duration;

/// A time to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitArg {
    /// Seconds.
    pub seconds: u64,
}

impl WaitArg {
    /// Parses `0`, or a number with `s`, `m`, `h`, `d` or `w`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a time (examples: 0, 30s, 5m, 2h)");
        let seconds = time_s(text).ok_or_else(refuse)?;
        Ok(Self { seconds })
    }

    /// Returns the time.
    pub fn time(self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let seconds = |text| WaitArg::parse(text).map(|wait| wait.seconds);
        assert_eq!(seconds("0"), Ok(0));
        assert_eq!(seconds("30s"), Ok(30));
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("2h"), Ok(7200));
        for wrong in ["", "m", "1", "-1m", "1.5m", "99999999999m", "5min"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

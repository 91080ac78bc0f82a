//! Percentages and intervals, as users write them. Command lines call this.
//!
//! Invariant: a value out of range is refused with the range.

/// A percentage from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl Percent {
    /// Parses `50` or `50 %`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim().trim_end_matches('%').trim_end();
        match number.parse() {
            Ok(percent @ 1..=100) => Ok(Self(percent)),
            _ => Err(format!("{text:?} is not a percentage (1 to 100)")),
        }
    }
}

/// Parses an interval from a tenth of a second to an hour.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.1 to 3600 seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(Percent::parse("50"), Ok(Percent(50)));
        assert_eq!(Percent::parse(" 7 % "), Ok(Percent(7)));
        for wrong in ["", "0", "101", "-1", "1.5", "x"] {
            assert!(Percent::parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! Reads and writes times and time spans. Commands, findings and mounts call this.
//!
//! Invariant: programs get RFC 3339 in UTC, people get local time. A time outside the calendar is
//! written in seconds. Nothing here reads a clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use std::ffi::OsStr;
use std::fmt;
use units::UnixNanos;

/// Formats RFC 3339 in UTC, with as many decimal places as needed.
pub fn rfc3339(time: UnixNanos) -> String {
    match timestamp(time) {
        Some(timestamp) => timestamp.to_string(),
        None => format!("@{}", time.0.div_euclid(1_000_000_000)),
    }
}

/// Formats RFC 3339 in UTC for a file's time, which may lie outside the calendar.
pub fn rfc3339_of_file(time: format::tree::Timestamp) -> String {
    let nanos = i32::try_from(time.nanos).unwrap_or(0);
    match Timestamp::new(time.seconds, nanos) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => format!("@{}", time.seconds),
    }
}

/// Formats `2026-11-20 13:45:07` in `zone`.
pub fn local(time: UnixNanos, zone: &TimeZone) -> String {
    match zoned(time, zone) {
        Some(zoned) => zoned.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        None => rfc3339(time),
    }
}

/// Formats `2026-11-20T13:45:07+01:00` in `zone`: a name that sorts by time within one zone.
pub fn rfc3339_local(time: UnixNanos, zone: &TimeZone) -> String {
    match zoned(time, zone) {
        Some(zoned) => zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        None => rfc3339(time),
    }
}

/// Formats a file's time as `2026-11-20 13:45:07` in `zone`.
pub fn local_of_file(time: format::tree::Timestamp, zone: &TimeZone) -> String {
    match Timestamp::new(time.seconds, 0) {
        Ok(at) => at
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => format!("@{}", time.seconds),
    }
}

/// Returns the time in the calendar of `zone`. `None` if it lies outside the calendar.
pub fn zoned(time: UnixNanos, zone: &TimeZone) -> Option<Zoned> {
    timestamp(time).map(|timestamp| timestamp.to_zoned(zone.clone()))
}

fn timestamp(time: UnixNanos) -> Option<Timestamp> {
    Timestamp::from_nanosecond(time.0.into()).ok()
}

/// Reason why a time or span was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CalendarError(String);

/// Parses RFC 3339 (`2026-11-20T13:45:07Z`, `...+01:00`), local time (`2026-11-20 13:45:07`) or a
/// day (`2026-11-20`, its first moment).
pub fn parse_time(text: &str, zone: &TimeZone) -> Result<UnixNanos, CalendarError> {
    let refuse = || {
        CalendarError(format!(
            "{text:?} is not a time (examples: 2026-11-20, \"2026-11-20 13:45:07\", \
             2026-11-20T13:45:07Z)"
        ))
    };
    let timestamp = match text.trim().parse::<Timestamp>() {
        Ok(timestamp) => timestamp,
        Err(_) => text
            .trim()
            .parse::<DateTime>()
            .and_then(|local| local.to_zoned(zone.clone()))
            .map_err(|_| refuse())?
            .timestamp(),
    };
    i64::try_from(timestamp.as_nanosecond())
        .map(UnixNanos)
        .map_err(|_| refuse())
}

/// A calendar span, as `--keep-within` takes it: `1y5m7d2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
}

impl Within {
    /// Parses numbers with the units `y`, `m` or `mo`, `w`, `d` and `h`. Each unit occurs at most
    /// once, and the span is not zero.
    pub fn parse(text: &str) -> Result<Self, CalendarError> {
        let refuse = |why: &str| {
            CalendarError(format!(
                "{text:?} is not a time span: {why} (examples: 12h, 7d, 2w, 1y6m)"
            ))
        };
        let mut numbers = [None; 5];
        let mut digits = String::new();
        let mut chars = text.trim().chars().peekable();
        while let Some(c) = chars.next() {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            if c == 'm' {
                chars.next_if_eq(&'o');
            }
            let place = "ymwdh".find(c).ok_or_else(|| refuse("unknown unit"))?;
            let number: i64 = digits.parse().map_err(|_| refuse("a number is missing"))?;
            // Below Jiff's own limits, and longer than any useful retention.
            if number > 9999 {
                return Err(refuse("it is too long"));
            }
            match numbers.get_mut(place) {
                Some(slot @ None) => *slot = Some(number),
                _ => return Err(refuse("a unit occurs twice")),
            }
            digits.clear();
        }
        if !digits.is_empty() {
            return Err(refuse("a number has no unit"));
        }
        let [years, months, weeks, days, hours] = numbers.map(|n| n.unwrap_or(0));
        let within = Self {
            years,
            months,
            days: days + 7 * weeks,
            hours,
        };
        match within {
            Self {
                years: 0,
                months: 0,
                days: 0,
                hours: 0,
            } => Err(refuse("nothing")),
            within => Ok(within),
        }
    }

    /// Returns true if it has months only: somebody may have meant minutes.
    pub fn is_of_months(&self) -> bool {
        self.months > 0 && (self.years, self.days, self.hours) == (0, 0, 0)
    }

    /// Returns the moment that lies this span before `time`, by the calendar of its zone.
    pub fn before(&self, time: &Zoned) -> Zoned {
        let span = Span::new()
            .years(self.years)
            .months(self.months)
            .days(self.days)
            .hours(self.hours);
        // Only spans that reach before the calendar's first year saturate.
        time.saturating_sub(span)
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [self.years, self.months, self.days, self.hours];
        for (number, unit) in numbers.iter().zip(["y", "mo", "d", "h"]) {
            if *number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        Ok(())
    }
}

/// Returns the zone that a value of `TZ` names, or the machine's zone if there is none. For
/// commands whose environment is not this process's. An unknown name gives UTC.
pub fn zone_called(name: Option<&OsStr>) -> TimeZone {
    let from_file = |path: &OsStr| {
        let bytes = std::fs::read(path).ok()?;
        TimeZone::tzif("Local", &bytes).ok()
    };
    let found = match name.map(OsStr::to_string_lossy) {
        None => from_file(OsStr::new("/etc/localtime")),
        Some(text) => {
            let text = text.strip_prefix(':').unwrap_or(&text);
            match text.starts_with('/') {
                true => from_file(OsStr::new(text)),
                false => TimeZone::get(text).or_else(|_| TimeZone::posix(text)).ok(),
            }
        }
    };
    found.unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_by_name() {
        let at = |name: &str| {
            let zone = zone_called(Some(OsStr::new(name)));
            local(UnixNanos(0), &zone)
        };
        assert_eq!(at("CET-1CEST,M3.5.0,M10.5.0/3"), "1970-01-01 01:00:00");
        assert_eq!(at("UTC"), "1970-01-01 00:00:00");
        assert_eq!(at("nonsense"), "1970-01-01 00:00:00");
    }

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn times_are_read_and_written() {
        let noon = UnixNanos(1_795_172_400_000_000_000);
        for text in [
            "2026-11-20T11:00:00Z",
            "2026-11-20T12:00:00+01:00",
            "2026-11-20 12:00:00",
            "2026-11-20T12:00",
        ] {
            assert_eq!(parse_time(text, &berlin()), Ok(noon), "{text}");
        }
        assert_eq!(rfc3339(noon), "2026-11-20T11:00:00Z");
        assert_eq!(local(noon, &berlin()), "2026-11-20 12:00:00");
        let day = parse_time("2026-11-20", &berlin()).unwrap();
        assert_eq!(local(day, &berlin()), "2026-11-20 00:00:00");
        for nonsense in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-11-20 25:00",
            "9999-01-01",
        ] {
            assert!(parse_time(nonsense, &berlin()).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn files_have_any_time() {
        let time = |seconds| format::tree::Timestamp { seconds, nanos: 1 };
        assert_eq!(rfc3339_of_file(time(0)), "1970-01-01T00:00:00.000000001Z");
        assert_eq!(rfc3339_of_file(time(i64::MAX)), format!("@{}", i64::MAX));
        assert_eq!(
            local_of_file(time(i64::MIN), &berlin()),
            format!("@{}", i64::MIN)
        );
    }

    #[test]
    fn spans() {
        let text = |t: &str| Within::parse(t).map(|w| w.to_string());
        assert_eq!(text("1y5m7d2h").unwrap(), "1y5mo7d2h");
        assert_eq!(text("30m").unwrap(), "30mo");
        assert_eq!(text("1y5mo").unwrap(), "1y5mo");
        assert_eq!(text("2w1d").unwrap(), "15d");
        assert_eq!(text("48h").unwrap(), "48h");
        for nonsense in [
            "", "d", "5", "5x", "5o", "1m1mo", "1d2d", "0d", "-1d", "1d2", "99999y",
        ] {
            assert!(Within::parse(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn months_follow_the_calendar() {
        let time = parse_time("2026-03-31 12:00:00", &berlin()).unwrap();
        let time = zoned(time, &berlin()).unwrap();
        let before = Within::parse("1m").unwrap().before(&time);
        assert_eq!(before.strftime("%F %T").to_string(), "2026-02-28 12:00:00");
    }
}

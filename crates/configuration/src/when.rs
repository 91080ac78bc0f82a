//! The schedule language: when a job runs, and how long its period is. The file's `when` and
//! `silent-after` are written in it.
//!
//! Invariant: a schedule has one period, so that an absence is noticed. Every schedule has a form
//! that systemd timers understand. No I/O and no clock.

use std::fmt;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;
/// The longest time between two runs, seconds.
const EVERY_S_MAX: u64 = 366 * DAY_S;

const EXAMPLES: &str =
    "\"hourly\", \"daily\", \"weekly\", \"monthly\", \"02:30\", \"sun 02:30\" or \"every 15m\"";

/// A day of the week, as systemd writes it, and its full name.
const DAYS: [(&str, &str); 7] = [
    ("Mon", "monday"),
    ("Tue", "tuesday"),
    ("Wed", "wednesday"),
    ("Thu", "thursday"),
    ("Fri", "friday"),
    ("Sat", "saturday"),
    ("Sun", "sunday"),
];

/// A schedule. See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the start of each hour.
    Hourly,
    /// At midnight.
    Daily,
    /// On Mondays at midnight.
    Weekly,
    /// On the first day of each month at midnight.
    Monthly,
    /// At a time of the day, on each day or on one day of the week.
    At {
        /// Three letters, as systemd writes them; `None`: each day.
        day: Option<&'static str>,
        /// 0 to 23.
        hour: u8,
        /// 0 to 59.
        minute: u8,
    },
    /// This long after the start of the last run.
    Every {
        /// Seconds, at least a minute.
        seconds: u64,
    },
}

impl When {
    /// Parses a schedule. Case does not matter.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let mut words = lower.split_whitespace();
        let refuse = || format!("{text:?} is not a schedule; write {EXAMPLES}");
        match (words.next(), words.next(), words.next()) {
            (Some("hourly"), None, None) => Ok(Self::Hourly),
            (Some("daily"), None, None) => Ok(Self::Daily),
            (Some("weekly"), None, None) => Ok(Self::Weekly),
            (Some("monthly"), None, None) => Ok(Self::Monthly),
            (Some("every"), Some(span), None) => Ok(Self::Every {
                seconds: parse_span(span)?,
            }),
            (Some(time), None, None) => at(None, time).ok_or_else(refuse),
            (Some(day), Some(time), None) => {
                let is_it = |(short, long): &&(&str, &str)| {
                    day == *long || day == short.to_ascii_lowercase()
                };
                let day = DAYS.iter().find(is_it).ok_or_else(refuse)?;
                at(Some(day.0), time).ok_or_else(refuse)
            }
            _ => Err(refuse()),
        }
    }

    /// Returns the longest time between two runs, seconds.
    pub fn period_s(&self) -> u64 {
        match self {
            Self::Hourly => HOUR_S,
            Self::Daily | Self::At { day: None, .. } => DAY_S,
            Self::Weekly | Self::At { day: Some(_), .. } => 7 * DAY_S,
            Self::Monthly => 31 * DAY_S,
            Self::Every { seconds } => *seconds,
        }
    }

    /// Returns the lines of a systemd timer's section `[Timer]`.
    pub fn timer_lines(&self) -> Vec<String> {
        match self {
            // A service of type oneshot counts as active from its start.
            Self::Every { seconds } => vec![
                format!("OnBootSec={seconds}s"),
                format!("OnUnitActiveSec={seconds}s"),
            ],
            Self::At { day, hour, minute } => {
                let day = day.map_or_else(String::new, |day| format!("{day} "));
                vec![format!("OnCalendar={day}*-*-* {hour:02}:{minute:02}:00")]
            }
            named => vec![format!("OnCalendar={named}")],
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hourly => f.write_str("hourly"),
            Self::Daily => f.write_str("daily"),
            Self::Weekly => f.write_str("weekly"),
            Self::Monthly => f.write_str("monthly"),
            Self::At { day, hour, minute } => match day {
                Some(day) => write!(f, "{} {hour:02}:{minute:02}", day.to_ascii_lowercase()),
                None => write!(f, "{hour:02}:{minute:02}"),
            },
            Self::Every { seconds } => write!(f, "every {}", span(*seconds)),
        }
    }
}

fn at(day: Option<&'static str>, time: &str) -> Option<When> {
    let (hour, minute) = time.split_once(':')?;
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>, below: u8| {
        let fits = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|number| fits && *number < below)
    };
    Some(When::At {
        day,
        hour: number(hour, 1..=2, 24)?,
        minute: number(minute, 2..=2, 60)?,
    })
}

/// Parses a time span: `15m` (minutes), `6h`, `2d` or `1w`. Returns seconds.
pub fn parse_span(text: &str) -> Result<u64, String> {
    let refuse = |why: &str| format!("{text:?} is not a time span: {why}; write 15m, 6h, 2d or 1w");
    let units = [
        ("m", MINUTE_S),
        ("h", HOUR_S),
        ("d", DAY_S),
        ("w", 7 * DAY_S),
    ];
    let split = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.trim().strip_suffix(unit)?, *seconds)));
    let Some((number, unit_s)) = split else {
        return Err(refuse("it has no unit"));
    };
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if !is_number {
        return Err(refuse("a whole number is missing"));
    }
    let seconds = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit_s));
    match seconds {
        Some(0) => Err(refuse("it is zero")),
        Some(seconds) if seconds <= EVERY_S_MAX => Ok(seconds),
        _ => Err(refuse("it is longer than a year")),
    }
}

/// Formats a span with the largest unit that divides it, as [`parse_span`] reads it.
pub fn span(seconds: u64) -> String {
    let units = [("w", 7 * DAY_S), ("d", DAY_S), ("h", HOUR_S)];
    match units.iter().find(|(_, unit)| seconds.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", seconds / unit),
        None => format!("{}m", seconds / MINUTE_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_a_period_and_a_timer() {
        for (text, shown, period_s, timer) in [
            ("hourly", "hourly", 3600, "OnCalendar=hourly"),
            ("daily", "daily", 86_400, "OnCalendar=daily"),
            ("Weekly", "weekly", 604_800, "OnCalendar=weekly"),
            ("monthly", "monthly", 31 * 86_400, "OnCalendar=monthly"),
            ("02:30", "02:30", 86_400, "OnCalendar=*-*-* 02:30:00"),
            ("2:30", "02:30", 86_400, "OnCalendar=*-*-* 02:30:00"),
            (
                "sun 02:30",
                "sun 02:30",
                604_800,
                "OnCalendar=Sun *-*-* 02:30:00",
            ),
            (
                " Sunday  23:59 ",
                "sun 23:59",
                604_800,
                "OnCalendar=Sun *-*-* 23:59:00",
            ),
            ("every 15m", "every 15m", 900, "OnUnitActiveSec=900s"),
            ("every 90m", "every 90m", 5400, "OnUnitActiveSec=5400s"),
            ("every 24h", "every 1d", 86_400, "OnUnitActiveSec=86400s"),
        ] {
            let when = When::parse(text).unwrap();
            assert_eq!(when.to_string(), shown);
            assert_eq!(When::parse(shown), Ok(when));
            assert_eq!(when.period_s(), period_s, "{text}");
            assert_eq!(when.timer_lines().last().unwrap(), timer);
        }
        let every = When::parse("every 15m").unwrap().timer_lines();
        assert_eq!(every, ["OnBootSec=900s", "OnUnitActiveSec=900s"]);
    }

    #[test]
    fn other_words_are_refused_with_examples() {
        for text in [
            "",
            "yearly",
            "24:00",
            "2:5",
            "02:60",
            "noon",
            "02:30 sun",
            "sunny 02:30",
            "every",
            "every day",
            "daily 02:30",
            "every 15m 3",
            "+2:30",
            "::",
        ] {
            let why = When::parse(text).unwrap_err();
            assert!(why.contains("write "), "{text}: {why}");
        }
        for span in [
            "0m",
            "15",
            "m",
            "-5m",
            "1y",
            "53w",
            "1.5h",
            "99999999999999999999h",
        ] {
            assert!(When::parse(&format!("every {span}")).is_err(), "{span}");
            assert!(parse_span(span).is_err(), "{span}");
        }
        assert_eq!(parse_span("2d"), Ok(172_800));
    }
}

//! The rules of a retention policy, and their state while they see snapshots from newest to oldest.
//! `retention` and `forget` call this.
//!
//! Invariant: no I/O and no clock. Rules are independent of each other.

use format::snapshot::Snapshot;
use jiff::Zoned;
use terminal::calendar::Within;

/// Number of snapshots that a rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keep {
    /// The rule was not given.
    #[default]
    None,
    /// This many.
    Count(u32),
    /// One of every period.
    Unlimited,
}

impl Keep {
    /// Parses a number, or `unlimited` (also `-1`, as in restic).
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "unlimited" | "-1" => Ok(Self::Unlimited),
            number => match number.parse() {
                Ok(0) => Err("0 keeps nothing; remove the option".to_owned()),
                Ok(count) => Ok(Self::Count(count)),
                Err(_) => Err(format!("{number:?} is neither a number nor \"unlimited\"")),
            },
        }
    }
}

/// Rules of `forget`. A snapshot is kept if any rule keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// Keeps the newest snapshots.
    pub last: Keep,
    /// Keeps the newest snapshot of each hour.
    pub hourly: Keep,
    /// Keeps the newest of each day.
    pub daily: Keep,
    /// Keeps the newest of each week of the ISO calendar.
    pub weekly: Keep,
    /// Keeps the newest of each month.
    pub monthly: Keep,
    /// Keeps the newest of each year.
    pub yearly: Keep,
    /// Keeps all snapshots within this span before the newest.
    pub within: Option<Within>,
    /// Keeps the newest of each hour within this span.
    pub within_hourly: Option<Within>,
    /// Keeps the newest of each day within this span.
    pub within_daily: Option<Within>,
    /// Keeps the newest of each week within this span.
    pub within_weekly: Option<Within>,
    /// Keeps the newest of each month within this span.
    pub within_monthly: Option<Within>,
    /// Keeps the newest of each year within this span.
    pub within_yearly: Option<Within>,
    /// Keeps snapshots that have all tags of one of these lists.
    pub tags: Vec<Vec<String>>,
}

impl Policy {
    /// Returns true if no rule was given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the reasons that a snapshot's tags give.
    pub(super) fn tag_reasons(&self, snapshot: &Snapshot) -> Vec<String> {
        let has_all = |tags: &&Vec<String>| tags.iter().all(|t| snapshot.tags.contains(t));
        self.tags
            .iter()
            .filter(has_all)
            .map(|tags| format!("has tags {}", tags.join(",")))
            .collect()
    }

    /// Returns the rules in their initial state. `newest` is the time of the newest snapshot.
    pub(super) fn rules(&self, newest: Option<&Zoned>) -> Vec<Rule> {
        let counted = [
            (self.last, Period::Each, "last"),
            (self.hourly, Period::Hour, "hourly"),
            (self.daily, Period::Day, "daily"),
            (self.weekly, Period::Week, "weekly"),
            (self.monthly, Period::Month, "monthly"),
            (self.yearly, Period::Year, "yearly"),
        ];
        let counted = counted.into_iter().filter_map(|(keep, period, name)| {
            let left = match keep {
                Keep::None => return None,
                Keep::Count(count) => Some(count),
                Keep::Unlimited => None,
            };
            Some(Rule::new(period, left, None, format!("{name} snapshot")))
        });
        let spans = [
            (self.within, Period::Each, ""),
            (self.within_hourly, Period::Hour, "hourly "),
            (self.within_daily, Period::Day, "daily "),
            (self.within_weekly, Period::Week, "weekly "),
            (self.within_monthly, Period::Month, "monthly "),
            (self.within_yearly, Period::Year, "yearly "),
        ];
        let spans = spans.into_iter().filter_map(|(within, period, name)| {
            let (within, newest) = (within?, newest?);
            let since = Some(within.before(newest));
            Some(Rule::new(
                period,
                None,
                since,
                format!("{name}within {within}"),
            ))
        });
        counted.chain(spans).collect()
    }
}

/// Period of which a rule keeps one snapshot.
#[derive(Clone, Copy, Debug)]
enum Period {
    Each,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    /// Returns a key that is equal for times in the same period. `None` if every time is its own
    /// period.
    fn key(self, time: &Zoned) -> Option<(i16, i16, i8)> {
        let (year, day) = (time.year(), time.day_of_year());
        let week = time.date().iso_week_date();
        match self {
            Self::Each => None,
            Self::Hour => Some((year, day, time.hour())),
            Self::Day => Some((year, day, 0)),
            Self::Week => Some((week.year(), week.week().into(), 0)),
            Self::Month => Some((year, time.month().into(), 0)),
            Self::Year => Some((year, 0, 0)),
        }
    }
}

/// State of one rule. It sees snapshots from newest to oldest.
pub(super) struct Rule {
    period: Period,
    left: Option<u32>,
    since: Option<Zoned>,
    last_key: Option<(i16, i16, i8)>,
    reason: String,
}

impl Rule {
    fn new(period: Period, left: Option<u32>, since: Option<Zoned>, reason: String) -> Self {
        Self {
            period,
            left,
            since,
            last_key: None,
            reason,
        }
    }

    /// Returns the reason why this rule keeps the next snapshot, if it does. A counting rule that
    /// has some left at the end keeps the oldest snapshot too, so that the history can grow to its
    /// full length.
    pub fn keeps(&mut self, time: &Zoned, oldest: bool) -> Option<String> {
        if self.left == Some(0) || self.since.as_ref().is_some_and(|since| time < since) {
            return None;
        }
        let key = self.period.key(time);
        let new_period = key.is_none() || key != self.last_key;
        if !new_period && (!oldest || self.since.is_some()) {
            return None;
        }
        self.last_key = key;
        self.left = self.left.map(|left| left - 1);
        match new_period {
            true => Some(self.reason.clone()),
            false => Some(format!("oldest {}", self.reason)),
        }
    }
}

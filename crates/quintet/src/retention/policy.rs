//! The rules of a policy, and their state while snapshots go by from newest to oldest.

use format::snapshot::Snapshot;
use jiff::Zoned;
use server::calendar::Within;

/// How many snapshots a rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keep {
    /// The rule was not given.
    #[default]
    None,
    /// That many.
    Count(u32),
    /// All that are the newest of their hour, day, ...
    Unlimited,
}

impl Keep {
    /// Reads a number, or `unlimited` (also `-1`, as restic writes it).
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "unlimited" | "-1" => Ok(Self::Unlimited),
            number => match number.parse() {
                Ok(0) => Err("keeping 0 makes no sense; leave the option out".to_owned()),
                Ok(count) => Ok(Self::Count(count)),
                Err(_) => Err(format!("{number:?} is not a number (or \"unlimited\")")),
            },
        }
    }
}

/// What `forget` keeps. A snapshot stays when any rule keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// The newest.
    pub last: Keep,
    /// The newest of each hour, and so on.
    pub hourly: Keep,
    /// Each day.
    pub daily: Keep,
    /// Each week of the ISO calendar.
    pub weekly: Keep,
    /// Each month.
    pub monthly: Keep,
    /// Each year.
    pub yearly: Keep,
    /// All within this span before the newest.
    pub within: Option<Within>,
    /// The newest of each hour within this span, and so on.
    pub within_hourly: Option<Within>,
    /// Each day.
    pub within_daily: Option<Within>,
    /// Each week.
    pub within_weekly: Option<Within>,
    /// Each month.
    pub within_monthly: Option<Within>,
    /// Each year.
    pub within_yearly: Option<Within>,
    /// Those that have all tags of one of these lists.
    pub tags: Vec<Vec<String>>,
}

impl Policy {
    /// No rule was given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reasons that a snapshot's tags give.
    pub(super) fn tag_reasons(&self, snapshot: &Snapshot) -> Vec<String> {
        let has_all = |tags: &&Vec<String>| tags.iter().all(|t| snapshot.tags.contains(t));
        self.tags
            .iter()
            .filter(has_all)
            .map(|tags| format!("has tags {}", tags.join(",")))
            .collect()
    }

    /// Rules at their start. `newest` is the time of the newest snapshot.
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

/// How long a rule keeps only one snapshot.
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
    /// Equal for times in the same period; `None` when every time is its own.
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

/// One rule while snapshots go by, newest first.
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

    /// Why this rule keeps the next snapshot, if it does. A rule that has some left at the end
    /// keeps the oldest one too: the history gets its full length step by step.
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

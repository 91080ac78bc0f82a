use super::*;
use crate::groups::{GroupBy, group};
use format::recipe::ObjectRoot;
use format::snapshot::SnapshotKind;
use terminal::calendar::Within;
use units::{SnapshotId, UnixNanos};

/// Nothing is in the future.
const NEVER: UnixNanos = UnixNanos(i64::MAX);

fn snapshot(number: u8, time: &str) -> Snapshot {
    Snapshot {
        host: "h".to_owned(),
        paths: vec![b"/home".to_vec()],
        ..Snapshot::new(
            SnapshotId([number; 16]),
            calendar::parse_time(time, &TimeZone::UTC).unwrap(),
            SnapshotKind::Tree,
            ObjectRoot::EMPTY,
        )
    }
}

/// Returns snapshots, oldest first, like a catalog.
fn snapshots(times: &[&str]) -> Vec<Snapshot> {
    let numbered = times.iter().enumerate();
    numbered.map(|(i, time)| snapshot(i as u8, time)).collect()
}

/// Returns the times of the kept snapshots with their reasons, newest first.
fn kept(policy: &Policy, snapshots: &[Snapshot]) -> Vec<(String, String)> {
    let groups = group(snapshots, GroupBy::default());
    assert_eq!(groups.len(), 1);
    decide(policy, &groups[0], &TimeZone::UTC, NEVER)
        .unwrap()
        .iter()
        .filter(|decision| decision.kept())
        .map(|decision| {
            let time = calendar::local(decision.snapshot.taken, &TimeZone::UTC);
            (time[5..16].to_owned(), decision.reasons.join("; "))
        })
        .collect()
}

fn check(policy: &Policy, times: &[&str], expected: &[(&str, &str)]) {
    let kept = kept(policy, &snapshots(times));
    let kept: Vec<(&str, &str)> = kept.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(kept, expected);
}

const DAYS: [&str; 8] = [
    "2026-11-01 10:00",
    "2026-11-01 20:00",
    "2026-11-02 10:00",
    "2026-11-08 10:00",
    "2026-11-09 10:00",
    "2026-11-09 10:30",
    "2026-11-09 11:00",
    "2026-11-10 10:00",
];

fn policy(set: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    set(&mut policy);
    policy
}

#[test]
fn last() {
    let two = policy(|p| p.last = Keep::Count(2));
    let expected = [
        ("11-10 10:00", "last snapshot"),
        ("11-09 11:00", "last snapshot"),
    ];
    check(&two, &DAYS, &expected);
    let all = policy(|p| p.last = Keep::Unlimited);
    assert_eq!(kept(&all, &snapshots(&DAYS)).len(), DAYS.len());
}

#[test]
fn the_newest_of_each_hour() {
    let three = policy(|p| p.hourly = Keep::Count(3));
    let reason = "hourly snapshot";
    check(
        &three,
        &DAYS,
        &[
            ("11-10 10:00", reason),
            ("11-09 11:00", reason),
            ("11-09 10:30", reason),
        ],
    );
}

#[test]
fn the_newest_of_each_day() {
    let days = policy(|p| p.daily = Keep::Count(4));
    let reason = "daily snapshot";
    check(
        &days,
        &DAYS,
        &[
            ("11-10 10:00", reason),
            ("11-09 11:00", reason),
            ("11-08 10:00", reason),
            ("11-02 10:00", reason),
        ],
    );
}

#[test]
fn weeks_begin_on_monday_and_belong_to_one_year() {
    let weeks = policy(|p| p.weekly = Keep::Unlimited);
    // 2026-11-01 and -08 are Sundays.
    let reason = "weekly snapshot";
    check(
        &weeks,
        &DAYS,
        &[
            ("11-10 10:00", reason),
            ("11-08 10:00", reason),
            ("11-01 20:00", reason),
            ("11-01 10:00", "oldest weekly snapshot"),
        ],
    );
    // Thursday 2026-12-31 and Friday 2027-01-01 are in one week.
    let times = ["2026-12-01 00:00", "2026-12-31 00:00", "2027-01-01 00:00"];
    check(
        &weeks,
        &times,
        &[("01-01 00:00", reason), ("12-01 00:00", reason)],
    );
}

#[test]
fn months_and_years() {
    let times = [
        "2024-02-29 00:00",
        "2025-12-31 23:59",
        "2026-01-01 00:00",
        "2026-01-31 00:00",
    ];
    let both = policy(|p| {
        p.monthly = Keep::Count(2);
        p.yearly = Keep::Count(3);
    });
    check(
        &both,
        &times,
        &[
            ("01-31 00:00", "monthly snapshot; yearly snapshot"),
            ("12-31 23:59", "monthly snapshot; yearly snapshot"),
            ("02-29 00:00", "yearly snapshot"),
        ],
    );
}

#[test]
fn the_oldest_stays_until_the_history_is_long_enough() {
    let ten = policy(|p| p.yearly = Keep::Count(10));
    let expected = [
        ("11-10 10:00", "yearly snapshot"),
        ("11-01 10:00", "oldest yearly snapshot"),
    ];
    check(&ten, &DAYS, &expected);
    let one = policy(|p| p.yearly = Keep::Count(1));
    check(&one, &DAYS, &expected[..1]);
}

#[test]
fn within_counts_from_the_newest() {
    let span = |text| Some(Within::parse(text).unwrap());
    let day = policy(|p| p.within = span("23h"));
    check(
        &day,
        &DAYS,
        &[("11-10 10:00", "within 23h"), ("11-09 11:00", "within 23h")],
    );
    let daily = policy(|p| p.within_daily = span("2d"));
    check(
        &daily,
        &DAYS,
        &[
            ("11-10 10:00", "daily within 2d"),
            ("11-09 11:00", "daily within 2d"),
            ("11-08 10:00", "daily within 2d"),
        ],
    );
    // A single old snapshot is the newest of its group.
    check(
        &day,
        &["1999-01-01 00:00"],
        &[("01-01 00:00", "within 23h")],
    );
}

#[test]
fn tags() {
    let mut list = snapshots(&DAYS);
    list[0].tags = vec!["a".to_owned(), "b".to_owned()];
    list[1].tags = vec!["a".to_owned()];
    let both = vec!["a".to_owned(), "b".to_owned()];
    let tagged = policy(|p| p.tags = vec![both]);
    let expected = vec![("11-01 10:00".to_owned(), "has tags a,b".to_owned())];
    assert_eq!(kept(&tagged, &list), expected);
}

#[test]
fn rules_add_up() {
    let rules = policy(|p| {
        p.last = Keep::Count(1);
        p.daily = Keep::Count(2);
    });
    check(
        &rules,
        &DAYS,
        &[
            ("11-10 10:00", "last snapshot; daily snapshot"),
            ("11-09 11:00", "daily snapshot"),
        ],
    );
}

#[test]
fn keeping_nothing_is_refused() {
    let list = snapshots(&DAYS);
    let groups = group(&list, GroupBy::default());
    let decide = |policy: &Policy| decide(policy, &groups[0], &TimeZone::UTC, NEVER);
    assert_eq!(decide(&Policy::default()), Err(RetentionError::NoRule));
    let tagged = policy(|p| p.tags = vec![vec!["nobody has this".to_owned()]]);
    let error = decide(&tagged).unwrap_err();
    assert_eq!(
        error,
        RetentionError::KeepsNothing("host h, paths /home".to_owned())
    );
    for text in ["0", "x", "-2", "", "1.5"] {
        assert!(Keep::parse(text).is_err(), "{text}");
    }
    assert_eq!(Keep::parse("unlimited"), Ok(Keep::Unlimited));
}

#[test]
fn hours_are_those_of_the_zone() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    // Both on the 2nd in Berlin, on two days in UTC.
    let list = snapshots(&["2026-11-01 23:30", "2026-11-02 10:00"]);
    let daily = policy(|p| p.daily = Keep::Count(1));
    let groups = group(&list, GroupBy::default());
    let two = policy(|p| p.daily = Keep::Count(2));
    let count = |policy: &Policy, zone: &TimeZone| {
        let decisions = decide(policy, &groups[0], zone, NEVER).unwrap();
        decisions
            .iter()
            .filter(|d| d.reasons == ["daily snapshot"])
            .count()
    };
    assert_eq!(count(&two, &TimeZone::UTC), 2);
    assert_eq!(count(&two, &zone), 1);
    assert_eq!(count(&daily, &zone), 1);
}

#[test]
fn a_snapshot_from_the_future_stays_and_takes_no_place() {
    // In the order of the pool's list.
    let list = snapshots(&[
        "2035-01-01 00:00",
        "2026-11-08 10:00",
        "2026-11-09 10:00",
        "2026-11-10 10:00",
    ]);
    let groups = group(&list, GroupBy::default());
    let now = calendar::parse_time("2026-11-10 10:30", &TimeZone::UTC).unwrap();
    let reasons = |policy: &Policy| {
        let decisions = decide(policy, &groups[0], &TimeZone::UTC, now).unwrap();
        let reasons = decisions
            .iter()
            .map(|d| (d.snapshot.id.0[0], d.reasons.join("; ")));
        reasons
            .filter(|(_, why)| !why.is_empty())
            .collect::<Vec<_>>()
    };
    let text = |reasons: &[(u8, String)]| format!("{reasons:?}");
    let ahead = "(0, \"from the future: a clock was ahead\")";
    let days = policy(|p| p.within = Some(Within::parse("1d").unwrap()));
    let expected = format!("[(3, \"within 1d\"), (2, \"within 1d\"), {ahead}]");
    assert_eq!(text(&reasons(&days)), expected);
    let one = policy(|p| p.last = Keep::Count(1));
    let expected = format!("[(3, \"last snapshot\"), {ahead}]");
    assert_eq!(text(&reasons(&one)), expected);
    let years = policy(|p| p.yearly = Keep::Count(9));
    let expected = format!("[(3, \"yearly snapshot\"), (1, \"oldest yearly snapshot\"), {ahead}]");
    assert_eq!(text(&reasons(&years)), expected);
}

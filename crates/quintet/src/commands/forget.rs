//! `forget`: moves snapshots to the trash, by name or by a policy. [`super::run`] calls this.
//!
//! Invariant: all decisions are made before anything is removed, and one commit moves all of them
//! to the trash. A policy that would keep nothing of any group removes nothing at all.

use super::invocation::Invocation;
use anyhow::bail;
use browsing::choice::{SnapshotFilter, choose_several, expect_latest_known, tag_lists};
use browsing::listing;
use command_line::{ForgetArgs, KeepArgs, PeriodArg};
use format::snapshot::Snapshot;
use retention::{Decision, Group, Policy, decide, group};
use store::OpenMode;
use terminal::calendar::{self, Within};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::table::Table;
use units::UnixNanos;

pub(super) fn run(invocation: &Invocation, args: &ForgetArgs) -> anyhow::Result<Exit> {
    let filter = SnapshotFilter::new(&args.filter)?;
    let policy = policy(&args.keep);
    if args.snapshots.is_empty() && policy.is_empty() {
        bail!("no snapshots chosen: name them, or give at least one --keep-* rule");
    }
    say_months(invocation, &args.keep);
    let mode = match args.dry_run {
        true => OpenMode::Read,
        false => OpenMode::Write,
    };
    let pool = invocation.open(mode)?;
    let all = pool.snapshots()?;
    let remove: Vec<Snapshot> = if args.snapshots.is_empty() {
        let groups = group(all.iter().filter(|s| filter.matches(s)), args.group_by);
        let mut decided = Vec::new();
        for group in &groups {
            decided.push((group, decide(&policy, group, &invocation.zone, pool.now())?));
        }
        for (group, decisions) in &decided {
            show_group(invocation, group, decisions, args.dry_run)?;
        }
        let decisions = decided.iter().flat_map(|(_, decisions)| decisions);
        let removed = decisions.filter(|decision| !decision.kept());
        removed.map(|decision| decision.snapshot.clone()).collect()
    } else {
        expect_latest_known(&pool, &args.snapshots)?;
        let named = choose_several(&all, &args.snapshots, &filter)?;
        for snapshot in named.iter().copied() {
            show_removed(invocation, snapshot, args.dry_run)?;
        }
        named.into_iter().cloned().collect()
    };
    if !remove.is_empty() && !args.dry_run {
        pool.forget(&remove)?;
    }
    let console = &invocation.console;
    let period = PeriodArg::DEFAULT.nanoseconds();
    let until = UnixNanos(pool.now().0.saturating_add(period));
    console.message(
        Object::message("summary")
            .boolean("dry_run", args.dry_run)
            .integer("removed", remove.len() as u64)
            .integer("kept", (all.len() - remove.len()) as u64)
            .text("undelete_until", &calendar::rfc3339(until))
            .texts("removed_ids", remove.iter().map(|s| s.id.to_string())),
    )?;
    let (would, count) = (if args.dry_run { "would be " } else { "" }, remove.len());
    console.line(format!(
        "{} {would}removed",
        units::count(count as u64, "snapshot")
    ))?;
    if count > 0 && !args.dry_run {
        let until = calendar::local(until, &invocation.zone);
        console.note(format_args!(
            "`quintet undelete` can restore them until {until}, unless gc runs with another \
             --trash-period. After that `quintet gc` frees their space."
        ));
    }
    Ok(Exit::Done)
}

/// Says what a span of months means, as `30m` may be meant as minutes.
fn say_months(invocation: &Invocation, args: &KeepArgs) {
    let spans = [
        ("", args.keep_within),
        ("-hourly", args.keep_within_hourly),
        ("-daily", args.keep_within_daily),
        ("-weekly", args.keep_within_weekly),
        ("-monthly", args.keep_within_monthly),
        ("-yearly", args.keep_within_yearly),
    ];
    for (name, span) in spans {
        if let Some(span) = span.filter(Within::is_of_months) {
            let note = format_args!("--keep-within{name} {span}: m and mo are months");
            invocation.console.note(note);
        }
    }
}

fn policy(args: &KeepArgs) -> Policy {
    Policy {
        last: args.keep_last.unwrap_or_default(),
        hourly: args.keep_hourly.unwrap_or_default(),
        daily: args.keep_daily.unwrap_or_default(),
        weekly: args.keep_weekly.unwrap_or_default(),
        monthly: args.keep_monthly.unwrap_or_default(),
        yearly: args.keep_yearly.unwrap_or_default(),
        within: args.keep_within,
        within_hourly: args.keep_within_hourly,
        within_daily: args.keep_within_daily,
        within_weekly: args.keep_within_weekly,
        within_monthly: args.keep_within_monthly,
        within_yearly: args.keep_within_yearly,
        tags: tag_lists(&args.keep_tag),
    }
}

fn show_group(
    invocation: &Invocation,
    group: &Group<'_>,
    decisions: &[Decision<'_>],
    dry_run: bool,
) -> std::io::Result<()> {
    let console = &invocation.console;
    let snapshot = |decision: &Decision<'_>| {
        let object = listing::snapshot(Object::new(), decision.snapshot);
        object.texts("reasons", &decision.reasons)
    };
    let (kept, removed): (Vec<_>, Vec<_>) = decisions.iter().partition(|d| d.kept());
    console.message(
        Object::message("group")
            .boolean("dry_run", dry_run)
            .text("group", &group.describe())
            .objects("keep", kept.iter().map(|d| snapshot(d)))
            .objects("remove", removed.iter().map(|d| snapshot(d))),
    )?;
    console.line(format!("{}:", group.describe()))?;
    let mut table = Table::new(["  ID", "Time", "Tags", "", "Reasons"], &[]);
    for decision in decisions {
        table.row([
            format!("  {}", short_id(decision.snapshot)),
            calendar::local(decision.snapshot.taken, &invocation.zone),
            decision.snapshot.tags.join(","),
            if decision.kept() { "keep" } else { "remove" }.to_owned(),
            decision.reasons.join(", "),
        ]);
    }
    table.lines().iter().try_for_each(|line| console.line(line))
}

fn show_removed(
    invocation: &Invocation,
    snapshot: &Snapshot,
    dry_run: bool,
) -> std::io::Result<()> {
    let console = &invocation.console;
    let object = Object::message("removed").boolean("dry_run", dry_run);
    console.message(listing::snapshot(object, snapshot))?;
    let time = calendar::local(snapshot.taken, &invocation.zone);
    let what = listing::subject(snapshot);
    console.line(format!("remove {} of {time}, {what}", short_id(snapshot)))
}

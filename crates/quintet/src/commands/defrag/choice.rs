//! Chooses the objects of a run and its compression, and decides whether it resumes an unfinished
//! run. `defrag` and the server's thread call this.
//!
//! Invariant: a run with the same arguments as an unfinished one resumes it. A run with other
//! arguments begins anew.

use crate::commands::backup::REGION_BYTES as STREAM_REGION_BYTES;
use crate::commands::invocation::Invocation;
use anyhow::bail;
use command_line::DefragRunArgs;
use format::recipe::Layout;
use maintenance::{DefragOptions, DefragSource, Defragmenter, Heat, RecordedDefrag};
use server::state::REGION_BYTES;
use store::{Fragmentable, LaneOptions};
use terminal::calendar;

/// Returns the lane options for copies: as for volumes.
pub fn lane(invocation: &Invocation) -> anyhow::Result<LaneOptions> {
    invocation.lane(None, REGION_BYTES)
}

/// Chooses larger regions if all objects are read sequentially: they compress better.
fn packed_for<'a>(
    lane: LaneOptions,
    mut objects: impl Iterator<Item = &'a Fragmentable>,
) -> LaneOptions {
    let region_bytes = match objects.all(|one| one.root.layout == Layout::Variable) {
        true => STREAM_REGION_BYTES,
        false => lane.region_bytes,
    };
    LaneOptions {
        region_bytes,
        ..lane
    }
}

/// Prepares a new run.
pub fn begin(
    invocation: &Invocation,
    source: DefragSource,
    args: &DefragRunArgs,
    dry_run: bool,
) -> anyhow::Result<Defragmenter> {
    let (objects, heat) = choose(invocation, &source, args)?;
    let options = DefragOptions {
        hot_percent: args.hot.0,
        moves_shared: args.move_shared,
        rewrites_all: args.whole,
        dry_run,
        bytes_per_s: args.limit,
        lane: packed_for(lane(invocation)?, objects.iter()),
    };
    let keys: Vec<u64> = objects.iter().map(|one| one.key).collect();
    let mut run = Defragmenter::new(source, &keys, heat, options)?;
    if !args.objects.is_empty() {
        run.set_named();
    }
    Ok(run)
}

/// Returns the unfinished run instead of `run` if both have the same arguments.
pub fn or_recorded(
    invocation: &Invocation,
    source: DefragSource,
    run: Defragmenter,
    limit: Option<u64>,
) -> anyhow::Result<Defragmenter> {
    let Some(recorded) = RecordedDefrag::unfinished(source.pool()) else {
        return Ok(run);
    };
    let wish = run.report().wish;
    let keys: Vec<u64> = run.objects().collect();
    let began = calendar::local(recorded.report().began, &invocation.zone);
    if !recorded.is_unfinished_of(&wish, &keys) {
        invocation.console.note(format_args!(
            "the unfinished run of {began} has other settings; it is abandoned, and its copies stay"
        ));
        return Ok(run);
    }
    invocation
        .console
        .note(format_args!("resumes the run of {began}"));
    let mut run = taken_up(source, recorded, lane(invocation)?)?;
    run.limit(limit);
    Ok(run)
}

/// Returns the unfinished run, if there is one.
pub fn unfinished(source: &DefragSource, lane: LaneOptions) -> store::Result<Option<Defragmenter>> {
    let recorded = RecordedDefrag::unfinished(source.pool());
    let take_up = |recorded| taken_up(source.clone(), recorded, lane);
    recorded.map(take_up).transpose()
}

/// Restores a run from its record.
fn taken_up(
    source: DefragSource,
    recorded: RecordedDefrag,
    lane: LaneOptions,
) -> store::Result<Defragmenter> {
    let all = source.fragmentables()?;
    let keys: Vec<u64> = recorded.objects().collect();
    let lane = packed_for(lane, all.iter().filter(|one| keys.contains(&one.key)));
    Defragmenter::resume(source, recorded, lane)
}

/// Chooses the objects: those that the user named, else those with an access trace, else all
/// volumes. Also returns the trace if it is used.
fn choose(
    invocation: &Invocation,
    source: &DefragSource,
    args: &DefragRunArgs,
) -> anyhow::Result<(Vec<Fragmentable>, Option<Heat>)> {
    let all = source.fragmentables()?;
    let heat = (!args.bypass && !args.whole).then(|| source.heat());
    let is_read = |one: &&Fragmentable| {
        let ranges = heat.as_ref().and_then(|heat| heat.get(&one.key));
        ranges.is_some_and(|ranges| !ranges.is_empty())
    };
    let objects = match args.objects.is_empty() {
        false => named(&all, &args.objects)?,
        true if all.iter().any(|one| is_read(&one)) => all.iter().filter(is_read).collect(),
        true => all.iter().filter(|one| one.is_volume).collect(),
    };
    let is_any_read = objects.iter().any(is_read);
    let heat = heat.filter(|_| is_any_read);
    if heat.is_none() && !args.bypass && !args.whole {
        let why = "no reads were recorded; everything is examined, as with --bypass";
        invocation.console.note(why);
    }
    Ok((objects.into_iter().cloned().collect(), heat))
}

fn named<'a>(all: &'a [Fragmentable], names: &[String]) -> anyhow::Result<Vec<&'a Fragmentable>> {
    let mut found = Vec::new();
    for name in names {
        let mut matching = all.iter().filter(|one| one.name == *name);
        // Of several objects with one name, the newest.
        let by_name = matching.next_back();
        let by_id = || {
            let mut matching = all.iter().filter(|one| one.id.starts_with(name.as_str()));
            let first = matching.next().filter(|_| name.len() >= 4);
            first.filter(|_| matching.next().is_none())
        };
        match by_name.or_else(by_id) {
            Some(one) => found.push(one),
            None => bail!("there is no volume, image or stream {name:?}"),
        }
    }
    Ok(found)
}

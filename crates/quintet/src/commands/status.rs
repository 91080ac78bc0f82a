//! `status`: the pool on one screen, and what to do, if anything.
//!
//! Invariant: cheap, whatever the pool's size: reads roots, keys and the catalog only. Where a server
//! holds the pool, it says besides what only it knows.

mod server;
mod upkeep;

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use super::listing;
use super::snapshot_choice::short_id;
use super::{defrag, scrub};
use crate::calendar;
use crate::exit::Exit;
use crate::held::{Collected, Live, lost_writes};
use crate::json::Object;
use crate::sizes;
use format::config::Seal;
use maintenance::{CollectMemory, Scrubber};
use store::OpenMode;

/// What to do about a server that cannot store what it is asked to.
const CANNOT_STORE: &str = "make room on the pool's disk, or look at its errors, then restart the server; what \
                            was flushed is safe";

/// What to do about writes that the journal has lost.
const LOST_WRITES: &str = "check the file systems of the volumes that are named, or roll them back to a \
                           snapshot (quintet volume rollback)";

pub(super) fn run(invocation: &Invocation) -> anyhow::Result<Exit> {
    let pool = invocation.open_silently(OpenMode::Read)?;
    let place = invocation.settings.pool()?.display().to_string();
    let (config, record) = (pool.config(), pool.record());
    let (keys, _) = pool.keys()?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let newest = snapshots.iter().max_by_key(|s| (s.taken, s.id));
    let logical: u64 = snapshots.iter().map(|s| s.logical_bytes).sum();
    let volumes = pool.volumes().unwrap_or_default();
    let volumes_bytes: u64 = volumes.iter().map(|volume| volume.root.len).sum();
    let mut notes = pool.notes().to_vec();
    let (mut state, mut action) = judge(
        notes.len(),
        pool.lost_commits().len(),
        (snapshots.len() + volumes.len(), snapshots.is_all()),
    );
    let held = invocation.held();
    let lost = held.map_or_else(Vec::new, |held| lost_writes(&held.volumes));
    if !lost.is_empty() {
        notes.extend(lost);
        (state, action) = ("DAMAGED", Some(LOST_WRITES));
    }
    let failing = held.into_iter().flat_map(|held| held.failing());
    let before = notes.len();
    notes.extend(failing);
    if notes.len() > before {
        (state, action) = ("FAILED", Some(CANNOT_STORE));
    }
    let encrypted = config.seal != Seal::None;
    let set_aside = pool.set_aside().len();
    let console = &invocation.console;
    let mut message = Object::message("status_report")
        .text("pool", &config.pool.to_string())
        .text("repository", &place)
        .text("state", state)
        .text_if("action", action)
        .texts("notes", &notes)
        .boolean("encrypted", encrypted)
        .integer("keys", keys.len() as u64)
        .time("created", config.created)
        .integer("generation", pool.generation().0)
        .time("last_commit", record.committed)
        .integer("snapshots", snapshots.len() as u64)
        .integer("logical_bytes", logical)
        .integer("stored_bytes", record.stored_bytes)
        .integer("containers", record.containers)
        .integer("set_aside", set_aside as u64)
        .integer("volumes", volumes.len() as u64)
        .integer("volumes_bytes", volumes_bytes);
    if let Some(newest) = newest {
        message = message.object("newest", listing::snapshot(Object::new(), newest));
    }
    let scrubbed = match invocation.held() {
        Some(held) => held.scrub.status(),
        None => Scrubber::recorded(&pool),
    };
    message = message.object("scrub", scrub::object(Object::new(), &scrubbed));
    let defragmented = match invocation.held() {
        Some(held) => held.defrag.status(),
        None => defrag::recorded_status(&pool),
    };
    if let Some(status) = &defragmented {
        message = message.object("defrag", defrag::object(Object::new(), status));
    }
    let collected = match invocation.held() {
        Some(held) => held.collecting.status().last,
        None => CollectMemory::of(&pool)
            .last()
            .map(|note| Collected::of(&note)),
    };
    if let Some(last) = &collected {
        message = message.object("gc", upkeep::last(Object::new(), "", last));
    }
    let now = pool.now();
    let (forgotten, containers) = pool.trash().unwrap_or_default();
    let in_trash = forgotten.iter().map(|f| f.since);
    let in_trash = in_trash.chain(containers.iter().map(|c| c.since));
    let ahead = in_trash.filter(|since| since.at > now).count();
    message = message.integer("trash_ahead", ahead as u64);
    let live = invocation.held().map(|held| (held, Live::of(held)));
    if let Some((held, live)) = &live {
        message = message.object("server", server::object(held, live));
    }
    console.message(message)?;
    let local = |time| calendar::local(time, &invocation.zone);
    let line = |name: &str, value: &str| console.line(format!("{name:>9}: {value}"));
    line("pool", &format!("{} at {place}", config.pool))?;
    line("state", state)?;
    for note in &notes {
        line("found", note)?;
    }
    if let Some(action) = action {
        line("action", action)?;
    }
    line("created", &local(config.created))?;
    line(
        "keys",
        &match encrypted {
            true => format!("{} (AES-256-GCM)", keys.len()),
            false => "none: not encrypted".to_owned(),
        },
    )?;
    let (generation, committed) = (pool.generation(), local(record.committed));
    line("commit", &format!("{generation} of {committed}"))?;
    let (stored, containers) = (sizes::display(record.stored_bytes), record.containers);
    line("stored", &format!("{stored} in {containers} containers"))?;
    if set_aside > 0 {
        line(
            "set aside",
            &format!("{set_aside} places found damaged (see quintet check)"),
        )?;
    }
    if ahead > 0 {
        let text = format!(
            "{ahead} entries are of a time that is not here yet, as a clock was ahead: their days count from the \
             next gc on (quintet gc --trash-period 0 lets them go at once)"
        );
        line("trash", &text)?;
    }
    if let Some(status) = &defragmented {
        line("defrag", &defrag::line(status))?;
    }
    if let (Some(last), None) = (&collected, &live) {
        line("gc", &upkeep::ended(last, &invocation.zone))?;
    }
    for text in scrub::summary(&scrubbed, &invocation.zone) {
        let (name, value) = text.split_once(": ").unwrap_or_default();
        line(name, value)?;
    }
    let (count, logical) = (snapshots.len(), sizes::display(logical));
    line("snapshots", &format!("{count}, {logical} in all"))?;
    if let Some(newest) = newest {
        let (id, time) = (short_id(newest), local(newest.taken));
        let host = match newest.host.as_str() {
            "" => String::new(),
            host => format!("host {host}, "),
        };
        let what = listing::subject(newest);
        line("newest", &format!("{id} of {time}, {host}{what}"))?;
    }
    let (count, size) = (volumes.len(), sizes::display(volumes_bytes));
    line("volumes", &format!("{count}, {size} in all"))?;
    if let Some((held, live)) = &live {
        for (name, value) in server::lines(held, live, &invocation.zone) {
            line(name, &value)?;
        }
    }
    Ok(Exit::Done)
}

/// State and what to do about it.
fn judge(
    notes: usize,
    lost_commits: usize,
    // Snapshots and volumes, as far as they can be listed.
    (stored, is_all): (usize, bool),
) -> (&'static str, Option<&'static str>) {
    if !is_all {
        let action = "some snapshots cannot be listed; restore what you need of the others by their \
                      names, and back up again";
        return ("DAMAGED", Some(action));
    }
    match (lost_commits, notes, stored) {
        (0, 0, 0) => (
            "ONLINE",
            Some("the pool is empty: store something with quintet backup"),
        ),
        (0, 0, _) => ("ONLINE", None),
        (0, _, _) => (
            "DEGRADED",
            Some(
                "run quintet check --read-data; second copies of what is missing are written \
                 again by the next backup",
            ),
        ),
        _ => (
            "DAMAGED",
            Some("run quintet repair, then back up again what the lost commits added"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_has_an_action() {
        let (all, none) = ((1, true), (0, true));
        assert_eq!(judge(0, 0, all), ("ONLINE", None));
        assert!(judge(0, 0, none).1.is_some());
        assert_eq!(judge(2, 0, all).0, "DEGRADED");
        assert!(judge(2, 0, all).1.is_some());
        assert_eq!(judge(1, 1, all).0, "DAMAGED");
        assert!(judge(1, 1, all).1.is_some());
        assert_eq!(judge(0, 0, (5, false)).0, "DAMAGED");
    }
}

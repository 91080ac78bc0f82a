//! `status`: shows the pool on one screen, and what to do if something is wrong. [`super::run`]
//! calls this.
//!
//! Invariant: its cost does not depend on the pool's size: it reads roots, keys, the catalog, small
//! records and the directories of damaged containers. If a server holds the pool, its state is
//! shown too. State, actions and exit code come from one list ([`server::findings`]).

mod holds;
mod memory;
mod schedule;
mod serving;

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use super::listing;
use super::{defrag, scrub};
use command_line::StatusArgs;
use format::config::{CONFIG_VERSION, Config, Seal};
use maintenance::{CollectMemory, Scrubber};
use server::findings::{Finding, FindingsInput, Limits, Severity, worst};
use server::state::Live;
use store::OpenMode;
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::count;

pub(super) fn run(invocation: &Invocation, args: &StatusArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open_silently(OpenMode::Read)?;
    let place = invocation.settings.pool()?.display().to_string();
    let (config, record) = (pool.config(), pool.record());
    let keys = pool.keys().list()?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let newest = snapshots.last();
    let logical: u64 = snapshots.iter().map(|s| s.logical_bytes).sum();
    let volumes = pool.volumes().unwrap_or_default();
    let volumes_bytes: u64 = volumes.iter().map(|volume| volume.root.len).sum();
    let look = FindingsInput {
        pool: &pool,
        server: invocation.server_state().map(|server| server.facts()),
        snapshots: &snapshots,
        hidden: snapshots.hidden(),
        now: pool.now(),
        limits: Limits {
            verify_within_s: args.verify_within.seconds,
        },
    };
    let findings = look.findings();
    let worst = worst(&findings);
    let told = findings.iter().filter(|f| f.severity > Severity::Hint);
    let told: Vec<&str> = told.map(|finding| finding.text.as_str()).collect();
    let encrypted = config.seal != Seal::None;
    let quarantined = pool.health().quarantined().len();
    let console = &invocation.console;
    let mut message = Object::message("status_report")
        .text("pool", &config.pool.to_string())
        .text("repository", &place)
        .text("state", worst.state())
        .text_if("action", findings.first().map(|f| f.action.as_str()))
        .texts("notes", &told)
        .objects("findings", findings.iter().map(object))
        .boolean("encrypted", encrypted)
        .integer("keys", keys.len() as u64)
        .time("created", config.created)
        .integer("format", u64::from(CONFIG_VERSION))
        .integer("features", config.features_incompat)
        .integer("generation", pool.generation().0)
        .time("last_commit", record.committed)
        .integer("snapshots", snapshots.len() as u64)
        .integer("logical_bytes", logical)
        .integer("stored_bytes", record.stored_bytes)
        .integer("containers", record.containers)
        .integer("set_aside", quarantined as u64)
        .integer("volumes", volumes.len() as u64)
        .integer("volumes_bytes", volumes_bytes);
    if let Some(newest) = newest {
        message = message.object("newest", listing::snapshot(Object::new(), newest));
    }
    let scrubbed = match invocation.server_state() {
        Some(server) => server.tasks.scrub.status(),
        None => Scrubber::recorded(&pool),
    };
    message = message.object("scrub", scrub::object(Object::new(), &scrubbed));
    let defragmented = match invocation.server_state() {
        Some(server) => server.tasks.defrag.status(),
        None => defrag::recorded_status(&pool),
    };
    if let Some(status) = &defragmented {
        message = message.object("defrag", defrag::object(Object::new(), status));
    }
    let collected = match invocation.server_state() {
        Some(server) => server.tasks.collecting.status().last,
        None => CollectMemory::of(&pool).last(),
    };
    if let Some(last) = &collected {
        message = message.object("gc", schedule::last(Object::new(), "", last));
    }
    let now = pool.now();
    let (forgotten, containers) = pool.trash().unwrap_or_default();
    let in_trash = forgotten.iter().map(|f| f.since);
    let in_trash = in_trash.chain(containers.iter().map(|c| c.since));
    let ahead = in_trash.filter(|since| since.at > now).count();
    message = message.integer("trash_ahead", ahead as u64);
    let held_open = match snapshots.hidden() {
        None => holds::of_forgotten(&pool, snapshots.iter().map(|s| s.id)),
        Some(_) => Vec::new(),
    };
    message = message.objects("holds", held_open.iter().map(holds::object));
    let live = invocation
        .server_state()
        .map(|server| (server, Live::of(server)));
    if let Some((server, live)) = &live {
        message = message.object("server", serving::object(server, live));
    }
    let used = live.as_ref().map(|(_, live)| live.memory);
    let used = used.as_ref().map_or(&[][..], |used| &used[..]);
    let plan = args.memory_plan.then(|| match invocation.server_state() {
        Some(server) => server.memory,
        None => invocation.memory_plan(),
    });
    if let Some(plan) = &plan {
        message = message.object("memory_plan", memory::object(plan, used));
    }
    console.message(message)?;
    let local = |time| calendar::local(time, &invocation.zone);
    let line = |name: &str, value: &str| console.line(format!("{name:>9}: {value}"));
    line("pool", &format!("{} at {place}", config.pool))?;
    line("state", worst.state())?;
    for text in &told {
        line("found", text)?;
    }
    for finding in findings.iter().filter(|f| f.severity == Severity::Hint) {
        line("note", &finding.text)?;
    }
    let mut said = Vec::new();
    for finding in &findings {
        let action = finding.action.as_str();
        // Print an action once for several findings. Print hints only if nothing is wrong.
        let is_told = finding.severity > Severity::Hint || worst == Severity::Hint;
        if is_told && !said.contains(&action) {
            line("action", action)?;
            said.push(action);
        }
    }
    line("created", &local(config.created))?;
    line("format", &format_words(config, pool.features_lacking()))?;
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
    line(
        "stored",
        &format!("{stored} in {}", count(containers, "container")),
    )?;
    if quarantined > 0 {
        line(
            "quarantine",
            &format!(
                "{} (see quintet check)",
                count(quarantined as u64, "damaged place")
            ),
        )?;
    }
    if ahead > 0 {
        let text = format!(
            "{} with a date in the future, because a clock was ahead. The trash period counts from the next gc on \
             (quintet gc --trash-period 0 deletes them at once)",
            count(ahead as u64, "entry")
        );
        line("trash", &text)?;
    }
    for holder in &held_open {
        line("held", &holds::line(holder, &invocation.zone))?;
    }
    if let Some(status) = &defragmented {
        line("defrag", &defrag::line(status))?;
    }
    if let (Some(last), None) = (&collected, &live) {
        line("gc", &schedule::ended(last, &invocation.zone))?;
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
    if let Some((server, live)) = &live {
        for (name, value) in serving::lines(server, live, &invocation.zone) {
            line(name, &value)?;
        }
    }
    for text in plan.iter().flat_map(|plan| plan.lines(used)) {
        line("plan", &text)?;
    }
    Ok(exit(worst))
}

/// Formats the pool's format: its version, and the features that `upgrade` can add.
fn format_words(config: &Config, lacking: u64) -> String {
    let bits = (0..u64::BITS).map(|bit| 1u64 << bit);
    let has = bits.filter(|bit| config.features_incompat & bit != 0);
    let mut words = vec![CONFIG_VERSION.to_string()];
    words.extend(has.map(|bit| format!("feature {bit}")));
    if lacking != 0 {
        words.push("more with quintet upgrade".to_owned());
    }
    words.join(", ")
}

/// Returns the exit code for the worst finding.
fn exit(worst: Severity) -> Exit {
    match worst {
        Severity::Hint => Exit::Done,
        Severity::Attention => Exit::Partly,
        Severity::Damage => Exit::Damaged,
        Severity::Failure => Exit::Failed,
    }
}

/// Formats a finding as JSON.
fn object(finding: &Finding) -> Object {
    Object::new()
        .text("kind", finding.kind)
        .text("severity", finding.severity.word())
        .text("object", &finding.object)
        .text("text", &finding.text)
        .text("action", &finding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides_how_it_ends() {
        let all = [
            (Severity::Hint, 0),
            (Severity::Attention, 3),
            (Severity::Damage, 21),
            (Severity::Failure, 1),
        ];
        for (severity, code) in all {
            assert_eq!(exit(severity).code(), code);
        }
    }
}

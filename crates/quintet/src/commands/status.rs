//! `status`: shows the pool on one screen, and what to do if something is wrong. [`super::run`]
//! calls this.
//!
//! Invariant: its cost does not depend on the pool's size: it reads roots, keys, the catalog, small
//! records and the directories of damaged containers. If a server holds the pool, its state is
//! shown too. State, actions and exit code come from one list ([`server::findings`]).

mod holds;
mod memory;
mod report;
mod schedule;
mod serving;

use super::defrag;
use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use command_line::StatusArgs;
use format::config::{CONFIG_VERSION, Config};
use maintenance::{CollectMemory, Scrubber};
use report::Report;
use server::findings::{Finding, FindingsInput, Limits, Severity, worst};
use server::state::Live;
use store::{OpenMode, Pool};
use terminal::exit::Exit;
use terminal::json::Object;

pub(super) fn run(invocation: &Invocation, args: &StatusArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open_silently(OpenMode::Read)?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let server = invocation.server_state().map(|server| &**server);
    let input = FindingsInput {
        pool: &pool,
        server: server.map(|server| server.facts()),
        snapshots: &snapshots,
        hidden: snapshots.hidden(),
        now: pool.now(),
        limits: Limits {
            verify_within_s: args.verify_within.seconds,
        },
    };
    let findings = input.findings();
    let report = Report {
        pool: &pool,
        place: invocation.settings.pool()?.display().to_string(),
        zone: &invocation.zone,
        worst: worst(&findings),
        findings,
        keys: pool.keys().list()?,
        snapshots: &snapshots,
        volumes: pool.volumes().unwrap_or_default(),
        quarantined: pool.health().quarantined().len() as u64,
        scrub: match server {
            Some(server) => server.tasks.scrub.status(),
            None => Scrubber::recorded(&pool),
        },
        defrag: match server {
            Some(server) => server.tasks.defrag.status(),
            None => defrag::recorded_status(&pool),
        },
        collected: match server {
            Some(server) => server.tasks.collecting.status().last,
            None => CollectMemory::of(&pool).last(),
        },
        trash_ahead: trash_ahead(&pool),
        holds: match snapshots.hidden() {
            None => holds::of_forgotten(&pool, snapshots.iter().map(|s| s.id)),
            Some(_) => Vec::new(),
        },
        live: server.map(|server| (server, Live::of(server))),
        plan: args.memory_plan.then(|| match server {
            Some(server) => server.memory,
            None => invocation.memory_plan(),
        }),
    };
    invocation.console.message(report.message())?;
    for (name, value) in report.lines() {
        invocation.console.line(format!("{name:>9}: {value}"))?;
    }
    Ok(exit(report.worst))
}

/// Counts what is in the trash with a date in the future.
fn trash_ahead(pool: &Pool) -> u64 {
    let (forgotten, containers) = pool.trash().unwrap_or_default();
    let in_trash = forgotten.iter().map(|f| f.since);
    let in_trash = in_trash.chain(containers.iter().map(|c| c.since));
    let now = pool.now();
    in_trash.filter(|since| since.at > now).count() as u64
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

//! The report of `status`, for programs and for people. [`super::run`] collects it.
//!
//! Invariant: both forms say the same.

use super::super::known_snapshots::KnownSnapshots;
use super::super::{defrag, scrub};
use super::{format_words, holds, memory, object, schedule, serving};
use browsing::listing;
use format::config::{CONFIG_VERSION, Seal};
use format::volume::VolumeRecord;
use jiff::tz::TimeZone;
use maintenance::{CollectNote, ScrubStatus};
use server::findings::{Finding, Severity};
use server::memory_plan::MemoryPlan;
use server::state::{DefragStatus, Live, ServerState};
use store::{Pool, SlotInfo, SnapshotHolder};
use terminal::calendar;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::count;

/// See the module's head.
pub(super) struct Report<'a> {
    pub pool: &'a Pool,
    /// The pool's directory.
    pub place: String,
    pub zone: &'a TimeZone,
    pub worst: Severity,
    pub findings: Vec<Finding>,
    pub keys: Vec<SlotInfo>,
    pub snapshots: &'a KnownSnapshots,
    pub volumes: Vec<VolumeRecord>,
    /// Regions and containers in quarantine.
    pub quarantined: u64,
    pub scrub: ScrubStatus,
    pub defrag: Option<DefragStatus>,
    /// The last garbage collection run.
    pub collected: Option<CollectNote>,
    /// Entries of the trash with a date in the future.
    pub trash_ahead: u64,
    /// Clients that have forgotten snapshots open.
    pub holds: Vec<SnapshotHolder>,
    pub live: Option<(&'a ServerState, Live)>,
    pub plan: Option<MemoryPlan>,
}

impl Report<'_> {
    /// Returns the findings that are more than hints.
    fn problems(&self) -> Vec<&str> {
        let problems = self.findings.iter().filter(|f| f.severity > Severity::Hint);
        problems.map(|finding| finding.text.as_str()).collect()
    }

    fn is_encrypted(&self) -> bool {
        self.pool.config().seal != Seal::None
    }

    fn logical_bytes(&self) -> u64 {
        self.snapshots.iter().map(|s| s.logical_bytes).sum()
    }

    fn volumes_bytes(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.root.len).sum()
    }

    /// Memory that a server uses, by owner.
    fn used(&self) -> &[(&'static str, u64)] {
        let used = self.live.as_ref().map(|(_, live)| &live.memory[..]);
        used.unwrap_or_default()
    }

    /// For programs.
    pub fn message(&self) -> Object {
        let (config, record) = (self.pool.config(), self.pool.record());
        let action = self.findings.first().map(|f| f.action.as_str());
        let mut message = Object::message("status_report")
            .text("pool", &config.pool.to_string())
            .text("repository", &self.place)
            .text("state", self.worst.state())
            .text_if("action", action)
            .texts("notes", self.problems())
            .objects("findings", self.findings.iter().map(object))
            .boolean("encrypted", self.is_encrypted())
            .integer("keys", self.keys.len() as u64)
            .time("created", config.created)
            .integer("format", u64::from(CONFIG_VERSION))
            .integer("features", config.features_incompat)
            .integer("generation", self.pool.generation().0)
            .time("last_commit", record.committed)
            .integer("snapshots", self.snapshots.len() as u64)
            .integer("logical_bytes", self.logical_bytes())
            .integer("stored_bytes", record.stored_bytes)
            .integer("containers", record.containers)
            .integer("set_aside", self.quarantined)
            .integer("volumes", self.volumes.len() as u64)
            .integer("volumes_bytes", self.volumes_bytes());
        if let Some(newest) = self.snapshots.last() {
            message = message.object("newest", listing::snapshot(Object::new(), newest));
        }
        message = message.object("scrub", scrub::object(Object::new(), &self.scrub));
        if let Some(status) = &self.defrag {
            message = message.object("defrag", defrag::object(Object::new(), status));
        }
        if let Some(last) = &self.collected {
            message = message.object("gc", schedule::last(Object::new(), "", last));
        }
        message = message
            .integer("trash_ahead", self.trash_ahead)
            .objects("holds", self.holds.iter().map(holds::object));
        if let Some((server, live)) = &self.live {
            message = message.object("server", serving::object(server, live));
        }
        if let Some(plan) = &self.plan {
            message = message.object("memory_plan", memory::object(plan, self.used()));
        }
        message
    }

    /// For people: names and values.
    pub fn lines(&self) -> Vec<(&str, String)> {
        let mut lines = vec![
            (
                "pool",
                format!("{} at {}", self.pool.config().pool, self.place),
            ),
            ("state", self.worst.state().to_owned()),
        ];
        lines.extend(
            self.problems()
                .into_iter()
                .map(|text| ("found", text.to_owned())),
        );
        let hints = self
            .findings
            .iter()
            .filter(|f| f.severity == Severity::Hint);
        lines.extend(hints.map(|finding| ("note", finding.text.clone())));
        lines.extend(
            self.actions()
                .into_iter()
                .map(|text| ("action", text.to_owned())),
        );
        self.stored_lines(&mut lines);
        self.task_lines(&mut lines);
        let (count, logical) = (self.snapshots.len(), sizes::display(self.logical_bytes()));
        lines.push(("snapshots", format!("{count}, {logical} in all")));
        if let Some(newest) = self.snapshots.last() {
            let (id, time) = (short_id(newest), calendar::local(newest.taken, self.zone));
            let host = match newest.host.as_str() {
                "" => String::new(),
                host => format!("host {host}, "),
            };
            let subject = listing::subject(newest);
            lines.push(("newest", format!("{id} of {time}, {host}{subject}")));
        }
        let (count, size) = (self.volumes.len(), sizes::display(self.volumes_bytes()));
        lines.push(("volumes", format!("{count}, {size} in all")));
        if let Some((server, live)) = &self.live {
            lines.extend(serving::lines(server, live, self.zone));
        }
        let plan = self.plan.iter().flat_map(|plan| plan.lines(self.used()));
        lines.extend(plan.map(|text| ("plan", text)));
        lines
    }

    /// Returns each action once, also if several findings ask for it. Those of hints only if
    /// nothing is wrong.
    fn actions(&self) -> Vec<&str> {
        let mut actions: Vec<&str> = Vec::new();
        for finding in &self.findings {
            let action = finding.action.as_str();
            let is_shown = finding.severity > Severity::Hint || self.worst == Severity::Hint;
            if is_shown && !actions.contains(&action) {
                actions.push(action);
            }
        }
        actions
    }

    fn stored_lines(&self, lines: &mut Vec<(&str, String)>) {
        let (config, record) = (self.pool.config(), self.pool.record());
        let local = |time| calendar::local(time, self.zone);
        lines.push(("created", local(config.created)));
        let lacking = self.pool.features_lacking();
        lines.push(("format", format_words(config, lacking)));
        let keys = match self.is_encrypted() {
            true => format!("{} (AES-256-GCM)", self.keys.len()),
            false => "none: not encrypted".to_owned(),
        };
        lines.push(("keys", keys));
        let (generation, committed) = (self.pool.generation(), local(record.committed));
        lines.push(("commit", format!("{generation} of {committed}")));
        let stored = sizes::display(record.stored_bytes);
        let containers = count(record.containers, "container");
        lines.push(("stored", format!("{stored} in {containers}")));
        if self.quarantined > 0 {
            let places = count(self.quarantined, "damaged place");
            lines.push(("quarantine", format!("{places} (see quintet check)")));
        }
        if self.trash_ahead > 0 {
            let text = format!(
                "{} with a date in the future, because a clock was ahead. The trash period counts from the next gc on \
                 (quintet gc --trash-period 0 deletes them at once)",
                count(self.trash_ahead, "entry")
            );
            lines.push(("trash", text));
        }
        let holds = self.holds.iter();
        lines.extend(holds.map(|holder| ("held", holds::line(holder, self.zone))));
    }

    fn task_lines(&self, lines: &mut Vec<(&str, String)>) {
        if let Some(status) = &self.defrag {
            lines.push(("defrag", defrag::line(status)));
        }
        if let (Some(last), None) = (&self.collected, &self.live) {
            lines.push(("gc", schedule::ended(last, self.zone)));
        }
        lines.extend(scrub::summary(&self.scrub, self.zone));
    }
}

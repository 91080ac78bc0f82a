//! `host defrag run`: plans file by file, and moves what the plan names. [`super::run`] calls this.
//!
//! Invariant: a file with several names is looked at once. An interrupt ends the run between two
//! steps, and the report is of what was done.

use super::{Heat, SHOWN_MAX, at_least, draw};
use crate::cli::HostDefragRunArgs;
use crate::commands::host::warn_of;
use crate::commands::invocation::Invocation;
use crate::commands::table::Table;
use crate::exit::Exit;
use crate::json::Object;
use anyhow::Context;
use linux_host::{
    FileDefrag, Found, Histogram, Limits, Migrated, MigrationError, Skipped, Target, plan_span,
    walk,
};
use server::sizes;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A run over a tree.
struct Run<'a> {
    invocation: &'a Invocation,
    args: &'a HostDefragRunArgs,
    heat: Heat,
    /// Sizes of the pieces of all files, before and after.
    before: Histogram,
    after: Histogram,
    /// Files with several names that were looked at.
    seen: HashSet<(u64, u64)>,
    total: Outcome,
    files: u64,
    shown: Vec<(Outcome, PathBuf)>,
    failed: Vec<(PathBuf, io::Error)>,
}

/// Outcome for a file, or for all.
#[derive(Default)]
struct Outcome {
    pieces_before: u64,
    pieces_after: u64,
    planned_bytes: u64,
    moved_ranges: u64,
    migrated: Migrated,
    left_alone: Vec<LeftAlone>,
    is_cut: bool,
}

/// Ranges left alone for one reason.
#[derive(Clone)]
struct LeftAlone {
    name: &'static str,
    text: String,
    ranges: u64,
    bytes: u64,
}

impl From<Skipped> for LeftAlone {
    fn from(skipped: Skipped) -> Self {
        Self {
            name: skipped.why.name(),
            text: skipped.why.to_string(),
            ranges: skipped.ranges,
            bytes: skipped.bytes,
        }
    }
}

impl LeftAlone {
    /// Adds this to a list that has each reason once.
    fn sum_into(self, list: &mut Vec<Self>) {
        match list.iter_mut().find(|known| known.name == self.name) {
            Some(known) => {
                known.ranges += self.ranges;
                known.bytes += self.bytes;
            }
            None => list.push(self),
        }
    }
}

pub(super) fn run(invocation: &Invocation, args: &HostDefragRunArgs) -> anyhow::Result<Exit> {
    let mut run = Run {
        invocation,
        args,
        heat: Heat::of(&args.heat, &args.path)?,
        before: Histogram::default(),
        after: Histogram::default(),
        seen: HashSet::new(),
        total: Outcome::default(),
        files: 0,
        shown: Vec::new(),
        failed: Vec::new(),
    };
    let walked = walk(&args.path, &mut |found| run.file(found))
        .with_context(|| args.path.display().to_string())?;
    let after = (!args.dry_run).then_some(&run.after);
    draw(&args.heat, &run.before, after)?;
    run.show(walked.failed.len() as u64)?;
    let failed = walked.failed.len() + run.failed.len();
    warn_of(invocation, "ask for its extents", walked.failed);
    warn_of(invocation, "move it", run.failed);
    invocation.interrupt.check()?;
    Ok(match failed {
        0 => Exit::Done,
        _ => Exit::Partly,
    })
}

impl Run<'_> {
    fn file(&mut self, found: &Found<'_>) -> io::Result<()> {
        let is_over = self.total.is_cut || self.invocation.interrupt.check().is_err();
        let metadata = found.file.metadata()?;
        let id = (metadata.dev(), metadata.ino());
        if is_over || metadata.nlink() > 1 && !self.seen.insert(id) {
            return Ok(());
        }
        let before = Histogram::of(found.file)?;
        let mut outcome = Outcome {
            pieces_before: before.pieces(),
            pieces_after: before.pieces(),
            ..Outcome::default()
        };
        self.before.add(&before);
        if before.pieces() > 1 {
            self.move_wanted(found, &mut outcome)?;
            let after = Histogram::of(found.file)?;
            outcome.pieces_after = after.pieces();
            self.after.add(&after);
        } else {
            self.after.add(&before);
        }
        self.files += 1;
        self.record(found, outcome).map_err(io::Error::other)
    }

    fn move_wanted(&mut self, found: &Found<'_>, outcome: &mut Outcome) -> io::Result<()> {
        let (mut from, mut target) = (0, None);
        loop {
            let wanted = self.heat.wanted(found.file)?;
            let Some(span) = plan_span(found.file, from, wanted, self.args.shared)? else {
                break;
            };
            from = span.end;
            for skipped in span.skipped {
                LeftAlone::from(skipped).sum_into(&mut outcome.left_alone);
            }
            if span.plan.ranges.is_empty() {
                continue;
            }
            let opened = match target.take() {
                Some(target) => Ok(target),
                None => Target::open(found.path),
            };
            let opened = match opened {
                Ok(opened) => target.insert(opened),
                Err(why) => {
                    let ranges = span.plan.ranges.len() as u64;
                    self.give_up(found, why, (ranges, span.plan.bytes), outcome);
                    return Ok(());
                }
            };
            outcome.planned_bytes += span.plan.bytes;
            if self.args.dry_run {
                let limit = self.args.limit_bytes.unwrap_or(u64::MAX);
                let left = limit.saturating_sub(self.total.planned_bytes);
                outcome.is_cut = outcome.planned_bytes > left;
                outcome.planned_bytes = outcome.planned_bytes.min(left);
            } else {
                self.move_ranges(found, opened, span.plan.ranges, outcome);
            }
            if outcome.is_cut || self.invocation.interrupt.check().is_err() {
                break;
            }
        }
        Ok(())
    }

    fn move_ranges(
        &mut self,
        found: &Found<'_>,
        target: &Target,
        ranges: Vec<std::ops::Range<u64>>,
        outcome: &mut Outcome,
    ) {
        let written = self.total.migrated.written_bytes + outcome.migrated.written_bytes;
        let limit = self.args.limit_bytes;
        let limits = Limits {
            bytes_max: limit.map(|limit| limit.saturating_sub(written)),
            moves_shared: self.args.shared,
        };
        let mut defrag = FileDefrag::new(target, ranges, limits);
        let pace = Pace::new(self.args.limit_rate);
        while defrag.step()
            && !self
                .invocation
                .interrupt
                .wait(pace.after(&defrag.report().migrated))
        {}
        // The next range waits for the last one.
        self.invocation
            .interrupt
            .wait(pace.after(&defrag.report().migrated));
        let report = defrag.into_report();
        outcome.migrated.add(report.migrated);
        outcome.moved_ranges += report.moved;
        outcome.is_cut |= report.is_cut;
        for skipped in report.skipped {
            LeftAlone::from(skipped).sum_into(&mut outcome.left_alone);
        }
        if let Some(why) = report.stopped_by {
            self.give_up(found, why, (1, 0), outcome);
        }
    }

    /// Records why a file is left alone. Failures are warned of at the end.
    fn give_up(
        &mut self,
        found: &Found<'_>,
        why: MigrationError,
        (ranges, bytes): (u64, u64),
        outcome: &mut Outcome,
    ) {
        if let MigrationError::Io { operation, source } = &why {
            let error = io::Error::new(source.kind(), format!("{operation}: {source}"));
            self.failed.push((found.path.to_owned(), error));
        }
        LeftAlone::from(Skipped { why, ranges, bytes }).sum_into(&mut outcome.left_alone);
    }

    fn record(&mut self, found: &Found<'_>, outcome: Outcome) -> anyhow::Result<()> {
        if outcome.planned_bytes > 0 || !outcome.left_alone.is_empty() {
            let path = found.path.as_os_str().as_bytes();
            let object = Object::message("host_defrag_file").path("path", path);
            self.invocation.console.message(outcome.object(object))?;
        }
        let total = &mut self.total;
        total.pieces_before += outcome.pieces_before;
        total.pieces_after += outcome.pieces_after;
        total.planned_bytes += outcome.planned_bytes;
        total.moved_ranges += outcome.moved_ranges;
        total.migrated.add(outcome.migrated);
        total.is_cut |= outcome.is_cut;
        for left in &outcome.left_alone {
            left.clone().sum_into(&mut total.left_alone);
        }
        if outcome.planned_bytes > 0 || !outcome.left_alone.is_empty() {
            self.shown.push((outcome, found.path.to_owned()));
            self.shown.sort_by_key(|(o, _)| Reverse(o.pieces_before));
            self.shown.truncate(SHOWN_MAX);
        }
        Ok(())
    }

    /// Shows how many bytes lie in pieces of which size, before and after.
    fn show_sizes(&self) -> io::Result<()> {
        let console = &self.invocation.console;
        let mut table = Table::new(["Pieces of", "Bytes", "Then"], &[0, 1, 2]);
        for (before, after) in self.before.classes().zip(self.after.classes()) {
            if before.pieces + after.pieces > 0 {
                table.row([
                    at_least(before.bytes_min),
                    sizes::display(before.bytes),
                    sizes::display(after.bytes),
                ]);
            }
        }
        for line in table.lines() {
            console.line(line)?;
        }
        console.line("")
    }

    fn show(&self, failed: u64) -> anyhow::Result<()> {
        let (console, total) = (&self.invocation.console, &self.total);
        let summary = Object::message("summary")
            .boolean("dry_run", self.args.dry_run)
            .integer("files", self.files)
            .integer("failed", failed + self.failed.len() as u64);
        console.message(total.object(summary))?;
        let heading = ["Pieces", "Then", "Moved", "Left alone", "Path"];
        let mut table = Table::new(heading, &[0, 1, 2]);
        for (outcome, path) in &self.shown {
            table.row(outcome.cells(self.args.dry_run, path.display().to_string()));
        }
        if !self.shown.is_empty() {
            for line in table.lines() {
                console.line(line)?;
            }
            console.line("")?;
        }
        if !self.args.dry_run && total.moved_ranges > 0 {
            self.show_sizes()?;
        }
        let moved = &total.migrated;
        console.line(match self.args.dry_run {
            true => format!(
                "{} files in {} pieces; would move at most {}",
                self.files,
                total.pieces_before,
                sizes::display(total.planned_bytes)
            ),
            false => format!(
                "{} files in {} pieces, then {}; moved {}, read {}, wrote {}",
                self.files,
                total.pieces_before,
                total.pieces_after,
                sizes::display(moved.bytes),
                sizes::display(moved.read_bytes),
                sizes::display(moved.written_bytes)
            ),
        })?;
        for left in &total.left_alone {
            console.line(format!("left alone, {} ranges: {}", left.ranges, left.text))?;
        }
        if total.is_cut {
            console.line("stopped at the limit of --limit-bytes")?;
        }
        Ok(())
    }
}

/// Keeps reads and writes below a rate.
struct Pace {
    bytes_per_s: Option<u64>,
    begin: Instant,
}

impl Pace {
    fn new(bytes_per_s: Option<u64>) -> Self {
        Self {
            bytes_per_s,
            begin: Instant::now(),
        }
    }

    /// Returns how long to wait after so much since the begin.
    fn after(&self, done: &Migrated) -> Duration {
        let Some(rate) = self.bytes_per_s else {
            return Duration::ZERO;
        };
        let bytes = done.read_bytes + done.written_bytes;
        let seconds = bytes as f64 / rate.max(1) as f64;
        Duration::from_secs_f64(seconds).saturating_sub(self.begin.elapsed())
    }
}

impl Outcome {
    fn object(&self, object: Object) -> Object {
        let left_alone = self.left_alone.iter().map(|left| {
            Object::new()
                .text("reason", left.name)
                .integer("ranges", left.ranges)
                .integer("bytes", left.bytes)
        });
        object
            .integer("pieces_before", self.pieces_before)
            .integer("pieces_after", self.pieces_after)
            .integer("planned_bytes", self.planned_bytes)
            .integer("moved_ranges", self.moved_ranges)
            .integer("moved_bytes", self.migrated.bytes)
            .integer("read_bytes", self.migrated.read_bytes)
            .integer("written_bytes", self.migrated.written_bytes)
            .boolean("limit_reached", self.is_cut)
            .objects("left_alone", left_alone)
    }

    fn cells(&self, dry_run: bool, path: String) -> [String; 5] {
        let (then, bytes) = match dry_run {
            true => ("-".to_owned(), self.planned_bytes),
            false => (self.pieces_after.to_string(), self.migrated.bytes),
        };
        let names = self.left_alone.iter().map(|left| left.name);
        let names = names.collect::<Vec<_>>().join(", ");
        let pieces = self.pieces_before.to_string();
        [pieces, then, sizes::display(bytes), names, path]
    }
}

//! `host defrag run`: runs the maintenance task that moves extents, and shows what it did.
//! [`super::run`] calls this.
//!
//! Invariant: an interrupt ends the run between two steps, and the report is of what was done.

use super::outcome::{cells, object_of};
use super::record::Record;
use super::task_host::FilesHost;
use super::{Heat, SHOWN_MAX, at_least, draw};
use crate::arguments::{HostDefragRunArgs, MoveOrder};
use crate::background::idle_priority;
use crate::refusals::{MOVES_OTHERS, warn_of};
use anyhow::Context;
use format::phase::TaskPhase;
use host_tasks::{HostDefrag, HostDefragOptions, HostDefragOutcome, HostDefragReport, HostFile};
use linux_host::{Histogram, STEP_BYTES};
use maintenance::{RunEnd, StepSizes, run_task};
use media::{Clock, SystemClock};
use std::cmp::Reverse;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::sizes;
use terminal::table::Table;

/// Sizes of the steps: about a unit, whether the disk is left to others or not.
const STEPS: StepSizes = StepSizes::scattered(STEP_BYTES, STEP_BYTES);
/// Time between two records of the state.
const RECORD_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(shell: &Shell, args: &HostDefragRunArgs) -> anyhow::Result<Exit> {
    let of_path = || args.path.display().to_string();
    let heat = Heat::of(&args.heat, &args.path)?;
    let host = FilesHost::new(shell, args).with_context(of_path)?;
    let options = HostDefragOptions {
        heat: heat.0,
        moves_shared: args.shared,
        joins: args.join.joins(&args.path),
        dry_run: args.dry_run,
        bytes_max: args.limit_bytes,
        bytes_per_s: args.limit_rate,
        cached_first: args.order == MoveOrder::Cached,
        pacer: host.pacer(),
        began: SystemClock.now(),
    };
    let mut task = HostDefrag::new(&args.path, options).with_context(of_path)?;
    let _priority = args.background.then(|| idle_priority(shell, "the run"));
    let mut record = match args.dry_run {
        true => None,
        false => begin_record(shell, &args.path),
    };
    let mut shown = Shown::default();
    let mut recorded = Instant::now();
    if let Some(record) = &mut record {
        record.write(&task.report(TaskPhase::UnderWay));
    }
    let end = run_task(&mut task, &host, STEPS, |task, news| {
        if let Some(file) = news {
            shown.file(shell, file)?;
        }
        if let Some(record) = &mut record
            && recorded.elapsed() >= RECORD_EVERY
        {
            recorded = Instant::now();
            record.write(&task.report(TaskPhase::UnderWay));
        }
        anyhow::Ok(ControlFlow::Continue(()))
    })?;
    say_order(shell, args, &task);
    if args.background {
        let waits = host.waits();
        let (waited, looks) = (waits.time.as_secs_f64(), waits.looks);
        shell.console.detail(format!(
            "waited {waited:.1} s for an idle disk, and looked for others {}",
            units::count(looks, "time")
        ));
    }
    let (before, after) = task.histograms();
    let (before, after) = (before.clone(), after.clone());
    let report = task.report(TaskPhase::AtRest);
    let (files, walked, failed) = task.end();
    for file in files {
        shown.file(shell, file)?;
    }
    if let Some(record) = record {
        record.end(&report, end == RunEnd::Finished);
    }
    draw(&args.heat, &before, (!args.dry_run).then_some(&after))?;
    let failures = (walked.failed.len() + failed.len()) as u64;
    shown.summary(shell, args, &report, failures, (&before, &after))?;
    warn_of(shell, "read extents", MOVES_OTHERS, walked.failed);
    warn_of(shell, "move it", MOVES_OTHERS, failed);
    shell.interrupt.check()?;
    Ok(match failures {
        0 => Exit::Done,
        _ => Exit::Partly,
    })
}

fn begin_record<'a>(shell: &'a Shell, top: &Path) -> Option<Record<'a>> {
    Record::begin(shell, top)
        .inspect_err(|e| {
            shell.console.warn(format!(
                "quintet host defrag status will not show this run: {e:#}"
            ));
        })
        .ok()
}

/// Says why what is in memory did not come first, where the user asked for that.
fn say_order(shell: &Shell, args: &HostDefragRunArgs, task: &HostDefrag) {
    if args.order == MoveOrder::Cached
        && let Some(Err(why)) = task.hears_events()
    {
        shell.console.detail(format!(
            "what came into memory meanwhile was not seen: {why}"
        ));
    }
}

/// Files that the summary shows: those in most pieces.
#[derive(Default)]
struct Shown(Vec<(HostDefragOutcome, PathBuf)>);

impl Shown {
    fn file(&mut self, shell: &Shell, file: HostFile) -> anyhow::Result<()> {
        let path = file.path.as_os_str().as_bytes();
        let object = Object::message("host_defrag_file").path("path", path);
        shell.console.message(object_of(&file.outcome, object))?;
        self.0.push((file.outcome, file.path));
        self.0.sort_by_key(|(o, _)| Reverse(o.pieces_before));
        self.0.truncate(SHOWN_MAX);
        Ok(())
    }

    fn summary(
        &self,
        shell: &Shell,
        args: &HostDefragRunArgs,
        report: &HostDefragReport,
        failed: u64,
        (before, after): (&Histogram, &Histogram),
    ) -> anyhow::Result<()> {
        let (console, total) = (&shell.console, &report.outcome);
        let summary = Object::message("summary")
            .boolean("dry_run", args.dry_run)
            .integer("files", report.files)
            .integer("failed", failed);
        console.message(object_of(total, summary))?;
        let heading = ["Pieces", "Then", "Moved", "Left alone", "Path"];
        let mut table = Table::new(heading, &[0, 1, 2]);
        for (outcome, path) in &self.0 {
            table.row(cells(outcome, args.dry_run, path.display().to_string()));
        }
        if !self.0.is_empty() {
            for line in table.lines() {
                console.line(line)?;
            }
            console.line("")?;
        }
        if !args.dry_run && total.moved_ranges > 0 {
            show_sizes(shell, before, after)?;
        }
        let moved = &total.migrated;
        console.line(match args.dry_run {
            true => format!(
                "{} in {}; would move at most {}",
                units::count(report.files, "file"),
                units::count(total.pieces_before, "piece"),
                sizes::display(total.planned_bytes)
            ),
            false => format!(
                "{} in {}, then {}; moved {}, read {}, wrote {}",
                units::count(report.files, "file"),
                units::count(total.pieces_before, "piece"),
                total.pieces_after,
                sizes::display(moved.bytes),
                sizes::display(moved.read_bytes),
                sizes::display(moved.written_bytes)
            ),
        })?;
        for left in &total.left_alone {
            let ranges = units::count(left.ranges, "range");
            console.line(format!("left alone, {ranges}: {}", left.text))?;
        }
        if total.is_cut {
            console.line("stopped at the limit of --limit-bytes")?;
        }
        Ok(())
    }
}

/// Shows how many bytes lie in pieces of which size, before and after.
fn show_sizes(shell: &Shell, before: &Histogram, after: &Histogram) -> io::Result<()> {
    let console = &shell.console;
    let mut table = Table::new(["Pieces of", "Bytes", "Then"], &[0, 1, 2]);
    for (before, after) in before.classes().zip(after.classes()) {
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

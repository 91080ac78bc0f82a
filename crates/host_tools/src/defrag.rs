//! `host defrag`: in how many pieces files lie, and moving fragmented ranges into one piece each.
//! [`super::run`] calls this.
//!
//! Invariant: `analyse` and a dry run write nothing; a dry run decides as a real run does.

mod outcome;
mod record;
mod run;
mod status;
mod svg;
mod task_host;
mod trace;

use crate::arguments::{HeatArgs, HostAnalyseArgs, HostDefragCommand, JoinArg};
use crate::refusals::{READS_OTHERS, warn_of};
use anyhow::Context;
use linux_host::{Histogram, HotRanges, SpanOptions, Wanted, plan_span, walk_once};
use machine::has_arms;
use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::sizes;
use terminal::table::Table;

/// Files that a table shows at most.
const SHOWN_MAX: usize = 15;

pub(super) fn run(shell: &Shell, command: &HostDefragCommand) -> anyhow::Result<Exit> {
    match command {
        HostDefragCommand::Analyse(args) => analyse(shell, args),
        HostDefragCommand::Trace(args) => trace::run(shell, args),
        HostDefragCommand::Run(args) => run::run(shell, args),
        HostDefragCommand::Status(args) => status::run(shell, args),
    }
}

/// Sums over a tree.
#[derive(Default)]
struct Sums {
    files: u64,
    histogram: Histogram,
    broken: Broken,
    /// The files in most pieces.
    worst: Vec<(u64, u64, PathBuf)>,
}

/// Ranges with a break: windows of 128 KiB, or hot ranges.
#[derive(Clone, Copy, Default)]
struct Broken {
    ranges: u64,
    bytes: u64,
    /// Requests to the device for all ranges that were looked at, before a run and after it.
    requests_before: u64,
    requests_after: u64,
}

impl Broken {
    fn add(&mut self, other: Self) {
        self.ranges += other.ranges;
        self.bytes += other.bytes;
        self.requests_before += other.requests_before;
        self.requests_after += other.requests_after;
    }
}

/// Hot ranges, if a trace was given.
struct Heat(Option<HotRanges>);

impl Heat {
    fn of(args: &HeatArgs, top: &Path) -> anyhow::Result<Self> {
        let Some(trace) = &args.trace else {
            return Ok(Self(None));
        };
        let ranges = HotRanges::load(trace, top, args.hot.0);
        Ok(Self(Some(
            ranges.with_context(|| trace.display().to_string())?,
        )))
    }

    /// Returns what to look at in a file.
    fn wanted(&self, file: &File) -> io::Result<Wanted<'_>> {
        self.0.as_ref().map_or(Ok(Wanted::Windows), |ranges| {
            Ok(Wanted::Hot(ranges.of(file)?))
        })
    }

    /// Says what was looked at.
    fn name(&self) -> &'static str {
        match self.0 {
            None => "windows of 128 KiB",
            Some(_) => "hot ranges",
        }
    }
}

impl JoinArg {
    /// Returns whether whole ranges between fragmented ones are moved too, for files at a path.
    fn joins(self, top: &Path) -> bool {
        let has_arms = || has_arms(top.metadata().ok()?.dev());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => has_arms().unwrap_or(false),
        }
    }
}

/// Writes the plot that `--svg` requests.
fn draw(args: &HeatArgs, before: &Histogram, after: Option<&Histogram>) -> anyhow::Result<()> {
    let Some(path) = &args.svg else {
        return Ok(());
    };
    let drawn = svg::histogram(before, after);
    std::fs::write(path, drawn).with_context(|| format!("cannot write {}", path.display()))
}

fn analyse(shell: &Shell, args: &HostAnalyseArgs) -> anyhow::Result<Exit> {
    let mut sums = Sums::default();
    let heat = Heat::of(&args.heat, &args.path)?;
    let joins = args.join.joins(&args.path);
    let walked = walk_once(&args.path, &mut |found| {
        if shell.interrupt.check().is_err() {
            return Ok(());
        }
        let histogram = Histogram::of(found.file)?;
        let broken = broken(found.file, heat.wanted(found.file)?, joins)?;
        sums.files += 1;
        sums.broken.add(broken);
        sums.histogram.add(&histogram);
        let (pieces, path) = (histogram.pieces(), found.path.to_owned());
        let object = Object::message("host_defrag_file").path("path", path.as_os_str().as_bytes());
        let object = object
            .integer("bytes", found.bytes)
            .integer("pieces", pieces)
            .integer("broken_windows", broken.ranges)
            .integer("requests_before", broken.requests_before)
            .integer("requests_after", broken.requests_after);
        let shown = shell.console.message(object);
        shown.map_err(io::Error::other)?;
        if pieces > 1 {
            sums.worst.push((pieces, found.bytes, path));
            sums.worst.sort_by_key(|(pieces, ..)| Reverse(*pieces));
            sums.worst.truncate(SHOWN_MAX);
        }
        Ok(())
    })
    .with_context(|| args.path.display().to_string())?;
    shell.interrupt.check()?;
    draw(&args.heat, &sums.histogram, None)?;
    show(shell, &sums, &heat, walked.failed.len() as u64)?;
    let is_whole = walked.failed.is_empty();
    warn_of(shell, "read extents", READS_OTHERS, walked.failed);
    Ok(match is_whole {
        true => Exit::Done,
        false => Exit::Partly,
    })
}

/// Returns the ranges of a file that contain breaks.
fn broken(file: &File, wanted: Wanted<'_>, joins: bool) -> io::Result<Broken> {
    let moves_shared = true;
    let options = SpanOptions {
        moves_shared,
        joins,
    };
    let (mut from, mut broken) = (0, Broken::default());
    while let Some(span) = plan_span(file, from, wanted, options)? {
        broken.add(Broken {
            ranges: span.plan.ranges.len() as u64,
            bytes: span.plan.bytes,
            requests_before: span.requests_before,
            requests_after: span.requests_after,
        });
        from = span.end;
    }
    Ok(broken)
}

/// Names a class of a histogram.
fn at_least(bytes_min: u64) -> String {
    match bytes_min {
        0 => "less".to_owned(),
        bytes => format!("{} up", sizes::display(bytes)),
    }
}

/// Says what a run would cost and save.
fn gain(broken: &Broken, heat: &Heat) -> String {
    let requests = match &heat.0 {
        None => "read once from begin to end".to_owned(),
        Some(ranges) => format!(
            "{} again (the hot ones)",
            units::count(ranges.requests, "request")
        ),
    };
    format!(
        "a run writes {}; {requests}: {} to the device before, {} after",
        sizes::display(broken.bytes),
        units::count(broken.requests_before, "request"),
        broken.requests_after
    )
}

fn show(shell: &Shell, sums: &Sums, heat: &Heat, failed: u64) -> anyhow::Result<()> {
    let (console, histogram) = (&shell.console, &sums.histogram);
    let classes = histogram.classes().map(|class| {
        Object::new()
            .integer("bytes_min", class.bytes_min)
            .integer("pieces", class.pieces)
            .integer("bytes", class.bytes)
    });
    let object = Object::message("summary")
        .integer("files", sums.files)
        .integer("failed", failed)
        .integer("pieces", histogram.pieces())
        .integer("bytes", histogram.bytes())
        .boolean("traced", heat.0.is_some())
        .integer("broken_windows", sums.broken.ranges)
        .integer("broken_bytes", sums.broken.bytes)
        .integer("requests_before", sums.broken.requests_before)
        .integer("requests_after", sums.broken.requests_after)
        .integer("preallocated_bytes", histogram.preallocated_bytes)
        .integer("placeless_bytes", histogram.placeless_bytes)
        .integer("shared_bytes", histogram.shared_bytes)
        .objects("classes", classes);
    console.message(object)?;
    let mut table = Table::new(["Pieces of", "Pieces", "Bytes", "Of all bytes"], &[0, 1, 2]);
    for class in histogram.classes().filter(|class| class.pieces > 0) {
        let at_least = at_least(class.bytes_min);
        let share = class.bytes as f64 / histogram.bytes().max(1) as f64;
        table.row([
            at_least,
            class.pieces.to_string(),
            sizes::display(class.bytes),
            crate::cached::bar(share),
        ]);
    }
    for line in table.lines() {
        console.line(line)?;
    }
    if !sums.worst.is_empty() {
        console.line("")?;
        let mut table = Table::new(["Pieces", "Size", "Path"], &[0, 1]);
        for (pieces, bytes, path) in &sums.worst {
            let path = path.display().to_string();
            table.row([pieces.to_string(), sizes::display(*bytes), path]);
        }
        for line in table.lines() {
            console.line(line)?;
        }
    }
    console.line("")?;
    console.line(format!(
        "{} in {}; {} {} contain breaks ({})",
        units::count(sums.files, "file"),
        units::count(histogram.pieces(), "piece"),
        sums.broken.ranges,
        heat.name(),
        sizes::display(sums.broken.bytes)
    ))?;
    console.line(gain(&sums.broken, heat))?;
    Ok(())
}

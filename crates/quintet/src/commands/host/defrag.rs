//! `host defrag`: in how many pieces files lie, and moving fragmented ranges into one piece each.
//! [`super::run`] calls this.
//!
//! Invariant: `analyse` and a dry run write nothing; a dry run decides as a real run does.

mod run;

use super::warn_of;
use crate::cli::{HostAnalyseArgs, HostDefragCommand};
use crate::commands::invocation::Invocation;
use crate::commands::table::Table;
use crate::exit::Exit;
use crate::json::Object;
use anyhow::Context;
use linux_host::{Histogram, plan_span, walk};
use server::sizes;
use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Files that a table shows at most.
const SHOWN_MAX: usize = 15;

pub(super) fn run(invocation: &Invocation, command: &HostDefragCommand) -> anyhow::Result<Exit> {
    match command {
        HostDefragCommand::Analyse(args) => analyse(invocation, args),
        HostDefragCommand::Run(args) => run::run(invocation, args),
    }
}

/// Sums over a tree.
#[derive(Default)]
struct Sums {
    files: u64,
    histogram: Histogram,
    /// Windows with a break, and their bytes.
    broken: u64,
    broken_bytes: u64,
    /// The files in most pieces.
    worst: Vec<(u64, u64, PathBuf)>,
}

fn analyse(invocation: &Invocation, args: &HostAnalyseArgs) -> anyhow::Result<Exit> {
    let mut sums = Sums::default();
    let walked = walk(&args.path, &mut |found| {
        if invocation.interrupt.check().is_err() {
            return Ok(());
        }
        let histogram = Histogram::of(found.file)?;
        let (broken, broken_bytes) = broken(found.file)?;
        sums.files += 1;
        sums.broken += broken;
        sums.broken_bytes += broken_bytes;
        sums.histogram.add(&histogram);
        let (pieces, path) = (histogram.pieces(), found.path.to_owned());
        let object = Object::message("host_defrag_file").path("path", path.as_os_str().as_bytes());
        let object = object
            .integer("bytes", found.bytes)
            .integer("pieces", pieces)
            .integer("broken_windows", broken);
        let shown = invocation.console.message(object);
        shown.map_err(io::Error::other)?;
        if pieces > 1 {
            sums.worst.push((pieces, found.bytes, path));
            sums.worst.sort_by_key(|(pieces, ..)| Reverse(*pieces));
            sums.worst.truncate(SHOWN_MAX);
        }
        Ok(())
    })
    .with_context(|| args.path.display().to_string())?;
    invocation.interrupt.check()?;
    show(invocation, &sums, walked.failed.len() as u64)?;
    let is_whole = walked.failed.is_empty();
    warn_of(invocation, "ask for its extents", walked.failed);
    Ok(match is_whole {
        true => Exit::Done,
        false => Exit::Partly,
    })
}

/// Returns the windows of a file that contain breaks, and their bytes.
fn broken(file: &File) -> io::Result<(u64, u64)> {
    let (mut from, mut windows, mut bytes) = (0, 0, 0);
    while let Some(span) = plan_span(file, from, true)? {
        windows += span.plan.ranges.len() as u64;
        bytes += span.plan.bytes;
        from = span.end;
    }
    Ok((windows, bytes))
}

fn show(invocation: &Invocation, sums: &Sums, failed: u64) -> anyhow::Result<()> {
    let (console, histogram) = (&invocation.console, &sums.histogram);
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
        .integer("broken_windows", sums.broken)
        .integer("broken_bytes", sums.broken_bytes)
        .integer("preallocated_bytes", histogram.preallocated_bytes)
        .integer("placeless_bytes", histogram.placeless_bytes)
        .integer("shared_bytes", histogram.shared_bytes)
        .objects("classes", classes);
    console.message(object)?;
    let mut table = Table::new(["Pieces of", "Pieces", "Bytes", "Of all bytes"], &[0, 1, 2]);
    for class in histogram.classes().filter(|class| class.pieces > 0) {
        let at_least = match class.bytes_min {
            0 => "less".to_owned(),
            bytes => format!("{} up", sizes::display(bytes)),
        };
        let share = class.bytes as f64 / histogram.bytes().max(1) as f64;
        table.row([
            at_least,
            class.pieces.to_string(),
            sizes::display(class.bytes),
            super::cached::bar(share),
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
        "{} files in {} pieces; {} windows of 128 KiB contain breaks ({})",
        sums.files,
        histogram.pieces(),
        sums.broken,
        sizes::display(sums.broken_bytes)
    ))?;
    Ok(())
}

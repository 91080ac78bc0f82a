//! `host defrag trace`: records which ranges of files programs request. [`super::run`] calls this.
//!
//! Invariant: the trace is written when the recording ends for any reason but a failure of the
//! recording itself, also after Ctrl-C and when the command failed.

use super::SHOWN_MAX;
use crate::arguments::HostTraceArgs;
use crate::refusals::{READS_OTHERS, warn_of};
use anyhow::{Context, bail};
use linux_host::{Traced, Tracer};
use media::{Clock, SystemClock};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::sizes;
use terminal::table::Table;
use units::count;

/// Time between two looks into the kernel's buffer.
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(shell: &Shell, args: &HostTraceArgs) -> anyhow::Result<Exit> {
    let output = args.output.display().to_string();
    if !args.force && fs::symlink_metadata(&args.output).is_ok() {
        bail!("{output} exists; use --force");
    }
    let of_path = || args.path.display().to_string();
    let began = SystemClock.now();
    let mut tracer = Tracer::start(&args.path, args.exact, began).with_context(of_path)?;
    say_how(shell, args, &tracer)?;
    let mut child = started(&args.command)?;
    let status = record(shell, args, &mut tracer, child.as_mut());
    let traced = tracer.finish(SystemClock.now()).with_context(of_path)?;
    let bytes = traced.record.encode();
    fs::write(&args.output, &bytes).with_context(|| format!("cannot write {output}"))?;
    show(shell, &traced, &args.output, bytes.len() as u64)?;
    let is_whole = traced.failed.is_empty();
    warn_of(shell, "look at it", READS_OTHERS, traced.failed);
    match status? {
        Some(status) if !status.success() => {
            bail!("the command failed ({status}); what it requested is in {output}")
        }
        _ => {}
    }
    Ok(match is_whole {
        true => Exit::Done,
        false => Exit::Partly,
    })
}

fn started(words: &[std::ffi::OsString]) -> anyhow::Result<Option<Child>> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(None);
    };
    let child = Command::new(program).args(arguments).spawn();
    let of_program = || format!("cannot start {}", Path::new(program).display());
    Ok(Some(child.with_context(of_program)?))
}

/// Records until the command, the time, or the user ends it. Returns how the command ended.
fn record(
    shell: &Shell,
    args: &HostTraceArgs,
    tracer: &mut Tracer,
    mut child: Option<&mut Child>,
) -> anyhow::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        let left = args.seconds.map(|seconds| {
            let limit = Duration::from_secs_f64(seconds);
            limit.saturating_sub(begin.elapsed())
        });
        let is_stopped = shell.interrupt.wait(left.unwrap_or(INTERVAL).min(INTERVAL));
        tracer.drain();
        if let Some(child) = &mut child
            && let Some(status) = child.try_wait().context("cannot wait for the command")?
        {
            return Ok(Some(status));
        }
        if is_stopped || left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
    }
}

fn say_how(shell: &Shell, args: &HostTraceArgs, tracer: &Tracer) -> anyhow::Result<()> {
    let (console, mount) = (&shell.console, tracer.mount());
    let unseen = tracer.unseen().iter().map(|(what, why)| {
        let object = Object::new().text("accesses", what);
        object.text("reason", &why.to_string())
    });
    let object = Object::message("host_defrag_trace_begin")
        .text("file_system", &mount.kind)
        .path("mount", mount.point.as_os_str().as_bytes())
        .boolean("exact", tracer.is_exact())
        .objects("unseen", unseen);
    console.message(object)?;
    console.note(format!("recording requests on {}", mount.point.display()));
    if tracer.is_exact() && !args.exact {
        console.note("this kernel does not report buffered reads; recording system calls");
    }
    for (what, why) in tracer.unseen() {
        console.warn(format!("{what} are not seen: {why}"));
    }
    Ok(console.flush()?)
}

fn show(shell: &Shell, traced: &Traced, output: &Path, bytes: u64) -> anyhow::Result<()> {
    let (console, record) = (&shell.console, &traced.record);
    let ranges: u64 = record.files.iter().map(|f| f.ranges.len() as u64).sum();
    let in_ranges = record.files.iter().flat_map(|file| &file.ranges);
    let requested: u64 = in_ranges.map(|range| range.end - range.start).sum();
    for (path, requests) in &traced.files {
        let object = Object::message("host_defrag_traced_file")
            .path("path", path.as_os_str().as_bytes())
            .integer("requests", *requests);
        console.message(object)?;
    }
    let object = Object::message("summary")
        .path("output", output.as_os_str().as_bytes())
        .integer("output_bytes", bytes)
        .integer("reads", traced.reads)
        .integer("writes", traced.writes)
        .integer("lost", record.lost)
        .integer("forgotten", traced.forgotten)
        .integer("files", record.files.len() as u64)
        .integer("files_elsewhere", traced.elsewhere)
        .integer("ranges", ranges)
        .integer("requested_bytes", requested);
    console.message(object)?;
    let mut table = Table::new(["Requests", "Path"], &[0]);
    for (path, requests) in traced.files.iter().take(SHOWN_MAX) {
        table.row([requests.to_string(), path.display().to_string()]);
    }
    if !traced.files.is_empty() {
        for line in table.lines() {
            console.line(line)?;
        }
        console.line("")?;
    }
    console.line(format!(
        "{} and {} of all files of the file system; here {} in {} ({}), elsewhere {}; {} has {}",
        count(traced.reads, "read"),
        count(traced.writes, "write"),
        count(ranges, "range"),
        count(record.files.len() as u64, "file"),
        sizes::display(requested),
        count(traced.elsewhere, "file"),
        output.display(),
        sizes::display(bytes),
    ))?;
    if record.lost > 0 {
        console.warn(format!(
            "{} came faster than they were recorded, and are lost",
            count(record.lost, "request")
        ));
    }
    if traced.forgotten > 0 {
        console.warn(format!(
            "no room for {} of the coldest ranges; record for a shorter time",
            traced.forgotten
        ));
    }
    Ok(())
}

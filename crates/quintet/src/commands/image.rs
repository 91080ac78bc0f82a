//! `import` and `export`: disk images, raw ones directly, other formats through qemu.
//! [`super::run`] calls this.
//!
//! Invariant: an exported file gets its name when it is complete. What is exported of a volume is
//! one state, with every write that was acknowledged before.

mod import;

pub(super) use import::run as import;

use super::as_owner;
use super::for_clients;
use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use anyhow::{anyhow, bail};
use archive::image::{UnfinishedError, UnfinishedFile, export_object, stream_object};
use browsing::choice::SnapshotFilter;
use command_line::{ExportArgs, FilterArgs, ImageFormat};
use format::recipe::ObjectRoot;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use store::Reader;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;

/// Bytes of one write to standard output.
const OUTPUT_BYTES: usize = 256 << 10;

/// Runs `export`.
pub(super) fn export(invocation: &Invocation, args: &ExportArgs) -> anyhow::Result<Exit> {
    if is_output(args) {
        expect_raw_to_a_pipe(invocation, args)?;
    }
    invocation.read_limit.set(args.limit, &invocation.interrupt);
    let pool = invocation.open_with_tier()?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    if snapshots.is_volume(&args.image) {
        drop((snapshots, pool));
        return export_volume(invocation, args);
    }
    let filter = FilterArgs {
        host: args.host.clone(),
        ..FilterArgs::default()
    };
    let chosen = snapshots.named(&args.image, &SnapshotFilter::new(&filter)?);
    let snapshot = snapshots.found(chosen)?;
    let message = Object::message("summary").text("snapshot_id", &snapshot.id.to_string());
    let (root, name) = (&snapshot.root, short_id(snapshot));
    // The reads of a server's pool are not this command's alone.
    let limit = args.limit.filter(|_| invocation.server_state().is_some());
    write(
        invocation,
        args,
        limit,
        (pool.reader(), root),
        (&name, message),
    )?;
    Ok(snapshots.exit_of(&args.image, Exit::Done))
}

/// Exports the present contents of a volume. Only its server knows them, if it has one.
fn export_volume(invocation: &Invocation, args: &ExportArgs) -> anyhow::Result<Exit> {
    if invocation.server_state().is_none() {
        as_owner::go_on_exporting(invocation, args)?;
    }
    if let Some(exit) = for_clients::ask_after_all(invocation)? {
        return Ok(exit);
    }
    let volumes = invocation.open_volumes()?;
    let (root, _hold) = volumes.hold_contents(&args.image)?;
    let message = Object::message("summary").text("volume", &args.image);
    let reader = volumes.pool().reader();
    write(
        invocation,
        args,
        args.limit,
        (reader, &root),
        (&args.image, message),
    )?;
    Ok(Exit::Done)
}

fn is_output(args: &ExportArgs) -> bool {
    args.out == Path::new("-")
}

fn expect_raw_to_a_pipe(invocation: &Invocation, args: &ExportArgs) -> anyhow::Result<()> {
    if args.format != ImageFormat::Raw {
        let name = args.format.name();
        bail!(
            "{name} cannot be written to standard output, as its parts are in no order; give a file"
        );
    }
    if invocation.context.streams().output.is_terminal() {
        bail!(
            "a disk image is binary data, and standard output is a terminal; redirect it, or give a file"
        );
    }
    Ok(())
}

/// Writes an object to the file or output that the user named. Says so of a file, as `name`.
/// `limit`: plain bytes a second.
fn write(
    invocation: &Invocation,
    args: &ExportArgs,
    limit: Option<u64>,
    (reader, root): (&Arc<Reader>, &ObjectRoot),
    (name, message): (&str, Object),
) -> anyhow::Result<()> {
    let progress = invocation.progress_shown("exporting", args.progress);
    let progress = progress.limited(limit);
    progress.add_total(1, root.len);
    progress.totals_known();
    if is_output(args) {
        let mut output = BufWriter::with_capacity(OUTPUT_BYTES, invocation.context.output()?);
        stream_object(reader, root, &mut output, &progress)?;
        return Ok(output.flush()?);
    }
    let out = UnfinishedFile::create(&args.out, args.force).map_err(|e| match e {
        UnfinishedError::Exists(path) => anyhow!("{} exists; use --force", path.display()),
        e => e.into(),
    })?;
    let write = |file: &File, path: &Path| -> anyhow::Result<()> {
        let workers = invocation.workers();
        Ok(export_object(
            reader,
            root,
            (file, path),
            // The raw file is the source of a conversion.
            args.format != ImageFormat::Raw,
            workers,
            &progress,
        )?)
    };
    match args.format {
        ImageFormat::Raw => write(out.file(), &args.out)?,
        format => {
            say_temporary(invocation, root.len);
            image_sources::from_raw(&invocation.context, out.path(), format, |path| {
                write(&File::create_new(path)?, path)
            })?;
        }
    }
    out.finish()?;
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    invocation.console.line(format!(
        "exported {name} ({}) to {} in {seconds:.2} s",
        sizes::display(root.len),
        args.out.display(),
    ))?;
    invocation.console.message(
        message
            .integer("total_bytes", root.len)
            .number("total_duration", seconds),
    )?;
    Ok(())
}

/// Says how much the raw file takes that qemu-img converts.
fn say_temporary(invocation: &Invocation, len: u64) {
    let directory = invocation.context.temporary_directory();
    let free = rustix::fs::statvfs(&directory);
    let free = free.map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    invocation.console.note(format_args!(
        "the raw image is written to {} first: up to {}, without its zeroes; {} are free there. TMPDIR is another place",
        directory.display(),
        sizes::display(len),
        sizes::display(free),
    ));
}

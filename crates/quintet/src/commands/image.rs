//! `import` and `export`: disk images, raw ones directly, other formats through qemu-img.
//! [`super::run`] calls this.
//!
//! Invariant: an exported file gets its name when it is complete.

mod import;
mod mounted;
mod qemu;
mod source;

pub(super) use import::run as import;

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use super::snapshot_choice::SnapshotFilter;
use anyhow::anyhow;
use archive::image::{UnfinishedError, UnfinishedFile, export_object};
use command_line::{ExportArgs, FilterArgs, ImageFormat};
use std::fs::File;
use std::path::Path;
use store::OpenMode;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;

/// Runs `export`.
pub(super) fn export(invocation: &Invocation, args: &ExportArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let filter = FilterArgs {
        host: args.host.clone(),
        ..FilterArgs::default()
    };
    let chosen = snapshots.named(&args.image, &SnapshotFilter::new(&filter)?);
    let snapshot = snapshots.found(chosen)?;
    let progress = invocation.progress_shown("exporting", args.progress);
    progress.add_total(1, snapshot.root.len);
    progress.totals_known();
    let out = UnfinishedFile::create(&args.out, args.force).map_err(|e| match e {
        UnfinishedError::Exists(path) => anyhow!("{} exists; use --force", path.display()),
        e => e.into(),
    })?;
    let write = |file: &File, path: &Path| -> anyhow::Result<()> {
        let workers = invocation.workers();
        Ok(export_object(
            pool.reader(),
            &snapshot.root,
            (file, path),
            // The raw file is the source of a conversion.
            args.format != ImageFormat::Raw,
            workers,
            &progress,
        )?)
    };
    match args.format {
        ImageFormat::Raw => write(out.file(), &args.out)?,
        format => qemu::from_raw(&invocation.context, out.path(), format, |path| {
            write(&File::create_new(path)?, path)
        })?,
    }
    out.finish()?;
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    invocation.console.line(format!(
        "exported {} ({}) to {} in {seconds:.2} s",
        short_id(snapshot),
        sizes::display(snapshot.root.len),
        args.out.display(),
    ))?;
    invocation.console.message(
        Object::message("summary")
            .text("snapshot_id", &snapshot.id.to_string())
            .integer("total_bytes", snapshot.root.len)
            .number("total_duration", seconds),
    )?;
    Ok(snapshots.exit_of(&args.image, Exit::Done))
}

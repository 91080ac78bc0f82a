//! `import` and `export`: disk images, raw ones directly, other formats through qemu-img.
//! [`super::run`] calls this.
//!
//! Invariant: an image that changed during the import is stored and reported, and is read again by
//! the next import. An exported file gets its name when it is complete.

mod convert;

use super::backup::REGION_BYTES;
use super::full;
use super::invocation::{Invocation, done_or_partly};
use super::known_snapshots::KnownSnapshots;
use super::new_snapshot::{Identity, commit, summary};
use super::snapshot_choice::SnapshotFilter;
use crate::cli::{ExportArgs, FilterArgs, ImageFormat, ImportArgs};
use anyhow::{anyhow, bail};
use archive::backup::TreeOutcome;
use archive::image::{RawImage, UnfinishedError, UnfinishedFile, export_object, import_image};
use format::snapshot::{Snapshot, SnapshotKind};
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use store::{OpenMode, WriteCounts};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;

/// log2 of the chunk size of imported images, bytes: see `docs/decisions/` on chunk sizes.
const IMAGE_CHUNK_LOG2: u8 = 14;

/// Runs `import`.
pub(super) fn import(invocation: &Invocation, args: &ImportArgs) -> anyhow::Result<Exit> {
    let started = Instant::now();
    if args.name.is_empty() || args.name.contains('@') {
        bail!("the name of an image must not be empty and must not contain @");
    }
    let lane = invocation.lane(
        args.compression.as_deref(),
        args.region_size.unwrap_or(REGION_BYTES),
    )?;
    let original = RawImage::open(&args.image)?;
    let signature = original.signature()?;
    let pool = invocation.open(if args.dry_run {
        OpenMode::Read
    } else {
        OpenMode::Write
    })?;
    let (host, time) = (args.host.as_deref(), args.time.as_deref());
    let identity = Identity::new(invocation, &pool, host, time, &args.tag)?;
    let known = KnownSnapshots::of(invocation, &pool)?;
    let parent = known
        .iter()
        .rfind(|s| s.kind == SnapshotKind::Image && s.name == args.name && s.host == identity.host);
    let unchanged = !args.force
        && !signature.is_empty()
        && parent
            .is_some_and(|p| p.signature == signature && pool.reader().is_believed_whole(&p.root));
    known.expect_free(&args.name)?;
    if args.dry_run {
        let what = if unchanged {
            "did not change"
        } else {
            "would be read"
        };
        invocation
            .console
            .line(format!("{}: {what}", args.image.display()))?;
        return Ok(Exit::Done);
    }
    let mut session = pool.begin(lane)?;
    let progress = invocation.progress_shown("importing", args.progress);
    let root = match parent.filter(|_| unchanged) {
        Some(parent) => parent.root,
        None => {
            // Other formats are converted to a temporary raw file first.
            let converted = convert::to_raw(&invocation.context, &args.image, args.format)?;
            let image = match &converted {
                Some(raw) => RawImage::open(raw.path())?,
                None => original,
            };
            let workers = invocation.workers();
            match import_image(
                &mut session,
                image,
                IMAGE_CHUNK_LOG2,
                lane,
                workers,
                &progress,
            ) {
                Ok(root) => root,
                Err(e) => {
                    let _ = session.abandon();
                    return Err(full::explained(&pool, e.into()));
                }
            }
        }
    };
    // An image that cannot be examined again counts as changed.
    let after = RawImage::open(&args.image).and_then(|image| image.signature());
    let changed = !signature.is_empty() && after.ok().as_ref() != Some(&signature);
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Image, root);
    snapshot.name = args.name.clone();
    snapshot.files = 1;
    if changed {
        progress.warn_changed(&args.image);
        snapshot.missed.changed = 1;
    } else {
        snapshot.signature = signature;
    }
    snapshot.parent = parent.map(|p| p.id).unwrap_or_default();
    let (snapshot, counts) = commit(&invocation.console, &pool, session, snapshot, started)?;
    drop(progress);
    let outcome = TreeOutcome {
        files: 1,
        bytes: root.len,
        files_unchanged: u64::from(unchanged),
        changed_while_read: u64::from(changed),
        ..TreeOutcome::default()
    };
    say(invocation, &snapshot, &outcome, &counts)?;
    Ok(done_or_partly(u64::from(changed)))
}

fn say(
    invocation: &Invocation,
    snapshot: &Snapshot,
    outcome: &TreeOutcome,
    counts: &WriteCounts,
) -> anyhow::Result<()> {
    if outcome.files_unchanged > 0 {
        invocation
            .console
            .note("the image did not change; --force reads it again");
    }
    summary(&invocation.console, snapshot, outcome, counts)
}

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
        format => convert::from_raw(&invocation.context, out.path(), format, |path| {
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

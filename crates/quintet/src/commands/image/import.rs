//! `import`: stores a disk image: a raw one directly, other formats through qemu, exports of NBD
//! servers, standard input. [`super`] calls this.
//!
//! Invariant: an image is taken for unchanged only if none of the files that it consists of has
//! changed, and it is read in the same way. One that changed during the import, or that lacks
//! parts, is stored and reported, and is read again by the next import.

use super::super::unfinished;
use crate::commands::full;
use crate::commands::invocation::{Invocation, done_or_partly};
use crate::commands::known_snapshots::KnownSnapshots;
use crate::commands::new_snapshot::{Identity, commit, is_the_same, skip, summary};
use crate::progress::ArchiveProgress;
use anyhow::{Context, anyhow, bail};
use archive::ArchiveError;
use archive::backup::TreeOutcome;
use archive::image::{
    HEAD_BYTES, ImageKind, PipeStream, RawImage, import_image, import_stream, of_start, signature,
};
use command_line::ImportArgs;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use image_sources::{From, Original};
use std::io::Read;
use std::time::Instant;
use store::{IMAGE_REGION_BYTES, LaneOptions, OpenMode, WriteSession};
use terminal::exit::Exit;
use terminal::sizes;
use units::count;

/// log2 of the chunk size of imported images, bytes: see `docs/decisions/` on chunk sizes.
const IMAGE_CHUNK_LOG2: u8 = 14;
/// Unreadable ranges that are listed.
const LISTED_MAX: usize = 100;

/// Runs `import`.
pub(in crate::commands) fn run(invocation: &Invocation, args: &ImportArgs) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let region_bytes = args.region_size.unwrap_or(IMAGE_REGION_BYTES);
    let lane = invocation.lane(args.compression.as_deref(), region_bytes)?;
    let original = image_sources::examine(invocation, args)?;
    let before = signature_of(args, &original, region_bytes)?;
    let pool = invocation.open(if args.dry_run {
        OpenMode::Read
    } else {
        OpenMode::Write
    })?;
    let (host, time) = (args.host.as_deref(), args.time.as_deref());
    let identity = Identity::new(invocation, &pool, host, time, &args.tag)?;
    let known = KnownSnapshots::of(invocation, &pool)?;
    known.expect_free(SnapshotKind::Image, &args.name)?;
    let parent = known
        .iter()
        .rfind(|s| s.kind == SnapshotKind::Image && s.name == args.name && s.host == identity.host);
    let is_as_before =
        |p: &Snapshot| p.signature == before && pool.reader().is_believed_whole(&p.root);
    let unchanged = !args.force && !before.is_empty() && parent.is_some_and(is_as_before);
    expect_whole(invocation, args, &original)?;
    if args.dry_run {
        let what = if unchanged {
            "did not change"
        } else {
            "would be read"
        };
        let line = format!("{}: {what}", args.image.display());
        invocation.console.line(line)?;
        return Ok(Exit::Done);
    }
    let progress = invocation.progress_shown("importing", args.progress);
    let progress = progress.limited(args.limit);
    let mut session = pool.begin(lane)?;
    let stored = match parent.filter(|_| unchanged) {
        Some(parent) => Ok((parent.root, 0)),
        None => store(invocation, args, &original, (&mut session, lane), &progress),
    };
    let (root, bad) = match stored {
        Ok(stored) => stored,
        Err(e) => {
            unfinished::end(invocation, session);
            return Err(full::explained(&pool, e));
        }
    };
    // An image that cannot be examined again counts as changed.
    let after = signature_of(args, &original, region_bytes);
    let changed = !before.is_empty() && after.ok().as_ref() != Some(&before);
    let lacks = bad > 0 || original.damage.is_some();
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Image, root);
    snapshot.name = args.name.clone();
    snapshot.files = 1;
    snapshot.missed.unread = u64::from(lacks);
    if changed {
        progress.warn_changed(&args.image);
        snapshot.missed.changed = 1;
    } else if !lacks {
        snapshot.signature = before;
    }
    snapshot.parent = parent.map(|p| p.id).unwrap_or_default();
    let outcome = TreeOutcome {
        files: 1,
        bytes: root.len,
        files_unchanged: u64::from(unchanged),
        failures: u64::from(lacks),
        changed_while_read: u64::from(changed),
        ..TreeOutcome::default()
    };
    if let Some(parent) = parent.filter(|_| args.skip_if_unchanged)
        && is_the_same(&pool, parent, &snapshot)
    {
        drop(progress);
        return skip(invocation, session, parent, (&outcome, started));
    }
    let (snapshot, counts) = commit(&invocation.console, &pool, session, snapshot, started)?;
    drop(progress);
    if unchanged {
        let why = "the image did not change; --force reads it again";
        invocation.console.note(why);
    }
    summary(&invocation.console, &snapshot, &outcome, &counts)?;
    Ok(done_or_partly(u64::from(changed || lacks)))
}

/// Returns the signature of the image. Empty if it may have changed without a trace.
fn signature_of(
    args: &ImportArgs,
    original: &Original,
    region_bytes: usize,
) -> anyhow::Result<Vec<u8>> {
    let Some(files) = &original.files else {
        return Ok(Vec::new());
    };
    let how = format!(
        "{} {region_bytes} {IMAGE_CHUNK_LOG2} {}",
        original.format.name(),
        args.compression.as_deref().unwrap_or_default(),
    );
    Ok(signature(files, &how)?)
}

/// Refuses a damaged image, unless the user wants what is left of it.
fn expect_whole(
    invocation: &Invocation,
    args: &ImportArgs,
    original: &Original,
) -> anyhow::Result<()> {
    let Some(damage) = &original.damage else {
        return Ok(());
    };
    let is_damaged = format!("{} is damaged: {damage}", args.image.display());
    if !args.allow_damaged {
        bail!("{is_damaged}; copy it again, or store what is left of it with --allow-damaged");
    }
    invocation.console.warn(is_damaged);
    Ok(())
}

/// Reads the image. Returns its root and the number of bytes that could not be read.
fn store(
    invocation: &Invocation,
    args: &ImportArgs,
    original: &Original,
    (session, lane): (&mut WriteSession, LaneOptions),
    progress: &ArchiveProgress,
) -> anyhow::Result<(ObjectRoot, u64)> {
    let (context, path) = (&invocation.context, &args.image);
    let image = match &original.from {
        From::Input => return store_input(invocation, args, (session, lane), progress),
        From::File => RawImage::open(path, args.skip_bad_sectors)?,
        From::Nbd(address) => {
            let (bytes, len) = image_sources::open(address, &context.interrupt)?;
            RawImage::of(bytes, path, len, args.skip_bad_sectors)
        }
        From::Qemu => {
            let (shown, bytes, len) = image_sources::show(context, path, original.format)?;
            let skips = args.skip_bad_sectors || args.allow_damaged;
            let image = RawImage::of(bytes, path, len, skips);
            let stored = store_image(invocation, image, (session, lane), progress);
            let failure = shown.failure(context);
            return stored.map_err(|e| match failure {
                // A stop request has ended both.
                Some(why) if !invocation.interrupt.requested() => e.context(format!("{why:#}")),
                _ => e,
            });
        }
    };
    store_image(invocation, image, (session, lane), progress)
}

/// Reads standard input to its end.
fn store_input(
    invocation: &Invocation,
    args: &ImportArgs,
    (session, lane): (&mut WriteSession, LaneOptions),
    progress: &ArchiveProgress,
) -> anyhow::Result<(ObjectRoot, u64)> {
    let mut input = invocation.context.input()?;
    let mut head = Vec::new();
    let read = (&mut input).take(HEAD_BYTES).read_to_end(&mut head);
    read.context("cannot read standard input")?;
    if head.is_empty() {
        bail!(
            "standard input is empty or closed, as if the program before the pipe had failed; nothing was stored. \
             See what that program says"
        );
    }
    match of_start(&head) {
        Some(kind) if kind != ImageKind::Luks && args.format.is_none() => bail!(
            "standard input is a {name} image, whose parts are in no order; save it in a file and import that, or \
             store its own bytes with -f raw",
            name = kind.name()
        ),
        _ => {}
    }
    let stream = PipeStream {
        reader: head.as_slice().chain(input),
        name: "standard input".to_owned(),
    };
    let (log2, workers) = (IMAGE_CHUNK_LOG2, invocation.workers());
    let root = import_stream(session, stream, log2, lane, workers, progress)?;
    Ok((root, 0))
}

fn store_image(
    invocation: &Invocation,
    mut image: RawImage,
    (session, lane): (&mut WriteSession, LaneOptions),
    progress: &ArchiveProgress,
) -> anyhow::Result<(ObjectRoot, u64)> {
    let workers = invocation.workers();
    let stored = import_image(
        session,
        &mut image,
        IMAGE_CHUNK_LOG2,
        lane,
        workers,
        progress,
    );
    let (bad, path) = (image.bad(), image.path());
    let root = match stored {
        Err(ArchiveError::Source(e)) if bad.bytes() > 0 => {
            return Err(anyhow!(
                "{e}; save what the disk can still read with --skip-bad-sectors"
            ));
        }
        stored => stored?,
    };
    if bad.bytes() > 0 && bad.bytes() == image.len {
        bail!(
            "nothing of {} can be read; nothing was stored",
            path.display()
        );
    }
    let (shown, ranges) = (path.display(), bad.ranges());
    for range in ranges.iter().take(LISTED_MAX) {
        let len = count(range.end - range.start, "byte");
        invocation.console.warn(format_args!(
            "{shown}: cannot read {len} at byte {}; zeroes are stored there",
            range.start
        ));
    }
    if ranges.len() > LISTED_MAX {
        invocation.console.warn(format_args!(
            "{shown}: cannot read {} more; in all {} are stored as zeroes",
            count((ranges.len() - LISTED_MAX) as u64, "range"),
            sizes::display(bad.bytes()),
        ));
    }
    Ok((root, bad.bytes()))
}

//! `import`: stores a disk image, a raw one directly, other formats through qemu-img. [`super`]
//! calls this.
//!
//! Invariant: an image is taken for unchanged only if none of the files that it consists of has
//! changed, and it is read in the same way. One that changed during the import, or that lacks
//! parts, is stored and reported, and is read again by the next import.

use super::super::unfinished;
use super::qemu::{self, TemporaryRaw};
use super::source::{self, Original};
use crate::commands::full;
use crate::commands::invocation::{Invocation, done_or_partly};
use crate::commands::known_snapshots::KnownSnapshots;
use crate::commands::new_snapshot::{Identity, commit, summary};
use crate::progress::Progress;
use anyhow::{anyhow, bail};
use archive::ArchiveError;
use archive::backup::TreeOutcome;
use archive::image::{RawImage, import_image, signature};
use command_line::{ImageFormat, ImportArgs};
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
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
    let original = source::examine(invocation, args)?;
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
    // Other formats are converted to a temporary raw file first.
    let is_converted = !unchanged && original.format != ImageFormat::Raw;
    let converted = is_converted
        .then(|| convert(invocation, args, original.format))
        .transpose()?;
    let mut session = pool.begin(lane)?;
    let stored = match parent.filter(|_| unchanged) {
        Some(parent) => Ok((parent.root, 0)),
        None => {
            let raw = converted.as_ref().map(|(raw, _)| raw);
            store(invocation, args, raw, (&mut session, lane), &progress)
        }
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
    let salvaged = converted.is_some_and(|(_, salvaged)| salvaged);
    let lacks = bad > 0 || salvaged || original.damage.is_some();
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

/// Converts the image to a raw file. Also returns whether parts could not be read.
fn convert(
    invocation: &Invocation,
    args: &ImportArgs,
    format: ImageFormat,
) -> anyhow::Result<(TemporaryRaw, bool)> {
    let salvages = args.skip_bad_sectors || args.allow_damaged;
    let (raw, said) = qemu::to_raw(&invocation.context, &args.image, format, salvages)?;
    for line in said.lines().take(LISTED_MAX) {
        invocation.console.warn(line);
    }
    // It says nothing else of a conversion that succeeds.
    Ok((raw, salvages && said.contains("error while reading")))
}

/// Reads the image. Returns its root and the number of bytes that could not be read.
fn store(
    invocation: &Invocation,
    args: &ImportArgs,
    raw: Option<&TemporaryRaw>,
    (session, lane): (&mut WriteSession, LaneOptions),
    progress: &Progress,
) -> anyhow::Result<(ObjectRoot, u64)> {
    let path = raw.map_or_else(|| args.image.clone(), TemporaryRaw::path);
    let mut image = RawImage::open(&path, args.skip_bad_sectors)?;
    let workers = invocation.workers();
    let stored = import_image(
        session,
        &mut image,
        IMAGE_CHUNK_LOG2,
        lane,
        workers,
        progress,
    );
    let bad = image.bad();
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

//! Gives the pool of a server its fast tier (`--fast`). `pool` calls this.
//!
//! Invariant: a directory that is missing or fails later is a slower server, never an error. Only a
//! wrong size is one, because the user must decide.

use crate::commands::invocation::Invocation;
use anyhow::bail;
use command_line::{FastShares, JournalOn, ServeArgs};
use device::{Patience, PatientDisk};
use format::journal_place::JournalPlace;
use media::{Disk, LocalDisk};
use server::memory_plan::MemoryPlan;
use ssd_tier::{KindShares, TierOptions, TierSettings};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::Pool;
use terminal::sizes;
use volumes::{JournalPlacement, Volumes};

/// Room that an index gets besides its size: it doubles when it grows.
const INDEX_GROWTH: u64 = 2;
/// Smallest room for the copy of an index, bytes.
const INDEX_BYTES_MIN: u64 = 2 << 20;
/// Smallest tier, bytes.
const FAST_BYTES_MIN: u64 = 64 << 20;
/// A read that takes longer is given up: the pool answers it, and the tier is off for a while. No
/// SSD that works takes so long, not on a busy machine either, and no client gives up so soon.
const PATIENCE: Patience = Patience {
    reads: Duration::from_secs(3),
    others: Duration::from_secs(20),
};

/// Refuses a directory that is in the pool or contains it: the commands of one would see, count and
/// delete the files of the other.
pub(super) fn check(args: &ServeArgs, pool: &Path) -> anyhow::Result<()> {
    if args.journal_mirror && args.journal_on != Some(JournalOn::Fast) {
        bail!("invalid --journal-mirror: it belongs to --journal-on fast");
    }
    let Some(directory) = &args.fast else {
        if args.journal_on == Some(JournalOn::Fast) {
            bail!("invalid --journal-on fast: give its directory with --fast");
        }
        return Ok(());
    };
    let wanted = std::path::absolute(directory)?;
    let remedy = "give a directory apart from the pool, on a faster disk";
    if is_within(&wanted, pool) {
        bail!(
            "invalid --fast {}: it is in the pool {}; {remedy}",
            directory.display(),
            pool.display()
        );
    }
    if wanted.is_dir() && is_within(pool, &wanted) {
        bail!(
            "invalid --fast {}: the pool {} is in it; {remedy}",
            directory.display(),
            pool.display()
        );
    }
    Ok(())
}

/// Returns true if `inner` is the directory `outer` or lies in it, by links and bind mounts too.
/// The end of `inner` may be missing.
fn is_within(inner: &Path, outer: &Path) -> bool {
    let existing = inner.ancestors().find(|at| at.is_dir());
    let inner = existing.and_then(|at| at.canonicalize().ok());
    let (Some(inner), Ok(outer)) = (inner, outer.metadata()) else {
        return false;
    };
    let is_outer = |at: &Path| {
        let found = at.metadata();
        found.is_ok_and(|found| (found.dev(), found.ino()) == (outer.dev(), outer.ino()))
    };
    inner.ancestors().any(is_outer)
}

pub(super) fn attach(
    invocation: &Invocation,
    args: &ServeArgs,
    pool: &Pool,
    memory: &MemoryPlan,
) -> anyhow::Result<()> {
    let (Some(directory), Some(bytes)) = (&args.fast, args.fast_size) else {
        return Ok(());
    };
    if bytes < FAST_BYTES_MIN {
        bail!("invalid --fast-size: it is at least 64M");
    }
    let directory = std::path::absolute(directory)?;
    if let Some(why) = doubt(&directory, bytes, invocation.settings.pool()?) {
        invocation.console.warn(why);
    }
    let index_bytes = index_room(bytes, args.fast_shares, pool.index_bytes());
    let options = TierOptions::new(bytes - index_bytes, memory.tier as u64);
    let settings = TierSettings::new(kinds(args.fast_shares));
    let disk = PatientDisk::new(Arc::new(LocalDisk::new(directory)), PATIENCE);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    if index_bytes > 0 {
        pool.use_fast_index(Arc::clone(&disk), index_bytes);
    }
    let tier = pool.use_fast_tier(disk, options, settings);
    if tier.memory_bytes() > memory.tier as u64 {
        let needed = sizes::display(4 * tier.memory_bytes());
        bail!("too little memory for --fast: use --memory {needed} or more");
    }
    Ok(())
}

/// Returns the room for the copy of the index: its share, or what it may need, if that is less. The
/// rest is the other kinds'.
fn index_room(bytes: u64, shares: FastShares, index_bytes: u64) -> u64 {
    let share = bytes / 100 * u64::from(shares.index.hundredths());
    let needed = index_bytes.saturating_mul(INDEX_GROWTH);
    share.min(needed.max(INDEX_BYTES_MIN))
}

/// Returns the shares of what the index leaves.
fn kinds(shares: FastShares) -> KindShares {
    KindShares {
        data: shares.data,
        recipes: shares.recipes,
        directories: shares.directories,
    }
}

/// Opens the volumes, with the journal where it is or shall be, and says what losing the device
/// would cost.
pub(super) fn open_volumes(
    invocation: &Invocation,
    args: &ServeArgs,
    pool: Pool,
    memory: &MemoryPlan,
) -> anyhow::Result<Volumes> {
    let directory = args.fast.as_ref().map(std::path::absolute).transpose()?;
    let placement = JournalPlacement {
        fast: directory.map(|directory| Arc::new(LocalDisk::new(directory)) as _),
        wanted: args.journal_on.map(|on| match on {
            JournalOn::Pool => JournalPlace::Pool,
            JournalOn::Fast if args.journal_mirror => JournalPlace::Mirrored,
            JournalOn::Fast => JournalPlace::Fast,
        }),
        device_lost: args.journal_lost,
    };
    let volumes = invocation.volumes_of(pool, Some((memory, args.journal, &placement)))?;
    if volumes.journal_usage().place == JournalPlace::Fast {
        invocation.console.note(
            "the journal is on the fast device only: losing it loses acknowledged writes that are not in \
             containers yet (--journal-mirror keeps a copy in the pool)",
        );
    }
    Ok(volumes)
}

/// Returns why a fast tier of this size in this directory will not help, if that is known.
fn doubt(directory: &Path, bytes: u64, pool: &Path) -> Option<String> {
    // One that is not there may be mounted later.
    let directory = directory.ancestors().find(|at| at.is_dir())?;
    let own = directory.metadata().ok()?;
    if pool.metadata().is_ok_and(|pool| pool.dev() == own.dev()) {
        return Some(format!(
            "--fast {} is on the same file system as the pool, so it is not faster and takes its \
             space; give a directory on a faster disk",
            directory.display()
        ));
    }
    let found = rustix::fs::statvfs(directory).ok()?;
    let disk_bytes = found.f_blocks.saturating_mul(found.f_frsize);
    (bytes > disk_bytes).then(|| {
        format!(
            "--fast-size {} is more than the whole file system of {}, which has {}; give less",
            sizes::display(bytes),
            directory.display(),
            sizes::display(disk_bytes)
        )
    })
}

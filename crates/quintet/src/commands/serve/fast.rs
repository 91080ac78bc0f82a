//! Gives the pool of a server its fast tier (`--fast`). `pool` calls this.
//!
//! Invariant: a directory that is missing or fails later is a slower server, never an error. Only a
//! wrong size is one, because the user must decide.

use crate::commands::invocation::Invocation;
use crate::settings::FastPlace;
use anyhow::bail;
use command_line::{FastShares, JournalOn, ServeArgs};
use format::journal_place::JournalPlace;
use media::LocalDisk;
use server::fast_device;
use server::memory_plan::MemoryPlan;
use server::state::VolumesWanted;
use ssd_tier::{KindShares, TierOptions, TierSettings};
use std::sync::Arc;
use store::Pool;
use terminal::sizes;
use volumes::{JournalPlacement, Switches, Volumes};

/// Smallest tier, bytes.
const FAST_BYTES_MIN: u64 = 64 << 20;

/// Returns the fast device: that of the options, or else of the environment.
pub(super) fn place(invocation: &Invocation, args: &ServeArgs) -> Option<FastPlace> {
    let given = args.fast.clone().zip(args.fast_size);
    let given = given.map(|(directory, bytes)| FastPlace { directory, bytes });
    given.or_else(|| invocation.settings.fast.clone())
}

/// Refuses a directory that is in the pool or contains it: the commands of one would see, count and
/// delete the files of the other.
pub(super) fn check(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<()> {
    let pool = invocation.settings.pool()?;
    if args.journal_mirror && args.journal_on != Some(JournalOn::Fast) {
        bail!("invalid --journal-mirror: it belongs to --journal-on fast");
    }
    let Some(FastPlace { directory, .. }) = &place(invocation, args) else {
        if args.journal_on == Some(JournalOn::Fast) {
            bail!("invalid --journal-on fast: give its directory with --fast");
        }
        return Ok(());
    };
    let wanted = std::path::absolute(directory)?;
    if wanted.exists() && !wanted.is_dir() {
        bail!(
            "invalid --fast {}: it is no directory; of a device, make a file system on it, mount that, and give a \
             directory there",
            directory.display()
        );
    }
    let remedy = "give a directory apart from the pool, on a faster disk";
    if fast_device::is_within(&wanted, pool) {
        bail!(
            "invalid --fast {}: it is in the pool {}; {remedy}",
            directory.display(),
            pool.display()
        );
    }
    if wanted.is_dir() && fast_device::is_within(pool, &wanted) {
        bail!(
            "invalid --fast {}: the pool {} is in it; {remedy}",
            directory.display(),
            pool.display()
        );
    }
    Ok(())
}

pub(super) fn attach(
    invocation: &Invocation,
    args: &ServeArgs,
    pool: &Pool,
    memory: &MemoryPlan,
) -> anyhow::Result<()> {
    let Some(FastPlace { directory, bytes }) = place(invocation, args) else {
        return Ok(());
    };
    if bytes < FAST_BYTES_MIN {
        bail!("invalid --fast-size: it is at least 64M");
    }
    let directory = std::path::absolute(directory)?;
    if let Some(why) = fast_device::doubt(&directory, bytes, invocation.settings.pool()?) {
        invocation.console.warn(why);
    }
    let index_bytes = fast_device::index_room(bytes, args.fast_shares.index, pool.index_bytes());
    let options = TierOptions::new(bytes, memory.tier as u64).without(index_bytes);
    let settings = TierSettings::new(kinds(args.fast_shares));
    let disk = fast_device::disk(directory);
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

/// Returns the decisions that are on.
fn switches(without: &[String]) -> anyhow::Result<Switches> {
    let mut switches = Switches::default();
    for name in without {
        if !switches.turn_off(name) {
            let known = Switches::names().join(", ");
            bail!("invalid --without {name}: it is one of {known}");
        }
    }
    Ok(switches)
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
    let device = place(invocation, args);
    let directory = device.map(|device| std::path::absolute(device.directory));
    let directory = directory.transpose()?;
    let placement = JournalPlacement {
        fast: directory.map(|directory| Arc::new(LocalDisk::new(directory)) as _),
        wanted: args.journal_on.map(|on| match on {
            JournalOn::Pool => JournalPlace::Pool,
            JournalOn::Fast if args.journal_mirror => JournalPlace::Mirrored,
            JournalOn::Fast => JournalPlace::Fast,
        }),
        device_lost: args.journal_lost,
    };
    let switches = switches(&args.without)?;
    let off: Vec<_> = switches.off().collect();
    if !off.is_empty() {
        let off = off.join(", ");
        invocation.console.note(format_args!("switched off: {off}"));
    }
    let wanted = VolumesWanted {
        journal_bytes: args.journal,
        placement,
        switches,
    };
    let volumes = invocation.volumes_of(pool, Some((memory, &wanted)))?;
    if volumes.journal_usage().place == JournalPlace::Fast {
        invocation.console.note(
            "the journal is on the fast device only: losing it loses acknowledged writes that are not in \
             containers yet (--journal-mirror keeps a copy in the pool)",
        );
    }
    Ok(volumes)
}

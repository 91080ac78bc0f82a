//! `mount`: snapshots as files, until somebody unmounts them.
//!
//! Invariant: what is shown is what the newest commit at the start held. Ends in good order, with
//! exit code 0, when it is unmounted by whomever, and on SIGINT and SIGTERM; files that are open then
//! stay readable until they are closed.

use super::invocation::Invocation;
use super::snapshot_choice::SnapshotFilter;
use crate::cli::MountArgs;
use crate::console::printable;
use crate::exit::Exit;
use crate::json::Object;
use crate::mount::{PoolFiles, Source};
use crate::systemd::Notifier;
use anyhow::{Context, bail};
use format::snapshot::Snapshot;
use fuse::{FixedVolumes, MountError, MountOptions, Session, SessionOptions, Unmounter};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{OpenMode, Pool, StoreError};

/// Part of the memory that directories get.
const DIRECTORIES_SHARE: usize = 16;

pub(super) fn run(invocation: &Invocation, args: &MountArgs) -> anyhow::Result<Exit> {
    let mountpoint = mountpoint(invocation.settings.pool()?, &args.mountpoint)?;
    let memory_bytes = invocation.settings.memory_bytes;
    let directory_bytes_max = memory_bytes / DIRECTORIES_SHARE;
    let pool = invocation.open_within(OpenMode::Read, memory_bytes - directory_bytes_max)?;
    let snapshots = snapshots(invocation, args, &pool)?;
    let source = Source {
        reader: pool.reader(),
        snapshots: &snapshots,
        zone: &invocation.zone,
        stored_bytes: pool.record().stored_bytes,
        directory_bytes_max,
    };
    let console = Arc::clone(&invocation.console);
    let tell = move |path: &[u8], error: &StoreError| {
        console.warn(format_args!("{}: {error}", printable(path)));
    };
    let volumes = Arc::new(FixedVolumes::default());
    let files = Arc::new(PoolFiles::new(&source, volumes, Box::new(tell)));
    let enforce = args.allow_other && !args.no_default_permissions;
    let options = MountOptions {
        name: "quintet".to_owned(),
        read_only: true,
        allow_other: args.allow_other,
        enforce_permissions: enforce,
    };
    let where_to = || format!("cannot mount at {}", mountpoint.display());
    let mounted = fuse::mount(&mountpoint, &options).with_context(where_to)?;
    let options = SessionOptions {
        writes: false,
        enforce_acls: enforce,
        ..SessionOptions::default()
    };
    let session = Session::start(mounted.device, Arc::clone(&files) as Arc<_>, &options);
    let session = session.inspect_err(|_| {
        // What nobody serves must not stay.
        let _ = mounted.unmounter.unmount(true);
    })?;
    announce(invocation, &mountpoint, snapshots.len())?;
    serve(invocation, session, &mounted.unmounter, &|| {
        let counts = pool.read_counts();
        let places = files.places();
        format!("{places} directories known to the kernel, {counts:?}")
    })?;
    Ok(Exit::Done)
}

/// The snapshots to show, oldest first. What cannot be read is told and left out.
fn snapshots(
    invocation: &Invocation,
    args: &MountArgs,
    pool: &Pool,
) -> anyhow::Result<Vec<Snapshot>> {
    let filter = SnapshotFilter::new(&args.filter)?;
    let (mut snapshots, damage) = pool.snapshots_readable()?;
    if let Some(damage) = damage {
        let console = &invocation.console;
        console.warn(format_args!("some snapshots are not shown: {damage}"));
    }
    snapshots.retain(|snapshot| filter.matches(snapshot));
    Ok(snapshots)
}

/// The directory to mount at. Over the pool, or what it is in, we would wait for ourselves.
fn mountpoint(pool: &Path, given: &Path) -> anyhow::Result<PathBuf> {
    let describe = || given.display().to_string();
    let mountpoint = given.canonicalize().with_context(describe)?;
    let own = mountpoint.metadata().with_context(describe)?;
    if !own.is_dir() {
        bail!("{} is not a directory", given.display());
    }
    // A pool that is not there is reported when it is opened.
    let Ok(pool) = pool.canonicalize() else {
        return Ok(mountpoint);
    };
    if pool.ancestors().any(|above| is_same(above, &own)) {
        bail!("the pool is in {}: it would be hidden", given.display());
    }
    let hit = pool
        .metadata()
        .with_context(|| pool.display().to_string())?;
    if mountpoint.ancestors().any(|above| is_same(above, &hit)) {
        bail!("{} is in the pool", given.display());
    }
    Ok(mountpoint)
}

fn is_same(path: &Path, as_this: &Metadata) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|m| (m.dev(), m.ino()) == (as_this.dev(), as_this.ino()))
}

fn announce(invocation: &Invocation, mountpoint: &Path, count: usize) -> anyhow::Result<()> {
    let console = &invocation.console;
    let path = mountpoint.display().to_string();
    console.message(
        Object::message("mounted")
            .text("mountpoint", &path)
            .integer("snapshots", count as u64),
    )?;
    console.line(format!("{count} snapshots are in {path}/snapshots"))?;
    console.flush()?;
    console.note("end with Ctrl-C, or unmount it");
    Notifier::of(&invocation.caller.environment)?.say("READY=1");
    Ok(())
}

/// Waits until the file system is unmounted, and unmounts it when a signal says so.
fn serve(
    invocation: &Invocation,
    session: Session,
    unmounter: &Unmounter,
    report: &dyn Fn() -> String,
) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1]).context("signals")?;
    let handle = signals.handle();
    std::thread::scope(|scope| {
        let served = scope.spawn(move || {
            let ended = session.wait();
            handle.close();
            ended
        });
        // One may have come before.
        if invocation.interrupt.requested() {
            unmount(invocation, unmounter);
        }
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                invocation.interrupt.take_report_request();
                invocation.console.note(report());
            } else {
                unmount(invocation, unmounter);
            }
        }
        match served.join() {
            Ok(ended) => Ok(ended?),
            Err(_) => bail!("the session ended unexpectedly"),
        }
    })
}

/// Unmounts as soon as may be. When that fails, files stay served: a second signal ends the process.
fn unmount(invocation: &Invocation, unmounter: &Unmounter) {
    let console = &invocation.console;
    let done = match unmounter.unmount(false) {
        Err(MountError::Busy) => {
            console.warn("files are in use: ending when they are closed, or at the next Ctrl-C");
            unmounter.unmount(true)
        }
        done => done,
    };
    if let Err(e) = done {
        console.warn(format_args!("cannot unmount: {e}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_never_hidden() {
        let top = tempfile::tempdir().unwrap();
        let at = |path: &str| top.path().join(path);
        std::fs::create_dir_all(at("srv/pool/containers")).unwrap();
        std::fs::create_dir_all(at("mnt")).unwrap();
        std::fs::write(at("file"), b"").unwrap();
        std::os::unix::fs::symlink("srv", at("link")).unwrap();
        let pool = at("srv/pool");
        for refused in [
            "srv",
            "srv/pool",
            "srv/pool/containers",
            ".",
            "link",
            "link/pool",
        ] {
            assert!(mountpoint(&pool, &at(refused)).is_err(), "{refused}");
        }
        assert!(mountpoint(&pool, &at("file")).is_err());
        assert!(mountpoint(&pool, &at("nowhere")).is_err());
        assert!(mountpoint(&pool, &at("mnt")).is_ok());
        assert!(mountpoint(&at("no-pool"), &at("mnt")).is_ok());
    }
}

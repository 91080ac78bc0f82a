//! One mount: started, served by threads of its own, ended.
//!
//! Invariant: what nobody serves does not stay mounted, and a place where somebody else has mounted
//! since is left alone. `mount` and `serve` start and end this.

use super::guard::Guard;
use super::place::mountpoint;
use crate::commands::invocation::Invocation;
use crate::commands::snapshot_choice::SnapshotFilter;
use crate::console::{Console, printable};
use anyhow::{Context, bail};
use fuse::{MountError, MountOptions, Session, SessionError, SessionOptions, Unmounter};
use server::held::Held;
use server::mount::{Directories, Disks, PoolFiles, SnapshotList, Source, Which};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use store::{Pool, StoreError};

/// What the user wants.
pub(in crate::commands) struct Settings {
    pub mountpoint: PathBuf,
    pub allow_other: bool,
    /// With `allow_other`: the kernel enforces modes and owners. If not, nobody writes.
    pub enforce: bool,
    pub filter: SnapshotFilter,
}

/// What is shown.
pub(in crate::commands) struct Pools {
    pub pool: Arc<Pool>,
    /// Without it volumes are not shown.
    pub held: Option<Arc<Held>>,
    pub directories: Arc<Directories>,
}

impl Pools {
    /// All that a server holds.
    pub fn held(held: &Arc<Held>) -> Self {
        Self {
            pool: Arc::clone(&held.pool),
            held: Some(Arc::clone(held)),
            directories: Arc::clone(held.directories()),
        }
    }
}

/// See the module's head. Dropping it leaves the mount to the guard.
pub(in crate::commands) struct Mount {
    console: Arc<Console>,
    mountpoint: PathBuf,
    unmounter: Unmounter,
    snapshots: Arc<SnapshotList>,
    /// Says how the session ended.
    ended: Receiver<Result<(), SessionError>>,
    _guard: Guard,
}

impl Mount {
    /// Mounts and serves. `at_end` is called when the session ends, whoever ended it.
    pub fn start(
        invocation: &Invocation,
        settings: &Settings,
        pools: &Pools,
        at_end: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mountpoint = mountpoint(invocation.settings.pool()?, &settings.mountpoint)?;
        let snapshots = snapshot_list(invocation, settings, &pools.pool);
        let files = files(invocation, pools, &snapshots, &mountpoint);
        let enforce = settings.allow_other && settings.enforce;
        let writes = pools.held.is_some() && (enforce || !settings.allow_other);
        let options = MountOptions {
            name: "quintet".to_owned(),
            read_only: !writes,
            allow_other: settings.allow_other,
            enforce_permissions: enforce,
        };
        let where_to = || format!("cannot mount at {}", mountpoint.display());
        let mounted = fuse::mount(&mountpoint, &options).with_context(where_to)?;
        let options = SessionOptions {
            writes,
            enforce_acls: enforce,
            ..SessionOptions::default()
        };
        let started = Guard::start(&mountpoint).map_err(anyhow::Error::from);
        let started = started.and_then(|guard| {
            let session = Session::start(mounted.device, files, &options)?;
            Ok((guard, serve(session, at_end)?))
        });
        let (guard, ended) = started.inspect_err(|_| {
            let _ = mounted.unmounter.unmount(true);
        })?;
        Ok(Self {
            console: Arc::clone(&invocation.console),
            mountpoint,
            unmounter: mounted.unmounter,
            snapshots,
            ended,
            _guard: guard,
        })
    }

    /// Where it is, absolute.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// How many snapshots it shows now.
    pub fn snapshots(&self) -> usize {
        self.snapshots.now().len()
    }

    /// Unmounts, unless somebody has, and waits until all files are closed, at most so long.
    pub fn end(self, limit: Option<Duration>) -> anyhow::Result<()> {
        if let Some(ended) = self.wait(Some(Duration::ZERO))? {
            return Ok(ended?);
        }
        let done = match self.unmounter.unmount(false) {
            Err(MountError::Busy) => {
                let console = &self.console;
                console
                    .warn("files are in use: ending when they are closed, or at the next Ctrl-C");
                self.unmounter.unmount(true)
            }
            done => done,
        };
        if let Err(e) = done {
            let place = self.mountpoint.display();
            self.console
                .warn(format_args!("cannot unmount {place}: {e}"));
        }
        match self.wait(limit)? {
            Some(ended) => Ok(ended?),
            None => {
                let place = self.mountpoint.display();
                self.console
                    .warn(format_args!("files of {place} are still open"));
                Ok(())
            }
        }
    }

    fn wait(&self, limit: Option<Duration>) -> anyhow::Result<Option<Result<(), SessionError>>> {
        let ended = match limit {
            Some(limit) => self.ended.recv_timeout(limit),
            None => self.ended.recv().map_err(RecvTimeoutError::from),
        };
        match ended {
            Ok(ended) => Ok(Some(ended)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the session ended unexpectedly"),
        }
    }
}

/// Waits for the session's end on a thread of its own.
fn serve(
    session: Session,
    at_end: impl FnOnce() + Send + 'static,
) -> std::io::Result<Receiver<Result<(), SessionError>>> {
    let (say, ended) = channel();
    let thread = std::thread::Builder::new().name("mount".to_owned());
    thread.spawn(move || {
        // Who does not wait any more does not mind.
        let _ = say.send(session.wait());
        at_end();
    })?;
    Ok(ended)
}

/// What cannot be read is told and left out.
fn snapshot_list(
    invocation: &Invocation,
    settings: &Settings,
    pool: &Arc<Pool>,
) -> Arc<SnapshotList> {
    let filter = settings.filter.clone();
    let console = Arc::clone(&invocation.console);
    let tell = move |damage: &StoreError| {
        console.warn(format_args!("some snapshots are not shown: {damage}"));
    };
    Arc::new(SnapshotList::new(
        Arc::clone(pool),
        Box::new(move |snapshot| filter.matches(snapshot)),
        Box::new(tell),
    ))
}

fn files(
    invocation: &Invocation,
    pools: &Pools,
    snapshots: &Arc<SnapshotList>,
    mountpoint: &Path,
) -> Arc<PoolFiles> {
    let mount = mountpoint.display().to_string();
    let disks = |which| {
        let (snapshots, held) = (Arc::clone(snapshots), pools.held.clone());
        Arc::new(Disks::new(which, snapshots, held, &mount))
    };
    let source = Source {
        snapshots: Arc::clone(snapshots),
        volumes: disks(Which::Volumes),
        images: disks(Which::Images),
        zone: invocation.zone.clone(),
        directories: Arc::clone(&pools.directories),
        mount: mount.clone(),
    };
    let console = Arc::clone(&invocation.console);
    let tell = move |path: &[u8], error: &StoreError| {
        console.warn(format_args!("{}: {error}", printable(path)));
    };
    Arc::new(PoolFiles::new(source, Box::new(tell)))
}

//! A mount as a user wants it, started with a guard.
//!
//! Invariant: what nobody serves does not stay mounted. Called by `mount` and `serve`.

use super::guard::Guard;
use crate::commands::invocation::Invocation;
use crate::commands::snapshot_choice::SnapshotFilter;
use server::mount::{Mount, MountSettings, Pools};
use server::program::Program;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the user wants.
pub(in crate::commands) struct Settings {
    pub mountpoint: PathBuf,
    pub allow_other: bool,
    /// With `allow_other`: the kernel enforces modes and owners. If not, nobody writes.
    pub enforce: bool,
    pub filter: SnapshotFilter,
}

/// Mounts and serves, with a guard. `at_end` is called when the session ends, whoever ended it.
pub(in crate::commands) fn start(
    invocation: &Invocation,
    settings: &Settings,
    pools: &Pools,
    at_end: impl FnOnce() + Send + 'static,
) -> anyhow::Result<Mount> {
    let filter = settings.filter.clone();
    let program: Arc<dyn Program> = invocation.console.clone();
    let wanted = MountSettings {
        pool: invocation.settings.pool()?,
        mountpoint: &settings.mountpoint,
        allow_other: settings.allow_other,
        enforce: settings.enforce,
        zone: &invocation.zone,
        shows: Box::new(move |snapshot| filter.matches(snapshot)),
    };
    let guard = |mountpoint: &Path| Ok(Box::new(Guard::start(mountpoint)?) as Box<dyn Send>);
    Ok(Mount::start(wanted, pools, &program, guard, at_end)?)
}

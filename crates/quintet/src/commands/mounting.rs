//! Starts a mount with a guard, and reports it. `mount` and `serve` call this.
//!
//! Invariant: a mount that is no longer served does not stay mounted.

use super::guard::Guard;
use super::invocation::Invocation;
use super::program::OnConsole;
use browsing::choice::SnapshotFilter;
use server::mount::{Mount, MountSettings, Pools};
use server::program::Program;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terminal::json::Object;

/// Settings of a mount.
pub(super) struct Settings {
    pub mountpoint: PathBuf,
    /// The mountpoint may have files.
    pub over: bool,
    pub allow_other: bool,
    /// With `allow_other`: the kernel enforces modes and owners. Without it, a mount with
    /// `allow_other` is read-only.
    pub enforce: bool,
    pub filter: SnapshotFilter,
}

/// Mounts and serves, with a guard. `at_end` is called when the session ends for any reason.
pub(super) fn start(
    invocation: &Invocation,
    settings: &Settings,
    pools: &Pools,
    at_end: impl FnOnce() + Send + 'static,
) -> anyhow::Result<Mount> {
    let filter = settings.filter.clone();
    let program: Arc<dyn Program> = Arc::new(OnConsole(Arc::clone(&invocation.console)));
    let wanted = MountSettings {
        pool: invocation.settings.pool()?,
        mountpoint: &settings.mountpoint,
        over: settings.over,
        allow_other: settings.allow_other,
        enforce: settings.enforce,
        zone: &invocation.zone,
        shows: Box::new(move |snapshot| filter.matches(snapshot)),
    };
    let guard = |mountpoint: &Path| Ok(Box::new(Guard::start(mountpoint)?) as Box<dyn Send>);
    Ok(Mount::start(wanted, pools, &program, guard, at_end)?)
}

/// Note for users of `mount`.
pub(super) const HOW_IT_ENDS: &str = "end with Ctrl-C, or unmount the directory";

/// Reports that the files can be used.
pub(super) fn announce(invocation: &Invocation, mount: &Mount) -> anyhow::Result<()> {
    let console = &invocation.console;
    let path = mount.mountpoint().display().to_string();
    let count = mount.snapshots();
    console.message(
        Object::message("mounted")
            .text("mountpoint", &path)
            .integer("snapshots", count as u64),
    )?;
    console.line(format!(
        "volumes, images and {} are in {path}",
        units::count(count as u64, "snapshot")
    ))?;
    console.flush()?;
    Ok(())
}

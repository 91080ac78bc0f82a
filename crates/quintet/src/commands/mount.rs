//! `mount`: shows the pool as files until it is unmounted. [`super::run`] calls this.
//!
//! Invariant: the writer is the process that holds the pool: a server if there is one, or else this
//! process, which then acts as a server. The command ends with exit code 0 when the mount is
//! unmounted, and after SIGINT, SIGTERM or SIGHUP. Open files are then served until they are
//! closed.

mod guard;
mod shown;
#[cfg(test)]
mod tests;

pub(super) use guard::run as guard;
pub(super) use shown::{Settings, start};

use super::invocation::Invocation;
use super::serve;
use super::snapshot_choice::SnapshotFilter;
use command_line::MountArgs;
use server::directories::Directories;
use server::memory_plan::MemoryPlan;
use server::mount::{Mount, Pools};
use server::systemd::Notifier;
use std::sync::Arc;
use std::time::Duration;
use store::OpenMode;
use terminal::exit::Exit;
use terminal::json::Object;

/// A stop request ends the wait. The limit has no meaning of its own.
const LONG: Duration = Duration::from_secs(3600);

pub(super) fn run(invocation: &Invocation, args: &MountArgs) -> anyhow::Result<Exit> {
    let settings = Settings {
        mountpoint: args.mountpoint.clone(),
        over: args.over,
        allow_other: args.allow_other,
        enforce: !args.no_default_permissions,
        filter: SnapshotFilter::new(&args.filter)?,
    };
    let pools = match (invocation.server_state(), args.read_only) {
        (Some(server), _) => Pools::server_state(server),
        (None, false) => return serve::run_for_mount(invocation, &settings),
        (None, true) => {
            let memory_bytes = invocation.settings.memory_bytes;
            let plan = MemoryPlan::of_mount(memory_bytes);
            let pool = invocation.open_within(OpenMode::Read, plan.pool_bytes)?;
            let reader = Arc::clone(pool.reader());
            Pools {
                pool: Arc::new(pool),
                server: None,
                directories: Arc::new(Directories::new(reader, plan.mounts)),
            }
        }
    };
    let ended = invocation.interrupt.clone();
    let mount = start(invocation, &settings, &pools, move || ended.request())?;
    announce(invocation, &mount)?;
    invocation.console.note(HOW_IT_ENDS);
    Notifier::of(&invocation.context.environment)?.say("READY=1");
    while !invocation.interrupt.wait(LONG) {}
    mount.end(None)?;
    Ok(Exit::Done)
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

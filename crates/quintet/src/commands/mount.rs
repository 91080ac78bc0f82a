//! `mount`: shows the pool as files until it is unmounted. [`super::run`] calls this.
//!
//! Invariant: the writer is the process that holds the pool: a server if there is one, or else this
//! process, which then acts as a server. The command ends with exit code 0 when the mount is
//! unmounted, and after SIGINT, SIGTERM or SIGHUP. Open files are then served until they are
//! closed.

#[cfg(test)]
mod tests;

use super::invocation::Invocation;
use super::mounting::{HOW_IT_ENDS, Settings, announce, start};
use super::serve;
use browsing::choice::SnapshotFilter;
use command_line::MountArgs;
use server::directories::Directories;
use server::memory_plan::MemoryPlan;
use server::mount::Pools;
use server::systemd::Notifier;
use std::sync::Arc;
use std::time::Duration;
use terminal::exit::Exit;

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
            let pool = invocation.open_within_with_tier(plan.pool_bytes)?;
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

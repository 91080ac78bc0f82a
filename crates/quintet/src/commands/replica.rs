//! The replica of `scrub`, `repair` and `serve`: another pool, from which lost chunks are stored
//! again. The commands and the server's scrub thread call this.
//!
//! Invariant: the replica is opened once before long work begins, to report errors early. It is
//! opened again when it is needed, because it may have changed since. The store verifies every
//! chunk and does not trust the replica.

use super::invocation::{Invocation, leases_of};
use crate::settings;
use anyhow::{Context, bail};
use command_line::ReplicaArgs;
use qos::Flow;
use replication::{ReplicaCounts, ReplicaRepair};
use server::program::Replica;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{LaneOptions, OpenMode, Pool, StoreErrorKind};
use terminal::console::Console;
use terminal::interrupt::Interrupt;
use terminal::json::Object;
use terminal::sizes;
use units::count;

/// Returns the replica that the user named, if any, after opening it once.
pub(super) fn replica_of(
    invocation: &Invocation,
    args: &ReplicaArgs,
) -> anyhow::Result<Option<Replica>> {
    let environment = &invocation.context.environment;
    let Some(other) = settings::replica(args, environment)? else {
        return Ok(None);
    };
    if other.is_at(invocation.settings.pool()?) {
        let path = other.path.display();
        bail!("{path} is the pool itself; a replica is another pool that quintet copy filled");
    }
    let memory_bytes = invocation.settings.memory_bytes;
    let opened = invocation.open_other(&other, OpenMode::Read, memory_bytes);
    let (_, secret) = opened.context("cannot open the replica")?;
    Ok(Some(Replica {
        path: std::path::absolute(&other.path)?,
        secret,
        memory_bytes,
    }))
}

/// Repairs chunks that `pool` has lost and the replica has, and prints the result. `pool` must be
/// open for writing. A failing replica is a warning, not an error. `between` is called between
/// small steps.
pub(super) fn repair_from(
    replica: &Replica,
    pool: &Arc<Pool>,
    lane: LaneOptions,
    console: &Console,
    interrupt: &Interrupt,
    between: &mut dyn FnMut(),
) -> anyhow::Result<ReplicaCounts> {
    let (mode, memory) = (OpenMode::Read, replica.memory_bytes);
    // `between` may hold an I/O grant of this pool's device, so waiting for the other server has a
    // limit.
    let queue = leases_of(&replica.path, Flow::Scrub, interrupt, true)?;
    let secret = replica.secret.as_ref();
    let opened = match Invocation::open_at(&replica.path, secret, mode, memory, Some(queue)) {
        Ok(opened) => Arc::new(opened),
        Err(e) => {
            console.warn(format_args!(
                "cannot open the replica: {}",
                super::failure::text(&e)
            ));
            return Ok(ReplicaCounts::default());
        }
    };
    let repair = ReplicaRepair::new(Arc::clone(pool), opened)?;
    let go_on = &mut |_: &ReplicaCounts| {
        between();
        match interrupt.requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let counts = match repair.run(lane, go_on) {
        Err(e) if e.kind == StoreErrorKind::Interrupted => {
            interrupt.check()?;
            return Err(e.into());
        }
        counts => counts?,
    };
    tell(replica, &counts, pool.is_dry_run(), console)?;
    Ok(counts)
}

fn tell(
    replica: &Replica,
    counts: &ReplicaCounts,
    is_dry_run: bool,
    console: &Console,
) -> std::io::Result<()> {
    let ReplicaCounts {
        snapshots_common,
        read_bytes,
        chunks,
        bytes,
        missing,
        refused,
        trouble,
    } = counts;
    if let Some(why) = trouble {
        console.warn(format_args!("cannot read the replica: {why}"));
    }
    console.message(
        Object::message("replica")
            .integer("snapshots_common", *snapshots_common)
            .integer("read_bytes", *read_bytes)
            .integer("chunks", *chunks)
            .integer("bytes", *bytes)
            .integer("missing", *missing)
            .integer("refused", *refused),
    )?;
    let path = replica.path.display();
    if *snapshots_common == 0 && *chunks == 0 {
        console.warn(format_args!("{path} contains no snapshot of this pool"));
    }
    if *missing > 0 {
        console.line(format!(
            "lost parts that {path} does not have either: {missing}"
        ))?;
    }
    if *refused > 0 {
        let why = "their contents are not the lost contents";
        console.line(format!(
            "parts of {path} that were refused, because {why}: {refused}"
        ))?;
    }
    let stored = sizes::display(*bytes);
    let would_be = if is_dry_run { "would be " } else { "" };
    console.line(format!(
        "{}, {stored}, {would_be}stored again from {path}",
        count(*chunks, "chunk")
    ))
}

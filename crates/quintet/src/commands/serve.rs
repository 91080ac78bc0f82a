//! `serve`: what is stored, in place, until a signal.
//!
//! Invariant: ends in good order on SIGINT and SIGTERM, with exit code 0; a second signal ends it at
//! once, which loses nothing that was acknowledged as durable.

mod background;
mod defragger;
mod destager;
mod exports;
mod held;
mod reclaimer;
mod snapshots;
mod sockets;
mod verifier;

use super::invocation::Invocation;
use super::mount::Settings;
use super::snapshot_choice::short_id;
use crate::calendar;
use crate::cli::{ServeArgs, ServeCommand};
use crate::exit::Exit;
use crate::json::Object;
use anyhow::Context;
use format::recipe::ObjectRoot;
use format::snapshot::Snapshot;
use jiff::tz::TimeZone;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use store::{ImageVolume, Pool};
use volumes::States;

pub(super) fn run(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Some(ServeCommand::Nbd(args)) => snapshots::run(invocation, args),
        None => held::run(invocation, &args.held),
    }
}

/// As `serve`, with nothing but a mount, until that is unmounted.
pub(super) fn run_for_mount(invocation: &Invocation, settings: &Settings) -> anyhow::Result<Exit> {
    held::run_for_mount(invocation, settings)
}

/// A stored object as a disk. `what` is for people.
fn image_volume(
    pool: &Arc<Pool>,
    snapshot: &Snapshot,
    root: ObjectRoot,
    what: &str,
    zone: &TimeZone,
) -> ImageVolume {
    let description = description(snapshot, what, zone);
    let volume = ImageVolume::new(Arc::clone(pool.reader()), root, description);
    let states = States::beside(Arc::clone(pool), snapshot);
    volume.comparable_with(Arc::new(states))
}

/// What a client hears of a state.
fn description(snapshot: &Snapshot, what: &str, zone: &TimeZone) -> String {
    let time = calendar::local(snapshot.taken, zone);
    format!("{what} of {time}, {}", short_id(snapshot))
}

/// Says that clients can come.
fn announce<'n>(
    invocation: &Invocation,
    places: &[String],
    names: impl Iterator<Item = &'n String> + Clone,
) -> anyhow::Result<()> {
    let console = &invocation.console;
    let first = places.first().map_or("", String::as_str);
    let count = names.clone().count();
    console.message(
        Object::message("serving")
            .text("uri", first)
            .texts("uris", places)
            .texts("exports", names.clone()),
    )?;
    match places {
        [] => console.line("holding the pool")?,
        places => console.line(format!("serving {count} exports at {}", places.join(", ")))?,
    }
    console.flush()?;
    for name in names {
        console.detail(format_args!("export {name}"));
    }
    Ok(())
}

/// The signals that [`wait`] waits for.
fn signals() -> anyhow::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGUSR1]).context("signals")
}

/// Sleeps until a signal ends the server; SIGUSR1 asks how it is.
fn wait(
    invocation: &Invocation,
    mut signals: Signals,
    how_it_is: &dyn Fn() -> String,
) -> anyhow::Result<()> {
    // One may have come before.
    while !invocation.interrupt.requested() {
        if signals.wait().any(|signal| signal != SIGUSR1) {
            break;
        }
        if invocation.interrupt.take_report_request() {
            invocation.console.say(&how_it_is());
        }
    }
    Ok(())
}

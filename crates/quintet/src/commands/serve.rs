//! `serve`: serves what is stored until a signal ends it. [`super::run`] calls this.
//!
//! Invariant: SIGINT, SIGTERM and SIGHUP end it in good order, with exit code 0. A second signal
//! ends it at once, which loses no write that was acknowledged as durable.

mod fast;
mod pool;
mod snapshots;

use super::invocation::Invocation;
use super::mounting::Settings;
use anyhow::Context;
use command_line::ServeArgs;
use format::recipe::ObjectRoot;
use format::snapshot::Snapshot;
use jiff::tz::TimeZone;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use store::{ImageVolume, Pool};
use terminal::exit::Exit;
use terminal::interrupt::stop_signals;
use terminal::json::Object;
use terminal::names::description;
use volumes::States;

pub(super) fn run(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<Exit> {
    match args.read_only {
        true => snapshots::run(invocation, args),
        false => pool::run(invocation, args),
    }
}

/// Like `serve` with only a mount, until that is unmounted.
pub(super) fn run_for_mount(invocation: &Invocation, settings: &Settings) -> anyhow::Result<Exit> {
    pool::run_for_mount(invocation, settings)
}

/// Makes a disk of a stored object. `what` describes it for users.
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

/// Reports that clients can connect.
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
        [] => console.line("serving the pool")?,
        places => console.line(format!(
            "serving {} at {}",
            units::count(count as u64, "export"),
            places.join(", ")
        ))?,
    }
    console.flush()?;
    for name in names {
        console.detail(format_args!("export {name}"));
    }
    Ok(())
}

/// Returns the signals that [`wait`] waits for.
fn signals() -> anyhow::Result<Signals> {
    let signals = stop_signals().into_iter().chain([SIGUSR1]);
    Signals::new(signals).context("cannot receive signals")
}

/// Waits until a signal ends the server. SIGUSR1 prints `how_it_is`.
fn wait(
    invocation: &Invocation,
    mut signals: Signals,
    how_it_is: &dyn Fn() -> String,
) -> anyhow::Result<()> {
    // A signal may have come before the wait.
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

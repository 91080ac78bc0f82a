//! Readers of a pool: registers them, so that `gc` does not delete what they read, and shows them.
//! `Invocation` and `gc` call this.
//!
//! Invariant: every pool that a process opens for reading is opened here, so each reader either has
//! a hold or is warned that it has none.

use clap::CommandFactory;
use command_line::Cli;
use media::Media;
use std::fmt::Display;
use store::{HeldBack, OpenMode, Pool, Result, Unlocked};
use terminal::console::Console;
use terminal::json::Object;
use units::count;

/// Opens a pool. For reading, begins a hold.
pub(super) fn open(
    media: Media,
    unlocked: Unlocked,
    mode: OpenMode,
    memory_bytes: usize,
) -> Result<Pool> {
    match mode {
        OpenMode::Write => Pool::open_unlocked(media, unlocked, mode, memory_bytes),
        OpenMode::Read => Pool::open_holding(media, unlocked, memory_bytes, &label()),
    }
}

/// Returns the name of this reader: command, process and machine.
fn label() -> String {
    let known = Cli::command();
    let verb = std::env::args_os()
        .skip(1)
        .find(|argument| known.find_subcommand(argument).is_some());
    let verb = verb.map_or("quintet".into(), |verb| verb.to_string_lossy().into_owned());
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy();
    format!("{verb}, process {} on {host}", std::process::id())
}

/// Returns the warning for a reader without a hold.
pub(super) fn unheld(why: impl Display) -> String {
    format!(
        "cannot protect the snapshot from gc while it is read: {why}. gc may delete its data \
         after the time in the trash, by default a day"
    )
}

/// Prints which readers keep what in the trash.
pub(super) fn tell(console: &Console, pool: &Pool) -> anyhow::Result<()> {
    for HeldBack {
        reader,
        containers,
        bytes,
        snapshots,
    } in pool.holders().held_back()?
    {
        let seconds = match reader.since.0 {
            0 => None,
            since => Some(pool.now().0.saturating_sub(since).max(0) / 1_000_000_000),
        };
        console.message(
            Object::message("held_by_reader")
                .text("reader", &reader.label)
                .integer("generation", reader.generation.0)
                .integer("seconds", seconds.unwrap_or(0) as u64)
                .integer("containers", containers)
                .integer("bytes", bytes)
                .integer("snapshots", snapshots),
        )?;
        let age = seconds.map_or("an unknown time".to_owned(), |s| format!("{s} s"));
        console.warn(format_args!(
            "{} of {} and {} stay in the trash while a reader needs them: {}; it has been reading commit {} for {age}",
            count(containers, "container"),
            terminal::sizes::display(bytes),
            count(snapshots, "forgotten snapshot"),
            reader.label,
            reader.generation,
        ));
    }
    Ok(())
}

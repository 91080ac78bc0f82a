//! `quintet host`: the page cache and the file systems of this machine. The program calls [`run`];
//! its backups wait for idle disks as these commands do ([`Background`]).
//!
//! Invariant: no file is changed. `defrag run` alone changes where files lie. `scrub` alone opens a
//! pool, to read, and it opens it through [`Pools`]: nothing here knows the program or its server.
//!
//! ```text
//! HostCommand (arguments) --> run --+-- cached, events, doctor, defrag --> linux_host, maintenance
//!                                   +-- scrub --> Pools (the program) and host_scrub
//! ```
#![forbid(unsafe_code)]

mod arguments;
mod background;
mod cached;
mod defrag;
mod doctor;
mod events;
mod pools;
mod refusals;
mod scrub;

pub use arguments::HostCommand;
pub use background::{Background, idle_priority};
pub use pools::{Pools, Snapshots, Stored};

use terminal::exit::Exit;
use terminal::shell::Shell;

/// Runs a command for the user of this shell. `pools` opens the pool that the user named.
pub fn run(shell: &Shell, pools: &dyn Pools, command: &HostCommand) -> anyhow::Result<Exit> {
    match command {
        HostCommand::Cached(args) => cached::run(shell, args),
        HostCommand::Events(args) => events::run(shell, args),
        HostCommand::Doctor(args) => doctor::run(shell, args),
        HostCommand::Scrub(args) => scrub::run(shell, pools, args),
        HostCommand::Defrag(command) => defrag::run(shell, command),
    }
}

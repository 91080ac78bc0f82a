//! The server: its control socket, what a user may tell it, and the words that it shares with the
//! command line.
//!
//! Invariant: nothing here knows a command, a flag, the terminal or an exit code: the program hands
//! over what runs commands ([`control::Commands`]). Errors have kinds. The program `quintet` calls this.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod caller;
pub mod control;
pub mod groups;
pub mod interrupt;
pub mod latest;
pub mod memory_plan;
pub mod settings;
pub mod sizes;
pub mod systemd;

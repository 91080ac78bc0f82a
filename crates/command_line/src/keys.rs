//! Arguments of `key`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Passwords and recovery keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Add a password; every password then opens the pool
    #[command(after_help = "\
Examples:
  quintet key add --label alice
  quintet key add --new-password-file /etc/quintet/second.password")]
    Add(NewKeyArgs),
    /// Make a recovery key and write it to a new file
    #[command(after_help = "\
Example:
  quintet key recovery /media/usb/pool.recovery")]
    Recovery {
        /// The new file
        file: PathBuf,
        /// Label of the key
        #[arg(long, value_name = "TEXT", default_value = "recovery")]
        label: String,
    },
    /// List passwords and recovery keys
    List,
    /// Remove a password or recovery key; the last one stays
    #[command(after_help = "\
Example:
  quintet key remove 3f2a")]
    Remove {
        /// Its name, or the beginning of it, as `key list` shows it
        name: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Replace the password that opens the pool now
    Passwd(NewKeyArgs),
}

/// A new password.
#[derive(Args, Debug)]
pub struct NewKeyArgs {
    /// File whose first line is the new password; without it, the program asks on the terminal
    #[arg(long, value_name = "FILE")]
    pub new_password_file: Option<PathBuf>,
    /// Label of the key; by default the name of the user
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
}

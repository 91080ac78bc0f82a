//! What a user tells a server, as data: variables of the environment, and shares of the device.
//!
//! Invariant: a value that makes no sense is refused with its name and never replaced by a default.
//! The command line has further settings of its own.

mod environment;
mod number;
mod shares;
mod upkeep;

pub use environment::Environment;
pub use number::period_s;
pub use shares::{Shares, flow_name, kind_name};
pub use upkeep::Upkeep;

use std::fmt;

/// Why a setting was refused: its name and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub struct SettingError {
    name: String,
    why: String,
}

impl SettingError {
    /// `name` is a flag or a variable, as the user wrote it.
    pub fn new(name: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            name: name.into(),
            why: why.to_string(),
        }
    }
}

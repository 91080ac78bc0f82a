//! Settings of a server: environment variables, shares of the device and automatic maintenance. The
//! program and the server state call this. The command line has further settings.
//!
//! Invariant: an invalid value is refused with its name and never replaced by a default.

mod environment;
mod number;
mod schedule;
mod shares;

pub use environment::Environment;
pub use number::period_s;
pub use schedule::TaskSchedule;
pub use shares::{Shares, Within, flow_name, kind_name};

use std::fmt;

/// A refused setting: its name and the reason.
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

//! Settings of a server: environment variables, shares of the device and automatic maintenance. The
//! program and the server state call this. The command line has further settings.
//!
//! Invariant: an invalid value is refused with its name and never replaced by a default.

mod number;
mod schedule;
mod shares;

pub use number::{period_s, time_s};
pub use schedule::TaskSchedule;
pub use shares::{Shares, Within, flow_name, kind_name};

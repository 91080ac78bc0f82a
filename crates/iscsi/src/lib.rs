//! Serves any [`volume::Volume`] to iSCSI initiators (RFC 7143) as a SCSI disk.
//!
//! The program calls [`Server`]. [`wire`] contains layouts only, `login` and `scsi` contain
//! decisions over them, `session`, `workers` and `server` move the bytes. Sessions have one
//! connection and error recovery level 0: an initiator that loses its connection logs in again.
//!
//! Invariant: bytes from the network never cause a panic, never allocate more than the limits allow
//! and never reach another session. Volumes are always wrapped in [`volume::Checked`]. Nothing here
//! knows about deduplication.
#![forbid(unsafe_code)]

mod answers;
mod denials;
mod error;
pub mod fuzzing;
mod login;
mod portals;
mod registry;
mod replies;
mod scsi;
mod sender;
mod server;
mod session;
mod stats;
mod targets;
pub mod wire;
mod workers;

pub use connections::{ListenError, ServerLimits, Stats};
pub use error::ServerError;
pub use portals::{Portal, PortalError, Portals};
pub use registry::SharedUnits;
pub use server::{Server, ServerHandle, ServerOptions, TargetCloser};
pub use stats::commands;
pub use targets::{
    Credentials, Denied, EndedSession, FixedTargets, Grant, NAME_BYTES_MAX, ReservationKeeper,
    SECRET_BYTES_MIN, TargetAccess, TargetUnit, Targets, UNITS_MAX, normal_name,
};

//! Says who may use which iSCSI target: the file of `--iscsi-access`, the rules in it, and which of
//! them are in force. `serve` reads the file at its start, a thread of the server again and again.
//!
//! Invariant: only a file that was understood wholly, that others can neither read nor write, and
//! that leaves no served address open to other machines is in force.
//!
//! ```text
//! file (permissions, text) --> rules (parse, check of addresses) --> in_force (what targets ask)
//! ```
#![forbid(unsafe_code)]

mod file;
mod in_force;
mod rules;

pub use file::AccessFile;
pub use in_force::{AccessReader, Found, RulesInForce};
pub use rules::{RulesError, TargetRules, Unprotected};

//! Defines logical units: SCSI commands (SPC-4, SBC-4) over a [`volume::Volume`]. Sessions ask a
//! unit what a command needs, then run it.
//!
//! Invariant: nothing here knows iSCSI. A command is checked in whole before anything of it is
//! done. No command allocates more than its own parameter data, which is small, or needs more
//! data than the limits of the Block Limits page allow.

pub(crate) mod action;
pub(crate) mod admission;
mod attentions;
pub(crate) mod cdb;
pub(crate) mod inquiry;
pub(crate) mod jobs;
pub(crate) mod mode;
pub(crate) mod opcodes;
pub(crate) mod parameters;
mod ranges;
pub(crate) mod reservations;
pub(crate) mod sense;
pub(crate) mod task_set;
#[cfg(test)]
mod tests;
pub(crate) mod unit;

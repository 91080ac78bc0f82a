//! Defines the layouts of iSCSI (RFC 7143): headers of PDUs, text keys, digests. Login and sessions
//! call this.
//!
//! Invariant: nothing here does I/O or panics on any input. Numbers are big-endian.

pub mod digest;
pub mod pdu;
pub mod reject;
pub mod text;

#[cfg(test)]
mod tests;

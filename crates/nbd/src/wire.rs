//! Encodes and decodes the protocol: every layout of the fixed newstyle handshake and of the
//! transmission phase, compact and extended. The negotiation and the sessions call this.
//!
//! Invariant: no I/O. All numbers are big-endian. No input makes a decoder panic or allocate more
//! than the input's own length. Source: the NBD protocol document (doc/proto.md of the NBD project)
//! and its extended headers.

pub mod constants;
pub mod cursor;
pub mod options;
pub mod replies;
pub mod requests;

#[cfg(test)]
mod tests;

//! The bytes of the protocol, and nothing else: every layout of the fixed newstyle handshake and
//! of the transmission phase, compact and extended.
//!
//! Invariant: no I/O here, all numbers are big-endian, and no input makes a decoder panic or
//! allocate more than the input's own length. The negotiation and the sessions call this.
//! Source: the NBD protocol document (doc/proto.md of the NBD project) and its extended headers.

pub mod constants;
pub mod cursor;
pub mod options;
pub mod replies;
pub mod requests;

#[cfg(test)]
mod tests;

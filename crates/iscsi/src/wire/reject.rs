//! Lists the reasons of a Reject PDU (RFC 7143, 11.17.1). Sessions call this.
//!
//! Invariant: a reason exists only if it is sent.

/// Reason why a PDU was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The data has a wrong digest.
    DataDigest = 0x02,
    /// SNACK is not served at error recovery level 0.
    Snack = 0x03,
    /// The initiator broke a rule.
    ProtocolError = 0x04,
    /// The operation is unknown.
    NotSupported = 0x05,
    /// There are too many immediate commands.
    TooManyImmediate = 0x06,
    /// A field has a value that is not allowed.
    InvalidField = 0x09,
}

//! Encodes the minimum time for which forgotten snapshots stay, and the recovery keys that may
//! shorten it. It is one entry of the catalog, so it is sealed and bound to a commit with the
//! catalog. The store calls this.
//!
//! | size | field |
//! |---|---|
//! | 1 | version, 1 |
//! | varint | seconds |
//! | varint | number of keys |
//! | 8 each | ids of key slots |
//!
//! Invariant: the number of keys is bounded.

use crate::bytes::{Reader, Result, Writer};

/// The catalog key.
pub const TRASH_MINIMUM_KEY: &[u8] = b"m";
const WHAT: &str = "minimum trash period";
const VERSION: u8 = 1;
/// Maximum number of keys that may shorten it.
const GUARDS_MAX: u64 = 256;

/// The minimum trash period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrashMinimum {
    /// The shortest trash period that a garbage collection may use.
    pub seconds: u64,
    /// Ids of the recovery keys that may shorten it.
    pub guards: Vec<[u8; 8]>,
}

impl TrashMinimum {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION)
            .varint(self.seconds)
            .varint(self.guards.len() as u64);
        for id in &self.guards {
            w.bytes(id);
        }
        w.0
    }

    /// Decodes the value.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        if r.u8()? != VERSION {
            return r.invalid("version");
        }
        let (seconds, count) = (r.varint()?, r.varint()?);
        if count > GUARDS_MAX {
            return r.invalid("number of keys");
        }
        let guards = (0..count).map(|_| r.array()).collect::<Result<_>>()?;
        r.finish()?;
        Ok(Self { seconds, guards })
    }
}

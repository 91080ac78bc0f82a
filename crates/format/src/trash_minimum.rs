//! How long forgotten snapshots stay at least, and which recovery keys may shorten that: one entry of
//! the catalog, so it is sealed and bound to a commit as all of it is.
//!
//! | size | field |
//! |---|---|
//! | 1 | version, 1 |
//! | varint | seconds |
//! | varint | number of keys |
//! | 8 each | ids of key slots |
//!
//! Invariant: bounded; called by the store.

use crate::bytes::{Reader, Result, Writer};

/// The catalog key.
pub const TRASH_MINIMUM_KEY: &[u8] = b"m";
const WHAT: &str = "minimum trash period";
const VERSION: u8 = 1;
/// Keys that may shorten it, at most.
const GUARDS_MAX: u64 = 256;

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrashMinimum {
    /// The shortest trash period that a collection may have.
    pub seconds: u64,
    /// Ids of the recovery keys that may shorten it.
    pub guards: Vec<[u8; 8]>,
}

impl TrashMinimum {
    /// The value.
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

    /// From the value.
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

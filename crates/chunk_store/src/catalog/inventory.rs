//! The inventory: the list of a pool's containers. Commits write it; check compares it with the
//! disk.
//!
//! Invariant: every container that the commit refers to is listed, so that a missing one is
//! noticed.

use crate::error::{Result, StoreError};
use format::bytes::{FormatError, Reader, Writer};
use format::container::ContainerClass;
use units::ContainerId;

const TAG: u8 = b'c';

/// Catalog entry of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryEntry {
    /// Its number.
    pub id: ContainerId,
    /// Kind of its contents.
    pub class: ContainerClass,
    /// Length of the blob, bytes. 0 for a container that was still open when the entry was made: it
    /// contains the catalog itself.
    pub blob_bytes: u64,
}

/// Returns the catalog key of a container.
pub fn inventory_key(id: ContainerId) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(TAG).bytes(&id.0.to_be_bytes());
    w.0
}

impl InventoryEntry {
    /// Encodes the catalog value.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(self.class as u8).varint(self.blob_bytes);
        w.0
    }
}

/// Decodes an entry. Returns `None` for keys of other kinds.
pub fn parse_inventory(key: &[u8], value: &[u8]) -> Result<Option<InventoryEntry>> {
    let decode = || -> std::result::Result<Option<InventoryEntry>, FormatError> {
        let mut k = Reader::new("inventory entry", key);
        if k.u8()? != TAG {
            return Ok(None);
        }
        let id = ContainerId(u64::from_be_bytes(k.array()?));
        k.finish()?;
        let mut r = Reader::new("inventory entry", value);
        let class = ContainerClass::decode(&mut r)?;
        let blob_bytes = r.varint()?;
        r.finish()?;
        Ok(Some(InventoryEntry {
            id,
            class,
            blob_bytes,
        }))
    };
    decode().map_err(|e| StoreError::corruption(e.what, "catalog", e))
}

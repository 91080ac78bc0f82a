//! Encodes nodes of the catalog: a Merkle B+ tree from byte keys to byte values. A change copies
//! the nodes along its path. Nodes are chunks of recipe containers. The store's catalog calls this.
//!
//! | field | size |
//! |---|---|
//! | `4D`, version, level (0: leaf) | 3 |
//! | count | varint |
//! | leaf: key, value (each with varint length), ascending keys | |
//! | inner: first key of the child (varint length), fingerprint 32 | |
//!
//! Invariant: keys of a decoded node ascend strictly.

use crate::bytes::{Fault, Reader, Result, Writer};
use units::Fingerprint;

const WHAT: &str = "catalog node";
const TAG: u8 = 0x4d;
/// Version of this layout. 1: 2026-11, first.
pub const MAP_VERSION: u8 = 1;
/// Size above which a node is split, bytes.
pub const MAP_NODE_BYTES_MAX: usize = 16 << 10;
/// Maximum level of a tree.
pub const MAP_LEVEL_MAX: u8 = 16;

/// A child of an inner node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapChild {
    /// Smallest key below it.
    pub first_key: Vec<u8>,
    /// The child node.
    pub fingerprint: Fingerprint,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapNode {
    /// Keys and values.
    Leaf(Vec<(Vec<u8>, Vec<u8>)>),
    /// Children of the level below.
    Inner(u8, Vec<MapChild>),
}

impl MapNode {
    /// Encodes the node.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(TAG).u8(MAP_VERSION);
        match self {
            Self::Leaf(entries) => {
                w.u8(0).varint(entries.len() as u64);
                for (key, value) in entries {
                    w.sized(key).sized(value);
                }
            }
            Self::Inner(level, children) => {
                w.u8(*level).varint(children.len() as u64);
                for child in children {
                    w.sized(&child.first_key).bytes(&child.fingerprint.0);
                }
            }
        }
        w.0
    }

    /// Decodes verified chunk bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        if r.u8()? != TAG {
            return Err(r.error(Fault::BadMagic));
        }
        let version = r.u8()?;
        if version != MAP_VERSION {
            return Err(r.error(Fault::Version(version.into())));
        }
        let (level, count) = (r.u8()?, r.varint()?);
        if level > MAP_LEVEL_MAX {
            return r.invalid("level");
        }
        let node = if level == 0 {
            let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for _ in 0..count {
                let (key, value) = (r.sized()?.to_vec(), r.sized()?.to_vec());
                if entries.last().is_some_and(|(last, _)| *last >= key) {
                    return r.invalid("key order");
                }
                entries.push((key, value));
            }
            Self::Leaf(entries)
        } else {
            let mut children: Vec<MapChild> = Vec::new();
            for _ in 0..count {
                let first_key = r.sized()?.to_vec();
                if children
                    .last()
                    .is_some_and(|last| last.first_key >= first_key)
                {
                    return r.invalid("key order");
                }
                children.push(MapChild {
                    first_key,
                    fingerprint: Fingerprint(r.array()?),
                });
            }
            if children.is_empty() {
                return r.invalid("count");
            }
            Self::Inner(level, children)
        };
        r.finish()?;
        Ok(node)
    }
}

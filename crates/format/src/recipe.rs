//! Encodes recipes: Merkle trees from an object's bytes to its chunks. Nodes are chunks themselves
//! and are stored in recipe containers. The store's recipes call this.
//!
//! Invariant: an [`ObjectRoot`] identifies an object's bytes completely. Equal bytes, split
//! equally, have equal roots. A hole (a run of zeroes) is the all-zero fingerprint, at any level.
//!
//! | offset in a node | size | field |
//! |---|---|---|
//! | 0 | 1 | `52` |
//! | 1 | 1 | version |
//! | 2 | 1 | level: 1 points at chunks, n at nodes of level n - 1 |
//! | 3 | 1 | layout: 0 variable, else log2 of the fixed chunk size |
//! | 4 | 4 | count |
//! | 8 | 32 count | fingerprints |
//! | | 8 count | lengths in bytes, in variable layout only |

use crate::bytes::{Fault, Reader, Result, Writer};
use units::Fingerprint;

const WHAT: &str = "recipe node";
const TAG: u8 = 0x52;
/// Version of this layout. 1: 2026-11, first.
pub const RECIPE_VERSION: u8 = 1;
/// Number of children of a full node in fixed layout.
pub const FIXED_FANOUT: usize = 256;
/// Maximum number of children of a node in variable layout.
pub const VARIABLE_FANOUT_MAX: usize = 2048;
/// Maximum level: 2^64 bytes in 4 KiB chunks need seven levels of 256.
pub const LEVEL_MAX: u8 = 8;

/// Division of an object into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Content-defined lengths.
    Variable,
    /// All chunks have this size (log2 of bytes, 12 to 18). The last one is padded with zeroes.
    Fixed(u8),
}

impl Layout {
    fn to_u8(self) -> u8 {
        match self {
            Self::Variable => 0,
            Self::Fixed(log2) => log2,
        }
    }

    fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Variable),
            12..=18 => Some(Self::Fixed(value)),
            _ => None,
        }
    }
}

/// A whole object. Snapshots, files and directories refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRoot {
    /// Fingerprint of the chunk (level 0) or of the topmost node; a hole when all bytes are zero.
    pub fingerprint: Fingerprint,
    /// Length in bytes.
    pub len: u64,
    /// 0: the object is one chunk; else the level of the topmost node.
    pub level: u8,
    /// Division into chunks.
    pub layout: Layout,
}

impl ObjectRoot {
    /// The object without bytes.
    pub const EMPTY: Self = Self {
        fingerprint: Fingerprint::HOLE,
        len: 0,
        level: 0,
        layout: Layout::Variable,
    };

    /// Appends this root.
    pub fn encode(&self, w: &mut Writer) {
        w.u8(self.level).u8(self.layout.to_u8()).varint(self.len);
        if self.len > 0 {
            w.bytes(&self.fingerprint.0);
        }
    }

    /// Takes a root from a reader.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (level, layout, len) = (r.u8()?, r.u8()?, r.varint()?);
        let Some(layout) = Layout::from_u8(layout).filter(|_| level <= LEVEL_MAX) else {
            return r.invalid("object root");
        };
        let fingerprint = if len > 0 {
            Fingerprint(r.array()?)
        } else {
            Fingerprint::HOLE
        };
        Ok(Self {
            fingerprint,
            len,
            level,
            layout,
        })
    }
}

/// A node of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeNode {
    /// Level, 1 or more.
    pub level: u8,
    /// Division of the object into chunks.
    pub layout: Layout,
    /// Children in order. In fixed layout every child but the last of the object is full.
    pub children: Vec<Fingerprint>,
    /// Bytes below each child; empty in fixed layout.
    pub lengths: Vec<u64>,
}

impl RecipeNode {
    /// Encodes the node: a chunk of a recipe container.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(8 + 40 * self.children.len()));
        w.u8(TAG)
            .u8(RECIPE_VERSION)
            .u8(self.level)
            .u8(self.layout.to_u8())
            .u32(self.children.len() as u32);
        for child in &self.children {
            w.bytes(&child.0);
        }
        for len in &self.lengths {
            w.u64(*len);
        }
        w.0
    }

    /// Returns the level of an encoded node without decoding anything else.
    pub fn level_of(encoded: &[u8]) -> Option<u8> {
        encoded.get(2).copied()
    }

    /// Decodes verified chunk bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        if r.u8()? != TAG {
            return Err(r.error(Fault::BadMagic));
        }
        let version = r.u8()?;
        if version != RECIPE_VERSION {
            return Err(r.error(Fault::Version(version.into())));
        }
        let (level, layout, count) = (r.u8()?, r.u8()?, r.u32()? as usize);
        let Some(layout) = Layout::from_u8(layout).filter(|_| (1..=LEVEL_MAX).contains(&level))
        else {
            return r.invalid("level");
        };
        let limit = match layout {
            Layout::Variable => VARIABLE_FANOUT_MAX,
            Layout::Fixed(_) => FIXED_FANOUT,
        };
        if count == 0 || count > limit {
            return r.invalid("count");
        }
        let mut children = Vec::with_capacity(count);
        for _ in 0..count {
            children.push(Fingerprint(r.array()?));
        }
        let mut lengths = Vec::new();
        if layout == Layout::Variable {
            let mut total = 0u64;
            for _ in 0..count {
                let len = r.u64()?;
                match total.checked_add(len) {
                    Some(sum) if len > 0 => total = sum,
                    _ => return r.invalid("length"),
                }
                lengths.push(len);
            }
        }
        r.finish()?;
        Ok(Self {
            level,
            layout,
            children,
            lengths,
        })
    }

    /// Returns the number of bytes that a full child of a fixed-layout node at `level` covers.
    pub fn fixed_child_bytes(log2: u8, level: u8) -> u64 {
        let shift = u32::from(log2) + 8 * u32::from(level.saturating_sub(1));
        1u64.checked_shl(shift).unwrap_or(u64::MAX)
    }
}

//! Encodes a wrapped copy of the master key. Blobs `keys/<id>`, kept twice (see `mirrored`). The
//! store's keys call this.
//!
//! Every slot wraps the same master key. A password (Argon2id) or the recovery key (256 random
//! bits, which need no stretching) unwraps it.
//!
//! Invariant: limits on Argon2's costs are checked before any work is done for a slot.

use crate::bytes::{Fault, FormatError, Reader, Result, Writer};
use crate::config::BoundConfig;
use crate::mirrored;
use crate::preamble::BlobKind;
use crate::stored::Stored;
use units::{PoolId, UnixNanos};

const WHAT: &str = "key slot";
/// Version of this layout. 1: 2026-11, first. 2: 2026-11, the wrap binds the config.
pub const KEY_SLOT_VERSION: u16 = 2;
/// Version of slots that bind no config. They stay readable; nothing writes new ones.
const VERSION_UNBOUND: u16 = 1;

/// Derivation of the wrapping key from the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDerivation {
    /// Argon2id 1.3 over a password.
    Argon2id {
        /// Memory, KiB.
        memory_kib: u32,
        /// Passes.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// Keyed BLAKE3 over a recovery key.
    Recovery,
}

/// A slot as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Name of the slot, random.
    pub id: [u8; 8],
    /// Label that the user gave.
    pub label: String,
    /// Time when it was made.
    pub created: UnixNanos,
    /// Derivation of the wrapping key from the secret.
    pub derivation: KeyDerivation,
    /// Random, one per slot.
    pub salt: [u8; 32],
    /// Settings of the pool when this slot was made; `None` in slots of version 1.
    pub config: Option<BoundConfig>,
    /// AES-256-GCM of the master key under the wrapping key (used once: nonce 0), tag included.
    pub wrapped: [u8; 48],
}

/// Maximum memory that a slot may request, KiB. A forged slot cannot take more.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 1 << 20;
/// Maximum number of passes.
pub const ARGON2_PASSES_MAX: u32 = 10;
/// Maximum number of lanes.
pub const ARGON2_LANES_MAX: u32 = 16;

impl KeySlot {
    /// Returns the version of its layout.
    pub fn version(&self) -> u16 {
        match self.config {
            Some(_) => KEY_SLOT_VERSION,
            None => VERSION_UNBOUND,
        }
    }

    /// Returns the bytes that the wrap binds: everything but the wrapped key.
    pub fn associated_data(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.pool.0).bytes(&self.id);
        self.encode_fields(&mut w);
        w.0
    }

    fn encode_fields(&self, w: &mut Writer) {
        w.i64(self.created.0).sized(self.label.as_bytes());
        match self.derivation {
            KeyDerivation::Argon2id {
                memory_kib,
                passes,
                lanes,
            } => w.u8(1).u32(memory_kib).u32(passes).u32(lanes),
            KeyDerivation::Recovery => w.u8(2).u32(0).u32(0).u32(0),
        };
        w.bytes(&self.salt);
        if let Some(config) = &self.config {
            config.put(w);
        }
    }

    /// Encodes the blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.encode_fields(&mut w);
        w.bytes(&self.wrapped);
        let slot = u64::from_le_bytes(self.id);
        let version = self.version();
        mirrored::encode(BlobKind::KeySlot, version, self.pool, slot, &w.0)
    }

    /// Decodes the slot, and reports whether one copy inside the blob is damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Self, bool)> {
        let decode = |version| mirrored::decode(WHAT, BlobKind::KeySlot, version, bytes);
        let (copy, is_bound) = match decode(KEY_SLOT_VERSION) {
            Ok(copy) => (copy, true),
            Err(FormatError {
                fault: Fault::Version(VERSION_UNBOUND),
                ..
            }) => (decode(VERSION_UNBOUND)?, false),
            // The first copy may have any version; the second one may still be intact.
            Err(e) => (decode(VERSION_UNBOUND).map_err(|_| e)?, false),
        };
        let mut r = Reader::new(WHAT, &copy.payload);
        let created = UnixNanos(r.i64()?);
        let label = r.text()?;
        let (kind, memory_kib, passes, lanes) = (r.u8()?, r.u32()?, r.u32()?, r.u32()?);
        let derivation = match kind {
            1 if memory_kib <= ARGON2_MEMORY_KIB_MAX
                && (1..=ARGON2_PASSES_MAX).contains(&passes)
                && (1..=ARGON2_LANES_MAX).contains(&lanes)
                && memory_kib >= 8 * lanes =>
            {
                KeyDerivation::Argon2id {
                    memory_kib,
                    passes,
                    lanes,
                }
            }
            2 => KeyDerivation::Recovery,
            _ => return r.invalid("key derivation"),
        };
        let slot = Self {
            pool: copy.pool,
            id: copy.slot.to_le_bytes(),
            label,
            created,
            derivation,
            salt: r.array()?,
            config: match is_bound {
                true => Some(BoundConfig::take(&mut r)?),
                false => None,
            },
            wrapped: r.array()?,
        };
        r.finish()?;
        Ok((slot, copy.damaged))
    }
}

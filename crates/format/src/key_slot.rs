//! One wrapped copy of the master key. Blobs `keys/<id>`, kept twice (see `mirrored`).
//!
//! Every slot wraps the same master key; what unwraps it is a password (Argon2id) or the recovery
//! key (256 random bits, needs no stretching).

use crate::bytes::{Reader, Result, Writer};
use crate::mirrored;
use crate::preamble::Kind;
use units::{PoolId, UnixNanos};

const WHAT: &str = "key slot";
/// Version of this layout. 1: 2026-11, first.
pub const KEY_SLOT_VERSION: u16 = 1;

/// How the secret becomes the wrapping key.
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
    /// What the user calls it.
    pub label: String,
    /// When it was made.
    pub created: UnixNanos,
    /// How the secret becomes the wrapping key.
    pub derivation: KeyDerivation,
    /// Random, one per slot.
    pub salt: [u8; 32],
    /// AES-256-GCM of the master key under the wrapping key (used once: nonce 0), tag included.
    pub wrapped: [u8; 48],
}

/// Bounds that a decoder accepts, so that a damaged slot cannot ask for all memory.
const ARGON2_MEMORY_KIB_MAX: u32 = 4 << 20;
const ARGON2_PASSES_MAX: u32 = 1000;
const ARGON2_LANES_MAX: u32 = 64;

impl KeySlot {
    /// What the wrap binds: everything but the wrapped key.
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
    }

    /// The blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.encode_fields(&mut w);
        w.bytes(&self.wrapped);
        let slot = u64::from_le_bytes(self.id);
        mirrored::encode(Kind::KeySlot, KEY_SLOT_VERSION, self.pool, slot, &w.0)
    }

    /// The slot, and whether one copy inside the blob is damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Self, bool)> {
        let copy = mirrored::decode(WHAT, Kind::KeySlot, KEY_SLOT_VERSION, bytes)?;
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
            wrapped: r.array()?,
        };
        r.finish()?;
        Ok((slot, copy.damaged))
    }
}

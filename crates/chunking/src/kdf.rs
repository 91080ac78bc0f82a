//! Derives a key from a password with Argon2id 1.3 (RFC 9106). The store's key slots call this.
//!
//! Invariant: the working memory is wiped.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::Zeroize;

/// Cost of one guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory, KiB.
    pub memory_kib: u32,
    /// Passes.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// Derives 32 bytes from a password and a salt. `None` when the cost is out of Argon2's bounds.
///
/// The working memory is wiped, because its last block gives the key.
pub fn stretch_password(password: &[u8], salt: &[u8; 32], cost: Argon2Cost) -> Option<[u8; 32]> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).ok()?;
    let mut key = [0; 32];
    let mut memory = vec![Block::default(); params.block_count()];
    let stretched = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(password, salt, &mut key, &mut memory);
    memory.iter_mut().for_each(Block::zeroize);
    stretched.ok()?;
    Some(key)
}

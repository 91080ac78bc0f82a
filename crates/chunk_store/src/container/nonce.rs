//! The nonces that regions are sealed with.
//!
//! Invariant: no number twice under one key. Called by who seals and who opens.

/// Nonce of a region: its number. The key is the container's own.
pub(super) fn nonce_of(index: u16) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..2].copy_from_slice(&index.to_le_bytes());
    nonce
}

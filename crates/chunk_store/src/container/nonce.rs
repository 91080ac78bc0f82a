//! Nonces of sealed regions. The builder and the reader call this.
//!
//! Invariant: no nonce is used twice under one key.

/// Returns the nonce of a region: its number. Each container has its own key.
pub(super) fn nonce_of(index: u16) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..2].copy_from_slice(&index.to_le_bytes());
    nonce
}

//! Keyed BLAKE3-256 over a chunk's plain bytes.

use units::Fingerprint;

/// The secret of a dedup domain: without it fingerprints confirm nothing.
#[derive(Clone)]
pub struct FingerprintKey([u8; 32]);

impl FingerprintKey {
    /// From 32 secret bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The chunk's name.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        Fingerprint(*blake3::keyed_hash(&self.0, chunk).as_bytes())
    }
}

/// A key for one purpose (`context`, a constant sentence) from secret material.
pub fn derive_key(context: &'static str, material: &[u8]) -> [u8; 32] {
    blake3::derive_key(context, material)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let key = FingerprintKey::new([7; 32]);
        assert_eq!(
            key.fingerprint(b"quintet").to_string(),
            blake3::keyed_hash(&[7; 32], b"quintet").to_hex().as_str()
        );
        assert_ne!(
            key.fingerprint(b"quintet"),
            FingerprintKey::new([8; 32]).fingerprint(b"quintet")
        );
    }
}

//! Seals payloads with AES-256-GCM. The store calls this.
//!
//! Invariant: a (key, nonce) pair seals at most one payload. A container's key is derived from a
//! random salt, and the nonce is the region's number in the container.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::hint::black_box;

/// Bytes that a seal adds.
pub const TAG_BYTES: usize = 16;

/// A key that seals payloads under distinct nonces. Boxed, so that moving it leaves no copy of the
/// expanded key behind.
pub struct SealKey(Box<LessSafeKey>);

impl SealKey {
    /// Makes a key from 32 secret bytes.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Box::new(expanded(key)))
    }

    /// Overwrites the expanded key with another one. The cipher's library does not wipe it and
    /// gives no access to it.
    fn wipe(&mut self) {
        *self.0 = expanded(&[0; 32]);
        // Without this the compiler may omit the write, because the value is dropped next.
        black_box(&self.0);
    }

    /// Seals `buffer[start..]` in place and appends the tag. Opening needs the same `bound`.
    pub fn seal(&self, nonce: [u8; 12], bound: &[u8], buffer: &mut Vec<u8>, start: usize) {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (_, payload) = buffer.split_at_mut(start);
        // Fails only above 64 GiB, which no payload reaches.
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(bound), payload)
            .expect("payload below the cipher's limit");
        buffer.extend_from_slice(tag.as_ref());
    }

    /// Seals `payload` in place and writes its tag elsewhere. Opening needs the same `bound`.
    pub fn seal_in_place(
        &self,
        nonce: [u8; 12],
        bound: &[u8],
        payload: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        // Fails only above 64 GiB, which no payload reaches.
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(bound), payload)
            .expect("payload below the cipher's limit");
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    /// Opens payload and tag in place and returns the payload. Returns `None` and leaves garbage
    /// when bytes, place or key are wrong.
    pub fn open_in_place<'a>(
        &self,
        nonce: [u8; 12],
        bound: &[u8],
        sealed: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(bound), sealed).ok()
    }

    /// Opens in place and cuts the tag off. Returns false and leaves garbage in the buffer when
    /// bytes, place or key are wrong.
    pub fn open(&self, nonce: [u8; 12], bound: &[u8], buffer: &mut Vec<u8>) -> bool {
        self.open_after(nonce, bound, buffer, 0)
    }

    /// Does the same for bytes that were sealed at `start`, and moves the payload to the front.
    pub fn open_after(
        &self,
        nonce: [u8; 12],
        bound: &[u8],
        buffer: &mut Vec<u8>,
        start: usize,
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(nonce);
        if start > buffer.len() {
            return false;
        }
        match self.0.open_within(nonce, Aad::from(bound), buffer, start..) {
            Ok(plain) => {
                let len = plain.len();
                buffer.truncate(len);
                true
            }
            Err(_) => false,
        }
    }
}

fn expanded(key: &[u8; 32]) -> LessSafeKey {
    // The type guarantees the length, which is the only reason for an error.
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("32 bytes are an AES-256 key"))
}

impl Drop for SealKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wiped_key_is_the_key_of_zeroes() {
        let sealed = |key: &SealKey| {
            let mut payload = *b"payload";
            (key.seal_in_place([1; 12], b"place", &mut payload), payload)
        };
        let (mut key, zero) = (SealKey::new(&[3; 32]), SealKey::new(&[0; 32]));
        assert_ne!(sealed(&key), sealed(&zero));
        key.wipe();
        assert_eq!(sealed(&key), sealed(&zero));
    }

    #[test]
    fn a_tag_may_stand_elsewhere() {
        let key = SealKey::new(&[3; 32]);
        let mut together = b"payload".to_vec();
        key.seal([1; 12], b"place", &mut together, 0);
        let mut payload = *b"payload";
        let tag = key.seal_in_place([1; 12], b"place", &mut payload);
        assert_eq!(together, [payload.as_slice(), &tag].concat());
        let mut sealed = together.clone();
        assert_eq!(
            key.open_in_place([1; 12], b"place", &mut sealed),
            Some(b"payload".to_vec().as_mut_slice())
        );
        for (nonce, bound, len) in [(2, b"place", 23), (1, b"other", 23), (1, b"place", 9)] {
            let mut sealed = together[..len].to_vec();
            assert!(key.open_in_place([nonce; 12], bound, &mut sealed).is_none());
        }
    }

    #[test]
    fn opens_only_what_was_sealed_here() {
        let key = SealKey::new(&[3; 32]);
        let mut sealed = b"head payload".to_vec();
        key.seal([1; 12], b"place", &mut sealed, 5);
        assert_eq!(sealed.len(), 12 + TAG_BYTES);
        let mut moved = sealed.clone();
        assert!(key.open_after([1; 12], b"place", &mut moved, 5));
        assert_eq!(moved, b"payload");
        assert!(!key.open_after([1; 12], b"place", &mut sealed.clone(), 4));
        assert!(!key.open_after([1; 12], b"place", &mut sealed.clone(), sealed.len() + 1));
        let sealed = sealed[5..].to_vec();
        let open = |key: &SealKey, nonce, bound: &[u8], mut bytes: Vec<u8>| {
            key.open(nonce, bound, &mut bytes).then_some(bytes)
        };
        assert_eq!(
            open(&key, [1; 12], b"place", sealed.clone()).unwrap(),
            b"payload"
        );
        assert!(open(&key, [2; 12], b"place", sealed.clone()).is_none());
        assert!(open(&key, [1; 12], b"other", sealed.clone()).is_none());
        assert!(open(&SealKey::new(&[4; 32]), [1; 12], b"place", sealed.clone()).is_none());
        assert!(open(&key, [1; 12], b"place", sealed[1..].to_vec()).is_none());
        assert!(open(&key, [1; 12], b"place", Vec::new()).is_none());
    }
}

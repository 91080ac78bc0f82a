//! Computes keyed BLAKE3-256 fingerprints over a chunk's plain bytes. The store calls this.
//!
//! Invariant: the same key and bytes always give the same fingerprint; that is part of the format.

mod pages;

use pages::{PAGE_BYTES, PageHasher};
use units::Fingerprint;
use zeroize::Zeroizing;

/// Maximum number of 4 KiB pages that are hashed side by side.
pub const TOGETHER: usize = pages::LANES;

/// Minimum number of pages that gain from being hashed together.
const TOGETHER_MIN: usize = 8;

/// The secret of a deduplication domain. Without it, fingerprints do not confirm any content. Wiped
/// on drop.
#[derive(Clone)]
pub struct FingerprintKey {
    /// Boxed, so that moving the owner leaves no copy behind.
    key: Box<Zeroizing<[u8; 32]>>,
    pages: PageHasher,
}

impl FingerprintKey {
    /// Makes a key from 32 secret bytes.
    pub fn new(key: [u8; 32]) -> Self {
        let key = Zeroizing::new(key);
        let pages = PageHasher::new(&key);
        Self {
            key: Box::new(Zeroizing::new(*key)),
            pages,
        }
    }

    /// Returns the chunk's fingerprint.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        Fingerprint(*blake3::keyed_hash(&self.key, chunk).as_bytes())
    }

    /// Returns the fingerprints of several chunks, in their order.
    ///
    /// Consecutive pages of 4 KiB are hashed sixteen side by side, in a third of the time.
    pub fn fingerprints<'a>(&self, chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Fingerprint> {
        let mut names = Vec::with_capacity(chunks.size_hint().0);
        let mut pages: Vec<&[u8; PAGE_BYTES]> = Vec::with_capacity(TOGETHER);
        for chunk in chunks {
            if let Ok(page) = chunk.try_into() {
                pages.push(page);
                if pages.len() == TOGETHER {
                    self.append(&mut pages, &mut names);
                }
            } else {
                self.append(&mut pages, &mut names);
                names.push(self.fingerprint(chunk));
            }
        }
        self.append(&mut pages, &mut names);
        names
    }

    fn append(&self, pages: &mut Vec<&[u8; PAGE_BYTES]>, names: &mut Vec<Fingerprint>) {
        if pages.len() >= TOGETHER_MIN {
            self.pages.append(pages, names);
        } else {
            names.extend(pages.iter().map(|page| self.fingerprint(*page)));
        }
        pages.clear();
    }
}

/// Derives a key for one purpose from secret material. `context` is a constant sentence that names
/// the purpose.
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

    /// Returns chunks of these lengths, no two with the same bytes.
    fn chunks(lengths: &[usize]) -> Vec<Vec<u8>> {
        let chunk = |(number, len): (usize, &usize)| {
            let mut bytes = vec![0; *len];
            let mut stream = blake3::Hasher::new()
                .update(&number.to_le_bytes())
                .finalize_xof();
            stream.fill(&mut bytes);
            bytes
        };
        lengths.iter().enumerate().map(chunk).collect()
    }

    #[track_caller]
    fn agree(lengths: &[usize]) {
        let key = FingerprintKey::new([9; 32]);
        let chunks = chunks(lengths);
        let one_by_one: Vec<_> = chunks.iter().map(|chunk| key.fingerprint(chunk)).collect();
        assert_eq!(
            key.fingerprints(chunks.iter().map(Vec::as_slice)),
            one_by_one
        );
    }

    #[test]
    fn pages_together_have_the_names_that_they_have_alone() {
        for count in 0..70 {
            agree(&vec![PAGE_BYTES; count]);
        }
    }

    #[test]
    fn chunks_of_other_lengths_stay_in_their_places() {
        let mut lengths = vec![PAGE_BYTES; 60];
        for (at, len) in [
            (0, 0),
            (9, 1),
            (26, 4095),
            (27, 4097),
            (43, 16384),
            (59, 1024),
        ] {
            lengths[at] = len;
        }
        agree(&lengths);
    }

    #[test]
    fn every_kernel_gives_the_same_names() {
        use blake3::platform::Platform;
        let alone = FingerprintKey::new([3; 32]);
        let mut portable = alone.clone();
        portable.pages.use_kernel(Platform::Portable);
        let chunks = chunks(&[PAGE_BYTES; 21]);
        let names = portable.fingerprints(chunks.iter().map(Vec::as_slice));
        assert_eq!(names, alone.fingerprints(chunks.iter().map(Vec::as_slice)));
    }
}

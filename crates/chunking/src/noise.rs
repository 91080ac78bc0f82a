//! Detects bytes that no entropy coder makes smaller: compressed and encrypted files. `compress`
//! calls this before it tries.
//!
//! It applies Pearson's chi-squared test (Pearson 1900) against evenly spread bytes.
//! Invariant: the answer is a hint from a sample. A wrong answer costs space or time, never bytes.

/// Pieces that are sampled, evenly over all bytes.
const PIECES: usize = 64;
const PIECE_BYTES: usize = 128;
/// Limit of the statistic. For evenly spread bytes it is 255 on average, with a deviation of 22.6;
/// the limit is six deviations above.
///
/// The statistic grows by 1.4 for each sampled byte and bit of missing entropy. Bytes that an
/// entropy coder makes half a percent smaller reach the limit. So does noise with a twentieth of
/// text.
const CHI_SQUARED_MAX: u64 = 255 + 6 * 23;

/// Returns true when compressing is not worth a try.
///
/// Misses repetitions that do not show in the frequencies of bytes. Such repetitions are rare
/// within a region of distinct chunks.
pub fn is_noise(bytes: &[u8]) -> bool {
    let stride = bytes.len() / PIECES;
    if stride < PIECE_BYTES {
        return false;
    }
    // Two tables, so that equal neighbours do not wait for each other.
    let mut counts = [[0u16; 256]; 2];
    for part in bytes.chunks_exact(stride) {
        let piece = part.get(..PIECE_BYTES).unwrap_or_default();
        for pair in piece.chunks_exact(2) {
            if let [a, b] = *pair {
                counts[0][usize::from(a)] += 1;
                counts[1][usize::from(b)] += 1;
            }
        }
    }
    let [even, odd] = &counts;
    let counts = even.iter().zip(odd).map(|(a, b)| u64::from(*a + *b));
    let (sum, squares) = counts.fold((0, 0), |(sum, squares), n| (sum + n, squares + n * n));
    // 256 / sum * squares - sum, without fractions.
    256 * squares <= (CHI_SQUARED_MAX + sum) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(len: usize, mut state: u64) -> Vec<u8> {
        (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn noise_is_noise_and_what_shrinks_is_not() {
        for seed in 0..200 {
            assert!(is_noise(&random(64 << 10, seed)), "{seed}");
            assert!(is_noise(&random(1 << 20, seed << 8)), "{seed}");
        }
        let text = b"No bytes of a text are as frequent as each other. ".repeat(2000);
        assert!(!is_noise(&text));
        // Random letters only: an eighth can be saved.
        let digits: Vec<u8> = random(64 << 10, 1).iter().map(|b| b & 127).collect();
        assert!(!is_noise(&digits));
        assert!(!is_noise(&random(4096, 1)), "too short to tell");
        assert!(!is_noise(&[]));
    }

    #[test]
    fn a_little_text_among_noise_is_seen() {
        for seed in 0..50 {
            let mut bytes = random(64 << 10, seed);
            for (page, text) in bytes.chunks_exact_mut(4096).zip(0..) {
                if text % 8 == 0 {
                    page.fill(b'a' + (seed % 26) as u8);
                }
            }
            assert!(!is_noise(&bytes), "{seed}");
        }
    }
}

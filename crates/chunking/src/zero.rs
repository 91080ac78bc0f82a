//! Finds runs of zeroes, which take no space. The store and `archive` call this.
//!
//! Invariant: the answer is exact.

/// Returns true when every byte is zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Most data shows a non-zero byte at once; the blocks below are wide enough to vectorise.
    let mut blocks = bytes.chunks_exact(256);
    blocks.all(|block| block.iter().fold(0, |all, byte| all | byte) == 0)
        && blocks.remainder().iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn one_bit_anywhere_is_seen() {
        for len in [0usize, 1, 255, 256, 257, 5000] {
            let mut bytes = vec![0u8; len];
            assert!(is_zero(&bytes));
            for at in 0..len {
                bytes[at] = 1;
                assert!(!is_zero(&bytes), "{len} {at}");
                bytes[at] = 0;
            }
        }
    }
}

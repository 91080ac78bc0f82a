//! Numbers and checksums of file systems in bytes from a disk. Every decoder calls this.
//!
//! Invariant: an offset outside the bytes gives `None`; nothing here panics.

/// Returns `N` bytes at `at`.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    let end = at.checked_add(N)?;
    bytes.get(at..end)?.try_into().ok()
}

/// A byte.
pub fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// 16 bits, little-endian.
pub fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// 32 bits, little-endian.
pub fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// 64 bits, little-endian.
pub fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// 16 bits, big-endian.
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// 32 bits, big-endian.
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// 64 bits, big-endian.
pub fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// Two halves of a block number.
pub fn wide(high: impl Into<u64>, low: u32) -> u64 {
    (high.into() << 32) | u64::from(low)
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut value = n as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                (value >> 1) ^ 0x82f6_3b78
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
};

/// CRC-32C as ext4 and jbd2 use it: continues `sum`, no inversion at either end.
pub fn crc32c(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, byte| {
        CRC32C[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8)
    })
}

/// A short fingerprint to notice changes (FNV-1a in 32 bits). Not against an adversary: an
/// unnoticed change leaves an older answer.
pub fn fingerprint(parts: &[&[u8]]) -> u32 {
    let sum = parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (sum ^ (sum >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_has_the_known_check_value() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_outside_the_bytes_are_none() {
        assert_eq!(le32(&[1, 0, 0], 0), None);
        assert_eq!(be32(&[0, 0, 1, 2], 0), Some(258));
        assert_eq!(le64(&[0; 8], usize::MAX), None);
        assert_eq!(wide(1_u32, 2), (1 << 32) + 2);
    }
}

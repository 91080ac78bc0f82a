//! Computes CRC32C digests of headers and data (RFC 7143, 13.1). The sender and the receiver of a
//! connection call this.
//!
//! Invariant: a digest is sent with its least significant byte first, as RFC 7143 shows it.

/// Length of a digest, bytes.
pub const DIGEST_BYTES: usize = 4;

/// Returns the digest of `bytes`. Data is passed with its padding.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

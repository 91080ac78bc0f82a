//! Reads numbers in the machine's byte order from unchecked bytes. The decoders use this.
//!
//! Invariant: it never reads past the end. Every decoder stops at the first `None`.

/// The remaining bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Starts at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes the next `len` bytes; `None` if there are fewer.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes the bytes up to the next NUL, and the NUL.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|b| *b == 0)?;
        let name = self.take(len)?;
        self.take(1)?;
        Some(name)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Takes the next four bytes as a number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// Takes the next eight bytes as a number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }
}

//! Options of a read of stored bytes, and where the bytes came from. Callers of the container
//! reader set them.
//!
//! Invariant: bytes from the system's page cache are never reported as read from the device.

/// Selects whether the system's page cache keeps a copy of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// It does.
    #[default]
    InSystem,
    /// It does not, where the system supports that.
    Nowhere,
}

/// Options of a read of a region, and where its bytes came from.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadBy {
    /// Selects whether the system keeps copies.
    pub copies: Copies,
    /// Asks the system where the bytes were. That may cost a system call.
    pub asks: bool,
    /// Answer to `asks`: true if all bytes came from the device.
    pub is_from_device: bool,
}

impl ReadBy {
    /// Creates options that do not ask where the bytes were.
    pub fn leaving(copies: Copies) -> Self {
        Self {
            copies,
            ..Self::default()
        }
    }
}

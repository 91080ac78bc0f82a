//! How stored bytes are read, and where they were.
//!
//! Invariant: what the system had in its page cache is not said to be from the device. Called by who
//! reads regions.

/// Whether the system's page cache gets a copy of what is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// It does: memory that nobody else uses.
    #[default]
    InSystem,
    /// It does not, where that is possible.
    Nowhere,
}

/// How a region is read, and where its bytes were.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadBy {
    /// Whether the system keeps copies.
    pub copies: Copies,
    /// Whether it is asked where they were; that may cost a system call.
    pub asks: bool,
    /// The answer: true when the device gave all of them.
    pub is_from_device: bool,
}

impl ReadBy {
    /// Nobody asks where the bytes were.
    pub fn leaving(copies: Copies) -> Self {
        Self {
            copies,
            ..Self::default()
        }
    }
}

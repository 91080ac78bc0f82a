//! Splits, fingerprints, compresses and seals bytes with pure functions. The store calls this.
//!
//! Invariant: no I/O, no clock, no randomness. Boundaries and fingerprints are part of the format;
//! golden vectors freeze them.
#![forbid(unsafe_code)]

mod compress;
mod fingerprint;
mod kdf;
mod noise;
mod seal;
mod split;
pub mod x86_branches;
mod zero;

pub use compress::{CompressError, Compression, Compressor, Decompressor, Packed};
pub use fingerprint::{FingerprintKey, TOGETHER, derive_key};
pub use kdf::{Argon2Cost, stretch_password};
pub use seal::{SealKey, TAG_BYTES};
pub use split::{SPLITTER_NUMBER, Splitter};
pub use zero::is_zero;

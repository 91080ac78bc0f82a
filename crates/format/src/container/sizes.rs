//! Sizes that containers are made of.
//!
//! Invariant: none of them changes within a version of the layout. Containers and their parity call this.

/// Unit of region placement, bytes.
pub const SECTOR_BYTES: u32 = 512;
/// Size of header and of footer, bytes.
pub const HEADER_BYTES: usize = 512;
/// Size of a region header, bytes.
pub const REGION_HEADER_BYTES: usize = 48;
/// Largest container: region offsets fit 16 bits of sectors (index entries hold them).
pub const CONTAINER_BYTES_MAX: u32 = 32 << 20;
/// Largest stored region: its size fits 12 bits of sectors.
pub const REGION_STORED_BYTES_MAX: u32 = 4095 * SECTOR_BYTES;
/// Largest raw region; bounds what a reader allocates.
pub const REGION_RAW_BYTES_MAX: u32 = 8 << 20;
/// Largest raw directory; bounds what a reader allocates.
pub const DIRECTORY_RAW_BYTES_MAX: u32 = 64 << 20;
/// Region index of the directory.
pub const DIRECTORY_INDEX: u16 = u16::MAX;

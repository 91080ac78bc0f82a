//! Defines the sizes in containers. Containers and their parity use them.
//!
//! Invariant: none of them changes within a version of the layout.

/// Unit of region placement, bytes.
pub const SECTOR_BYTES: u32 = 512;
/// Size of header and of footer, bytes.
pub const HEADER_BYTES: usize = 512;
/// Size of a region header, bytes.
pub const REGION_HEADER_BYTES: usize = 48;
/// Largest container, bytes. Region offsets fit 16 bits of sectors, as in index entries.
pub const CONTAINER_BYTES_MAX: u32 = 32 << 20;
/// Largest stored region, bytes. Its size fits 12 bits of sectors.
pub const REGION_STORED_BYTES_MAX: u32 = 4095 * SECTOR_BYTES;
/// Largest raw region, bytes. It bounds the allocation of a reader.
pub const REGION_RAW_BYTES_MAX: u32 = 8 << 20;
/// Largest raw directory, bytes. It bounds the allocation of a reader.
pub const DIRECTORY_RAW_BYTES_MAX: u32 = 64 << 20;
/// Region index of the directory.
pub const DIRECTORY_INDEX: u16 = u16::MAX;

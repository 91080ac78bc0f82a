//! Computes the parity of a container: Reed-Solomon over its 4 KiB sectors, behind the directory
//! and before the footer. A reader that does not know parity skips it.
//!
//! The container builder calls [`append`]; readers, check and scrub call [`restore`].
//!
//! Invariant: a checksum of every sector tells which ones are damaged, so the code only fills in
//! missing ones. Bytes that do not match their checksum are never used. The checksums are stored
//! twice, with the parity between the copies. Everything covers stored (sealed) bytes, so no key is
//! needed.
//!
//! ```text
//! data: header, regions, directory, zeroes | checksums | parity | checksums, footer
//! ```

mod coding;
mod restoring;
mod table;

pub use crate::parity_shape::{PARITY_PERCENT_MAX, PARITY_SECTOR_BYTES, ParityShape};
pub use restoring::{NotRestored, Restored, damaged_in_section, restore};

use crate::bytes::{Writer, checksum};
use crate::container::HEADER_BYTES;
use crate::preamble::BlobKind;
use units::{ContainerId, PoolId};

/// Version of this layout. 1: 2026-11, first.
pub const PARITY_VERSION: u16 = 1;
/// Completes a container from its data: appends zeroes to a whole sector, checksums, parity, and
/// the footer. The blob must begin with the header, because the footer repeats it.
pub fn append(pool: PoolId, id: ContainerId, shape: ParityShape, blob: &mut Vec<u8>) {
    blob.resize(shape.section_at(), 0);
    let mut sums = vec![0; shape.data as usize];
    let parity = coding::encode(shape, blob, &mut |number, sector| {
        if let Some(sum) = sums.get_mut(number as usize) {
            *sum = sum_of(id, number, sector);
        }
    });
    let numbered = (shape.data..).zip(parity.chunks(PARITY_SECTOR_BYTES));
    sums.extend(numbered.map(|(number, sector)| sum_of(id, number, sector)));
    blob.reserve_exact(shape.blob_bytes().saturating_sub(blob.len()));
    table::append(pool, id, shape, 0, &sums, blob);
    blob.extend_from_slice(&parity);
    table::append(pool, id, shape, 1, &sums, blob);
    let footer = footer_of(blob);
    let at = blob.len().saturating_sub(HEADER_BYTES);
    blob.truncate(at);
    blob.extend_from_slice(&footer);
}

/// Computes the checksum of a sector. It matches at no other place.
fn sum_of(id: ContainerId, number: u32, sector: &[u8]) -> u64 {
    let place = id.0.rotate_left(16) ^ u64::from(number);
    checksum(place ^ BlobKind::Parity.seed(), sector)
}

/// Returns the footer for the header at the beginning of `blob`.
fn footer_of(blob: &[u8]) -> Vec<u8> {
    const WHICH_END: usize = 52;
    let mut w = Writer::new();
    let covered = blob.get(..HEADER_BYTES - 8).unwrap_or_default();
    w.bytes(covered);
    w.0.resize(HEADER_BYTES - 8, 0);
    if let Some(which) = w.0.get_mut(WHICH_END) {
        *which = 1;
    }
    let sum = checksum(BlobKind::Container.seed(), &w.0);
    w.u64(sum);
    w.0
}

/// Returns sector `number`. It is short or empty where the bytes end.
fn sector_at(blob: &[u8], number: u32) -> &[u8] {
    let start = number as usize * PARITY_SECTOR_BYTES;
    let end = (start + PARITY_SECTOR_BYTES).min(blob.len());
    blob.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;

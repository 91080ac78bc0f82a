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

pub use restoring::{NotRestored, Restored, damaged_in_section, restore};

use crate::bytes::{Writer, checksum};
use crate::container::{CONTAINER_BYTES_MAX, HEADER_BYTES};
use crate::preamble::Kind;
use units::{ContainerId, PoolId};

/// Unit of parity, bytes: the sector of disks, and the page of file systems.
pub const PARITY_SECTOR_BYTES: usize = 4096;
/// Version of this layout. 1: 2026-11, first.
pub const PARITY_VERSION: u16 = 1;
/// Maximum setting of a pool, percent of the data.
pub const PARITY_PERCENT_MAX: u8 = 50;
/// Parity sectors of a small container. They restore any two lost sectors.
const SECTORS_MIN: u32 = 2;
/// Parity sectors of one group. More cost more time to compute; fewer survive less random damage.
const PER_GROUP: u32 = 4;
/// Maximum that is accepted in a stored shape. It bounds the work of decoding.
const PER_GROUP_MAX: u32 = 64;
const SECTORS_MAX: u64 = CONTAINER_BYTES_MAX as u64 / PARITY_SECTOR_BYTES as u64;

/// Division of a container into groups. Data sector `i` is in group `i % groups`, and so is parity
/// sector `i`. A run of damaged sectors is therefore spread over all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ParityShape {
    /// Number of data sectors: everything before the first checksums.
    pub data: u32,
    /// Number of groups. Each is coded separately.
    pub groups: u32,
    /// Parity sectors of each group: the number of its sectors that may be lost.
    pub per_group: u32,
}

impl ParityShape {
    /// Plans the shape for a container whose directory ends at `data_bytes`. `None` when it must
    /// have no parity, or has no space for it.
    pub fn plan(data_bytes: usize, percent: u8) -> Option<Self> {
        let data = u32::try_from(data_bytes.div_ceil(PARITY_SECTOR_BYTES)).ok()?;
        let percent = u32::from(percent.min(PARITY_PERCENT_MAX));
        if percent == 0 {
            return None;
        }
        let wanted = data.checked_mul(percent)?.div_ceil(100).max(SECTORS_MIN);
        let groups = wanted.div_ceil(PER_GROUP);
        let per_group = wanted.min(PER_GROUP);
        let shape = Self {
            data,
            groups,
            per_group,
        };
        shape.checked()
    }

    /// Returns itself if a container can have this shape. A stored shape may be anything.
    pub fn checked(self) -> Option<Self> {
        let is_shape = (1..=self.data).contains(&self.groups)
            && (1..=PER_GROUP_MAX).contains(&self.per_group)
            && u64::from(self.data) <= SECTORS_MAX;
        (is_shape && u64::from(self.sectors()) <= SECTORS_MAX).then_some(self)
    }

    /// Returns the number of parity sectors.
    pub fn parity(&self) -> u32 {
        self.groups.saturating_mul(self.per_group)
    }

    /// Returns the number of sectors with checksums: data and parity.
    fn summed(&self) -> u32 {
        self.data.saturating_add(self.parity())
    }

    /// Returns the number of sectors in one copy of the checksums.
    fn table(&self) -> u32 {
        self.summed().div_ceil(table::SUMS_PER_SECTOR)
    }

    /// Returns the number of all sectors of the container.
    fn sectors(&self) -> u32 {
        self.summed().saturating_add(self.table().saturating_mul(2))
    }

    /// Returns the length of the container, bytes.
    pub fn blob_bytes(&self) -> usize {
        self.sectors() as usize * PARITY_SECTOR_BYTES
    }

    /// Returns the start of the first checksums and of the parity, bytes.
    pub fn section_at(&self) -> usize {
        self.data as usize * PARITY_SECTOR_BYTES
    }

    /// Returns the sector of the blob that has checksum number `summed`.
    fn sector_of(&self, summed: u32) -> u32 {
        match summed < self.data {
            true => summed,
            false => summed + self.table(),
        }
    }

    /// Returns the sector of the blob that holds part `number` of a copy of the checksums.
    fn table_sector(&self, copy: u8, number: u32) -> u32 {
        match copy {
            0 => self.data + number,
            _ => self.summed() + self.table() + number,
        }
    }

    /// Yields the numbers of a group's data sectors, in order.
    fn members(self, group: u32) -> impl Iterator<Item = u32> {
        (group..self.data).step_by(self.groups as usize)
    }

    /// Returns the number of data sectors as which each group is coded. Missing ones count as
    /// zeroes.
    fn group_data(&self) -> usize {
        self.data.div_ceil(self.groups) as usize
    }
}

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
    checksum(place ^ Kind::Parity.seed(), sector)
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
    let sum = checksum(Kind::Container.seed(), &w.0);
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

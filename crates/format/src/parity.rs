//! Parity of a container: Reed-Solomon over its 4 KiB sectors, behind the directory and before the
//! footer. A reader that knows nothing of it passes over it.
//!
//! Invariant: a checksum of every sector says which are damaged, so the code only fills in what is
//! missing; nothing is believed that does not fit its checksum. The checksums are kept twice, with
//! the parity between the copies. All of it covers stored (sealed) bytes: no key is needed.
//! Called by the container builder (`append`), and by readers, check and scrub (`restore`).
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

/// What the parity counts in, bytes: the sectors of disks, and the pages of file systems.
pub const PARITY_SECTOR_BYTES: usize = 4096;
/// Version of this layout. 1: 2026-11, first.
pub const PARITY_VERSION: u16 = 1;
/// Most that a pool may be set to, percent of the data.
pub const PARITY_PERCENT_MAX: u8 = 50;
/// Parity sectors of a small container: two lost sectors, wherever they are.
const SECTORS_MIN: u32 = 2;
/// Parity sectors of one group: more cost more time to compute, fewer survive less at random.
const PER_GROUP: u32 = 4;
/// What is accepted of a stored shape; bounds what decoding takes.
const PER_GROUP_MAX: u32 = 64;
const SECTORS_MAX: u64 = CONTAINER_BYTES_MAX as u64 / PARITY_SECTOR_BYTES as u64;

/// How a container is divided. Data sector `i` is in group `i % groups`, and so is parity sector `i`:
/// a run of damaged sectors is spread over all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ParityShape {
    /// Sectors of data: everything before the first checksums.
    pub data: u32,
    /// Groups that are coded each by itself.
    pub groups: u32,
    /// Parity sectors of each group: so many of it may be lost.
    pub per_group: u32,
}

impl ParityShape {
    /// The shape for a container whose directory ends at `data_bytes`. `None` when it is to have no
    /// parity, or has no room for it.
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

    /// Itself, if a container can have it. What is stored may say anything.
    pub fn checked(self) -> Option<Self> {
        let is_shape = (1..=self.data).contains(&self.groups)
            && (1..=PER_GROUP_MAX).contains(&self.per_group)
            && u64::from(self.data) <= SECTORS_MAX;
        (is_shape && u64::from(self.sectors()) <= SECTORS_MAX).then_some(self)
    }

    /// Parity sectors.
    pub fn parity(&self) -> u32 {
        self.groups.saturating_mul(self.per_group)
    }

    /// Sectors that have checksums: data and parity.
    fn summed(&self) -> u32 {
        self.data.saturating_add(self.parity())
    }

    /// Sectors of one copy of the checksums.
    fn table(&self) -> u32 {
        self.summed().div_ceil(table::SUMS_PER_SECTOR)
    }

    /// All sectors of the container.
    fn sectors(&self) -> u32 {
        self.summed().saturating_add(self.table().saturating_mul(2))
    }

    /// Length of the container, bytes.
    pub fn blob_bytes(&self) -> usize {
        self.sectors() as usize * PARITY_SECTOR_BYTES
    }

    /// Where the checksums and the parity begin, bytes.
    pub fn section_at(&self) -> usize {
        self.data as usize * PARITY_SECTOR_BYTES
    }

    /// Sector of the blob that is number `summed` of those that have checksums.
    fn sector_of(&self, summed: u32) -> u32 {
        match summed < self.data {
            true => summed,
            false => summed + self.table(),
        }
    }

    /// Sector of the blob that holds number `number` of a copy of the checksums.
    fn table_sector(&self, copy: u8, number: u32) -> u32 {
        match copy {
            0 => self.data + number,
            _ => self.summed() + self.table() + number,
        }
    }

    /// Numbers of a group's data, in order.
    fn members(self, group: u32) -> impl Iterator<Item = u32> {
        (group..self.data).step_by(self.groups as usize)
    }

    /// Data sectors that each group is coded as; those that it does not have are zeroes.
    fn group_data(&self) -> usize {
        self.data.div_ceil(self.groups) as usize
    }
}

/// Appends what makes a container of its data: zeroes to a whole sector, checksums, parity, footer.
/// The blob begins with the header, as the footer repeats it.
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

/// Checksum of a sector, which fits no other place.
fn sum_of(id: ContainerId, number: u32, sector: &[u8]) -> u64 {
    let place = id.0.rotate_left(16) ^ u64::from(number);
    checksum(place ^ Kind::Parity.seed(), sector)
}

/// The footer that belongs to the header at the beginning of `blob`.
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

/// Sector number `number`; short or empty where the bytes end.
fn sector_at(blob: &[u8], number: u32) -> &[u8] {
    let start = number as usize * PARITY_SECTOR_BYTES;
    let end = (start + PARITY_SECTOR_BYTES).min(blob.len());
    blob.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;

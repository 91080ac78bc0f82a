//! Divides a container into groups of data and parity sectors. Containers and their parity use it.
//!
//! Invariant: a shape that [`ParityShape::checked`] returns fits a container, and bounds the work
//! of decoding it.

use crate::container_sizes::{CONTAINER_BYTES_MAX, HEADER_BYTES};
use crate::stored::stored;

/// Unit of parity, bytes: the sector of disks, and the page of file systems.
pub const PARITY_SECTOR_BYTES: usize = 4096;
/// Bytes that a sector of checksums uses.
pub(crate) const TABLE_BYTES: usize = PARITY_SECTOR_BYTES - HEADER_BYTES;
/// Bytes before the checksums.
const HEAD_BYTES: usize = 64;
/// Number of checksums in a sector.
pub(crate) const SUMS_PER_SECTOR: u32 = ((TABLE_BYTES - HEAD_BYTES - 8) / 8) as u32;
/// Maximum setting of a pool, percent of the data.
pub const PARITY_PERCENT_MAX: u8 = 50;
/// Parity sectors of a small container. They restore any two lost sectors.
const SECTORS_MIN: u32 = 2;
/// Parity sectors of one group. More cost more time to compute; fewer survive less random damage.
const PER_GROUP: u32 = 4;
/// Maximum that is accepted in a stored shape. It bounds the work of decoding.
const PER_GROUP_MAX: u32 = 64;
const SECTORS_MAX: u64 = CONTAINER_BYTES_MAX as u64 / PARITY_SECTOR_BYTES as u64;

stored! {
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
    pub(crate) fn summed(&self) -> u32 {
        self.data.saturating_add(self.parity())
    }

    /// Returns the number of sectors in one copy of the checksums.
    pub(crate) fn table(&self) -> u32 {
        self.summed().div_ceil(SUMS_PER_SECTOR)
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
    pub(crate) fn sector_of(&self, summed: u32) -> u32 {
        match summed < self.data {
            true => summed,
            false => summed + self.table(),
        }
    }

    /// Returns the sector of the blob that holds part `number` of a copy of the checksums.
    pub(crate) fn table_sector(&self, copy: u8, number: u32) -> u32 {
        match copy {
            0 => self.data + number,
            _ => self.summed() + self.table() + number,
        }
    }

    /// Yields the numbers of a group's data sectors, in order.
    pub(crate) fn members(self, group: u32) -> impl Iterator<Item = u32> {
        (group..self.data).step_by(self.groups as usize)
    }

    /// Returns the number of data sectors as which each group is coded. Missing ones count as
    /// zeroes.
    pub(crate) fn group_data(&self) -> usize {
        self.data.div_ceil(self.groups) as usize
    }
}

//! Restores a container from the readable parts of it. Container readers, check and scrub call
//! this.
//!
//! Invariant: the result is made from sectors that match their checksums. It matches everything
//! that is known of the container: data, parity, both copies of the checksums, header, footer.
//! Otherwise the result is an error, and the caller keeps its bytes. Forged bytes cost time and at
//! most a few containers of memory.

use super::table::Table;
use super::{PARITY_SECTOR_BYTES, ParityShape, append, coding, sector_at, sum_of};
use crate::container::{ContainerHeader, HEADER_BYTES};
use crate::parity_shape::SUMS_PER_SECTOR;
use units::{ContainerId, PoolId};

/// Number of shapes to try: the header's, the footer's, and those in sectors of checksums.
const SHAPES_MAX: usize = 4;

/// A container as originally written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The whole blob.
    pub blob: Vec<u8>,
    /// Number of sectors (4 KiB) that were damaged, missing or superfluous.
    pub damaged: u32,
}

/// Reason why a container could not be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// It has no parity, or none of it is left.
    #[error("it has no parity")]
    NoParity,
    /// A group has more damaged sectors than intact parity sectors.
    #[error("{damaged} sectors of one group are damaged, and its parity can restore {parity}")]
    TooMuch {
        /// Damaged data sectors of the group.
        damaged: u32,
        /// Intact parity sectors of the group.
        parity: u32,
    },
    /// The result contradicts known data: the parity belongs to another container.
    #[error("its parity does not match it")]
    Inconsistent,
}

/// Restores a container from its remains. `blob` is the contents of the file, of any length.
/// `is_read` tells for a sector (4 KiB) whether the device returned it.
pub fn restore(
    pool: PoolId,
    id: ContainerId,
    blob: &[u8],
    is_read: &dyn Fn(u32) -> bool,
) -> Result<Restored, NotRestored> {
    let mut why = NotRestored::NoParity;
    for shape in shapes(pool, id, blob, is_read) {
        match restore_as(pool, id, shape, blob, is_read) {
            Ok(restored) => return Ok(restored),
            Err(e) => why = e,
        }
    }
    Err(why)
}

/// Returns the shapes that parts of the container claim, the most reliable first.
fn shapes(
    pool: PoolId,
    id: ContainerId,
    blob: &[u8],
    is_read: &dyn Fn(u32) -> bool,
) -> Vec<ParityShape> {
    let mut found = Vec::new();
    let mut find = |shape: Option<ParityShape>| {
        if let Some(shape) = shape
            && !found.contains(&shape)
        {
            found.push(shape);
        }
        found.len() < SHAPES_MAX
    };
    let said = |bytes: &[u8], footer| {
        let header = ContainerHeader::decode(bytes, footer).ok()?;
        let is_its = header.pool == pool && header.id == id;
        header.parity.filter(|_| is_its)
    };
    find(said(blob, false));
    let last = blob.len().saturating_sub(HEADER_BYTES);
    find(said(blob.get(last..).unwrap_or_default(), true));
    let sectors = (blob.len() / PARITY_SECTOR_BYTES) as u32;
    for number in (0..sectors).rev().filter(|number| is_read(*number)) {
        let table = Table::decode(pool, id, sector_at(blob, number)).ok();
        let its = table.filter(|t| {
            let place = t.shape.table_sector(t.copy, t.first / SUMS_PER_SECTOR);
            place == number
        });
        if !find(its.map(|table| table.shape)) {
            break;
        }
    }
    found
}

fn restore_as(
    pool: PoolId,
    id: ContainerId,
    shape: ParityShape,
    blob: &[u8],
    is_read: &dyn Fn(u32) -> bool,
) -> Result<Restored, NotRestored> {
    let given = |sector: u32| {
        let bytes = sector_at(blob, sector);
        (bytes.len() == PARITY_SECTOR_BYTES && is_read(sector)).then_some(bytes)
    };
    let sums = sums(pool, id, shape, &given);
    let known = |number: u32| sums.get(number as usize).copied().flatten();
    let good: Vec<bool> = (0..shape.summed())
        .map(|number| {
            let bytes = given(shape.sector_of(number));
            bytes.is_some_and(|b| known(number) == Some(sum_of(id, number, b)))
        })
        .collect();
    let is_good = |number: u32| good.get(number as usize).copied().unwrap_or(false);
    let mut whole = blob.get(..shape.blob_bytes()).unwrap_or(blob).to_vec();
    whole.resize(shape.blob_bytes(), 0);
    for group in 0..shape.groups {
        let damaged = shape.members(group).filter(|n| !is_good(*n)).count() as u32;
        if damaged == 0 {
            continue;
        }
        let rows = (0..shape.per_group).map(|row| shape.data + row * shape.groups + group);
        let parity = rows.filter(|n| is_good(*n)).count() as u32;
        if damaged > parity {
            return Err(NotRestored::TooMuch { damaged, parity });
        }
        coding::fill_in(shape, group, &mut whole, &is_good)
            .map_err(|_| NotRestored::Inconsistent)?;
    }
    // The rest is computed from the data. It is correct if it matches everything known of it.
    whole.truncate(shape.section_at());
    append(pool, id, shape, &mut whole);
    let fits = |number: u32| {
        let sum = sum_of(id, number, sector_at(&whole, shape.sector_of(number)));
        known(number).is_none_or(|known| known == sum)
    };
    let header = ContainerHeader::decode(&whole, false);
    let is_its = header.is_ok_and(|h| h.pool == pool && h.id == id && h.parity == Some(shape));
    if !is_its || !(0..shape.summed()).all(fits) {
        return Err(NotRestored::Inconsistent);
    }
    let sectors = blob.len().max(whole.len()).div_ceil(PARITY_SECTOR_BYTES) as u32;
    let is_damaged = |n: &u32| !is_read(*n) || sector_at(blob, *n) != sector_at(&whole, *n);
    Ok(Restored {
        damaged: (0..sectors).filter(is_damaged).count() as u32,
        blob: whole,
    })
}

/// Returns the checksums, as far as one of the copies has them.
fn sums<'a>(
    pool: PoolId,
    id: ContainerId,
    shape: ParityShape,
    given: &dyn Fn(u32) -> Option<&'a [u8]>,
) -> Vec<Option<u64>> {
    let mut sums = vec![None; shape.summed() as usize];
    for number in 0..shape.table() {
        let first = number * SUMS_PER_SECTOR;
        let read = |copy| {
            let sector = given(shape.table_sector(copy, number))?;
            let table = Table::decode(pool, id, sector).ok()?;
            let is_its = table.shape == shape && table.copy == copy && table.first == first;
            is_its.then_some(table.sums)
        };
        let Some(part) = read(0).or_else(|| read(1)) else {
            continue;
        };
        let places = sums.iter_mut().skip(first as usize);
        places.zip(part).for_each(|(place, sum)| *place = Some(sum));
    }
    sums
}

/// Counts the damaged sectors behind the data: checksums and parity. `section` is everything from
/// [`ParityShape::section_at`] on.
pub fn damaged_in_section(
    pool: PoolId,
    id: ContainerId,
    shape: ParityShape,
    section: &[u8],
) -> u32 {
    let given = |sector: u32| {
        let bytes = sector_at(section, sector.checked_sub(shape.data)?);
        (bytes.len() == PARITY_SECTOR_BYTES).then_some(bytes)
    };
    let mut damaged = 0;
    for number in 0..shape.table() {
        let read = |copy| {
            let sector = given(shape.table_sector(copy, number))?;
            let table = Table::decode(pool, id, sector).ok()?;
            let is_its = table.shape == shape
                && table.copy == copy
                && table.first == number * SUMS_PER_SECTOR;
            is_its.then_some(table.sums)
        };
        let copies = (read(0), read(1));
        damaged += u32::from(copies.0.is_none()) + u32::from(copies.1.is_none());
        damaged += u32::from(matches!(&copies, (Some(a), Some(b)) if a != b));
    }
    let sums = sums(pool, id, shape, &given);
    let is_damaged = |number: &u32| {
        let known = sums.get(*number as usize).copied().flatten();
        let found = given(shape.sector_of(*number)).map(|b| sum_of(id, *number, b));
        known.is_none() || found != known
    };
    damaged + (shape.data..shape.summed()).filter(is_damaged).count() as u32
}

//! Fills, seals and reads containers. The index, the chunk map, and the store's read and write
//! paths call this.
//!
//! Invariant: bytes that [`ContainerReader`] returns passed the seal (without one the checksum of
//! the stored bytes), and each chunk its fingerprint. An [`OpenedRegion`] passed checksum and seal
//! only, a [`FetchedRegion`] nothing. A walk over the regions replaces a damaged directory; the
//! footer replaces a damaged header.

mod builder;
mod nonce;
mod reader;
mod single_flight;
mod spare;

pub use builder::{
    Appended, ContainerBuilder, ContainerSettings, Finished, PLAIN_REGION_BYTES, RegionBuilder,
};
#[cfg(feature = "testing")]
pub use reader::flip;
pub use reader::{
    Ahead, ContainerReader, Contents, Copies, FetchedRegion, InOrder, OpenedRegion, PART_BYTES_MAX,
    ProvenRegion, ReadBy, Shape, VisitChunks, WholeRegions,
};
pub use reader::{Region, RegionPlace};
pub use single_flight::{FlightRole, Leader, SingleFlight};

use crate::error::Result;
use media::Blobs;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use units::{ContainerId, WriterId};

/// Longest run of adjacent regions that is read with one read, bytes. A disk with arms reads it in
/// the time of a seek, so longer runs would gain little; and another request waits for it, and a
/// reader has memory for it, in full.
pub const RUN_BYTES_MAX: u32 = 1 << 20;
/// The same for a client that waits for a mebibyte: plain data in small regions, with headers.
pub(crate) const NEEDED_RUN_BYTES_MAX: u32 = RUN_BYTES_MAX + (32 << 10);
/// Size at which containers are closed, bytes.
pub const CONTAINER_BYTES_TARGET: usize = 16 << 20;
/// Number of sequence bits within one shard directory: at most 1024 containers each.
const SHARD_BITS: u32 = 10;

/// Returns the directory of a writer's containers.
pub(crate) fn writer_dir(writer: WriterId) -> String {
    format!("containers/{:04x}", writer.0)
}

/// Returns the directory name of the shard of a sequence number.
pub(crate) fn shard_name(sequence: u64) -> String {
    format!("{:010x}", sequence >> SHARD_BITS)
}

/// Returns the blob name of a container.
pub fn container_name(id: ContainerId) -> String {
    format!(
        "{}/{}/{:012x}",
        writer_dir(id.writer()),
        shard_name(id.sequence()),
        id.sequence()
    )
}

/// Visits the existing containers in order. Those of each writer begin at the number in `from`, or
/// at 0 without one. Lists one shard at a time. Other files may lie among them: only names in our
/// form count.
pub fn visit_containers(
    blobs: &dyn Blobs,
    from: &BTreeMap<WriterId, u64>,
    visit: &mut dyn FnMut(ContainerId) -> Result<ControlFlow<()>>,
) -> Result<()> {
    for writer in blobs.list("containers")? {
        let Some(writer) = hex(&writer, 4).and_then(|n| u16::try_from(n).ok()) else {
            continue;
        };
        let writer = WriterId(writer);
        let first = from.get(&writer).copied().unwrap_or(0);
        let dir = writer_dir(writer);
        for shard in blobs.list(&dir)? {
            if hex(&shard, 10).is_none() || shard < shard_name(first) {
                continue;
            }
            for name in blobs.list(&format!("{dir}/{shard}"))? {
                let Some(sequence) = hex(&name, 12).filter(|n| shard_name(*n) == shard) else {
                    continue;
                };
                let id = ContainerId::new(writer, sequence);
                if sequence >= first && visit(id)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Parses a name of exactly `digits` lower-case hexadecimal digits.
fn hex(name: &str, digits: usize) -> Option<u64> {
    let lower = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    if name.len() != digits || !name.bytes().all(lower) {
        return None;
    }
    u64::from_str_radix(name, 16).ok()
}

#[cfg(test)]
mod tests;

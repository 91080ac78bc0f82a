//! Containers: filling, sealing and reading back.
//!
//! Invariant: what [`ContainerReader`] returns was checked against the checksum of its stored
//! bytes, opened, and every chunk against its fingerprint; of an [`OpenedRegion`] the last is not said, of a
//! [`FetchedRegion`] nothing is. A damaged directory is replaced by a walk over the regions; a damaged header by the
//! footer. Called by index, read and write path.

mod builder;
mod nonce;
mod reader;
mod spare;

pub use builder::{ContainerBuilder, Finished, RegionBuilder};
#[cfg(feature = "testing")]
pub use reader::flip;
pub use reader::{
    Ahead, ContainerReader, Contents, Copies, FetchedRegion, OpenedRegion, PART_BYTES_MAX,
    ProvenRegion, ReadBy, Shape, Tail,
};
pub use reader::{Region, RegionPlace};

use crate::error::Result;
use media::Blobs;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use units::{ContainerId, WriterId};

/// Containers are closed when they reach this, bytes.
pub const CONTAINER_BYTES_TARGET: usize = 16 << 20;
/// Containers in one directory of the pool.
const SHARD_BITS: u32 = 10;

/// Directory that holds a writer's containers.
pub(crate) fn writer_dir(writer: WriterId) -> String {
    format!("containers/{:04x}", writer.0)
}

/// Directory of the shard, and number of the shard.
pub(crate) fn shard_name(sequence: u64) -> String {
    format!("{:010x}", sequence >> SHARD_BITS)
}

/// Blob name of a container.
pub fn container_name(id: ContainerId) -> String {
    format!(
        "{}/{}/{:012x}",
        writer_dir(id.writer()),
        shard_name(id.sequence()),
        id.sequence()
    )
}

/// Visits the containers that exist, in order, those of each writer from the number in `from` on
/// (0 when it is not there). Lists one shard at a time. Other files may lie among them: only names
/// that we give count.
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

/// The number that a name of exactly so many lower-case digits stands for.
fn hex(name: &str, digits: usize) -> Option<u64> {
    let lower = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    if name.len() != digits || !name.bytes().all(lower) {
        return None;
    }
    u64::from_str_radix(name, 16).ok()
}

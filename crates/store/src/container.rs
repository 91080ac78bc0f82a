//! Containers: filling, sealing and reading back.
//!
//! Invariant: what [`ContainerReader`] returns was checked against the checksum of its stored
//! bytes, opened, and every chunk against its fingerprint. A damaged directory is replaced by a
//! walk over the regions; a damaged header by the footer. Called by index, read and write path.

mod builder;
mod reader;

pub(crate) use builder::{ContainerBuilder, Finished, RegionBuilder};
pub use reader::Region;
pub(crate) use reader::{ContainerReader, RegionPlace};

use crate::error::Result;
use media::Blobs;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use units::{ContainerId, WriterId};

/// Containers are closed when they reach this, bytes.
pub(crate) const CONTAINER_BYTES_TARGET: usize = 16 << 20;
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
pub(crate) fn container_name(id: ContainerId) -> String {
    format!(
        "{}/{}/{:012x}",
        writer_dir(id.writer()),
        shard_name(id.sequence()),
        id.sequence()
    )
}

/// Visits the containers that exist, in order, those of each writer from the number in `from` on
/// (0 when it is not there). Lists one shard at a time.
pub(crate) fn visit_containers(
    blobs: &dyn Blobs,
    from: &BTreeMap<WriterId, u64>,
    visit: &mut dyn FnMut(ContainerId) -> Result<ControlFlow<()>>,
) -> Result<()> {
    for writer in blobs.list("containers")? {
        let Ok(writer) = u16::from_str_radix(&writer, 16).map(WriterId) else {
            continue;
        };
        let first = from.get(&writer).copied().unwrap_or(0);
        let dir = writer_dir(writer);
        for shard in blobs.list(&dir)? {
            if shard < shard_name(first) {
                continue;
            }
            for name in blobs.list(&format!("{dir}/{shard}"))? {
                let Ok(sequence) = u64::from_str_radix(&name, 16) else {
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

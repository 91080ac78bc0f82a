//! Which file system a part of a volume has. `part` asks.

use super::btrfs::Btrfs;
use super::ext::Ext;
use super::file_system::{FileSystem, Probed};
use super::ntfs::Ntfs;
use super::source::Meter;
use super::xfs::Xfs;

/// Looks at the superblocks of a part of `len_bytes`; `None` if there is none that we know.
pub fn probe(
    meter: &mut Meter<'_>,
    len_bytes: u64,
    memory_max: u64,
) -> Probed<Box<dyn FileSystem>> {
    fn boxed<F: FileSystem + 'static>(found: Result<F, u64>) -> Result<Box<dyn FileSystem>, u64> {
        found.map(|system| Box::new(system) as Box<dyn FileSystem>)
    }
    let ext = Ext::probe(meter, len_bytes, memory_max).map(boxed);
    ext.or_else(|| Btrfs::probe(meter, memory_max).map(boxed))
        .or_else(|| Ntfs::probe(meter, len_bytes, memory_max).map(boxed))
        .or_else(|| Xfs::probe(meter, len_bytes, memory_max).map(boxed))
}

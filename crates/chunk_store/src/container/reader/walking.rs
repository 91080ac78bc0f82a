//! Finds the regions of a container whose directory is damaged, by their headers. The container
//! reader calls this.
//!
//! Invariant: a region counts only after its bytes were verified.

use super::{ContainerReader, Copies, RegionPlace, container_name, is_media_failure};
use crate::error::Result;
use format::container::{
    CONTAINER_BYTES_MAX, DIRECTORY_INDEX, Directory, DirectoryRegion, REGION_HEADER_BYTES,
    SECTOR_BYTES, find_region, following, sectors_max,
};
use units::{ContainerId, Part};

/// Number of unreadable sectors after which a walk over regions gives the container up: a device
/// may take long for each.
const READ_FAILURES_MAX: u32 = 16;

impl ContainerReader {
    /// Finds regions by their headers; sector by sector where the chain is broken.
    pub(super) fn walk(&self, id: ContainerId, damage: &mut Vec<String>) -> Result<Directory> {
        let name = container_name(id);
        let len = self.stored_len(id)?.min(CONTAINER_BYTES_MAX.into());
        let sectors = (len / u64::from(SECTOR_BYTES)) as u32;
        let mut directory = Directory::default();
        let mut sector = 1;
        // The region before ends in this sector, before this byte of it; 0: it does not.
        let mut tail = 0;
        let mut head = [0; SECTOR_BYTES as usize + REGION_HEADER_BYTES];
        let mut failures = 0;
        while sector < sectors {
            let before = std::mem::take(&mut tail);
            let at = u64::from(sector) * u64::from(SECTOR_BYTES);
            let rest = len.saturating_sub(at).min(head.len() as u64) as usize;
            let head = head.part_mut(..rest)?;
            if let Err(why) = self.read_end(&name, at, head, Copies::InSystem) {
                failures += 1;
                if is_media_failure(&why) || failures > READ_FAILURES_MAX {
                    return Err(why);
                }
                damage.push(why.to_string());
                sector += 1;
                continue;
            }
            let place = RegionPlace {
                container: id,
                sector,
            };
            let found = find_region(head, id).filter(|(start, _)| before == 0 || *start == before);
            let (start, header) = match found {
                Some((start, header)) if header.index != DIRECTORY_INDEX => (start, header),
                _ => {
                    sector += 1;
                    continue;
                }
            };
            match self.region(place, sectors_max(header.stored_bytes)) {
                Ok(region) => directory.regions.push(DirectoryRegion {
                    sector,
                    stored_bytes: header.stored_bytes,
                    chunks: region.chunks.iter().map(|(f, _, len)| (*f, *len)).collect(),
                }),
                Err(why) => damage.push(why.to_string()),
            }
            let (sectors, byte) = following(start + header.region_bytes());
            tail = byte;
            sector += sectors;
        }
        Ok(directory)
    }
}

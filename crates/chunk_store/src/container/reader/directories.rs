//! Reads directories of containers, from the container or from a copy on another device. The chunk
//! map, scrub and check call this.
//!
//! ```text
//! copy = the container's header | its directory as stored, with its region header
//! ```
//!
//! Invariant: a directory from a copy passed what one from the container passes: checksum, and the
//! seal in a sealed pool. And the copy is of this very container: its first bytes are the header
//! that the container has. So a copy that is older than the container counts for nothing.

use super::errors::{is_media_failure, place_error};
use super::{ContainerReader, Contents, Copies, ReadBy, RegionPlace, Shape, verify_stored};
use crate::container::container_name;
use crate::error::{Result, StoreError};
use format::container::{DIRECTORY_INDEX, Directory, HEADER_BYTES, RegionHeader, SECTOR_BYTES};
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

impl ContainerReader {
    /// Lists every chunk of a container. Uses the directory; if that is damaged, parity or a walk
    /// over the regions.
    pub fn contents(&self, id: ContainerId) -> Result<Contents> {
        self.contents_by(id, Copies::InSystem)
    }

    /// Like [`Self::contents`]. [`Copies::Nowhere`] reads past the system's cache and thus checks
    /// the device.
    pub fn contents_by(&self, id: ContainerId, copies: Copies) -> Result<Contents> {
        let mut damage = Vec::new();
        let shape = Arc::new(self.read_shape(id, &mut damage, copies)?);
        // A caller that asks for a directory reads regions next.
        self.keep_shape(id, &shape);
        self.contents_of(&shape, copies, damage)
            .map(|(contents, _)| contents)
    }

    /// Like [`Self::contents`], for a container whose header is known. Returns a copy of the
    /// directory too, if it is sound.
    pub fn contents_and_copy(&self, shape: &Shape) -> Result<(Contents, Option<Vec<u8>>)> {
        let (contents, stored) = self.contents_of(shape, Copies::InSystem, Vec::new())?;
        let copy = stored.map(|stored| [shape.header.encode(false), stored].concat());
        Ok((contents, copy))
    }

    /// Returns the contents, and the stored bytes of the directory if they are sound.
    fn contents_of(
        &self,
        shape: &Shape,
        copies: Copies,
        mut damage: Vec<String>,
    ) -> Result<(Contents, Option<Vec<u8>>)> {
        let id = shape.header.id;
        let place = directory_place(shape);
        let (directory, stored) = match self.directory(shape, place, copies) {
            Ok((directory, stored)) => (directory, Some(stored)),
            Err(why) if is_media_failure(&why) => return Err(why),
            Err(why) => {
                damage.push(why.to_string());
                let directory = match self.restored_directory(place) {
                    Some(directory) => directory,
                    None => self.walk(id, &mut damage)?,
                };
                (directory, None)
            }
        };
        let contents = Contents {
            class: shape.header.class,
            directory,
            damage,
        };
        Ok((contents, stored))
    }

    /// Returns the contents of a container by a copy of its directory. Reads nothing. Fails with
    /// `Corruption` if it is not a sound copy of this container's directory.
    pub fn contents_by_copy(&self, shape: &Shape, copy: &[u8]) -> Result<Contents> {
        let place = directory_place(shape);
        let head = copy.split_at_checked(HEADER_BYTES);
        let stored = head.filter(|(header, _)| *header == shape.header.encode(false));
        let Some((_, stored)) = stored else {
            let at = container_name(place.container);
            let found = "it is of another container, or of an older one with this number";
            return Err(StoreError::corruption("copy of a directory", at, found));
        };
        let header = RegionHeader::decode(stored).map_err(|e| place_error(place, e))?;
        if header.container != place.container || header.region_bytes() != stored.len() {
            return Err(place_error(place, "the copy of its directory is not whole"));
        }
        verify_stored(place, &header, stored)?;
        Ok(Contents {
            class: shape.header.class,
            directory: self.directory_of(shape, &header, place, stored.to_vec())?,
            damage: Vec::new(),
        })
    }

    /// Returns the name under which another device keeps a copy of a container's directory. No
    /// chunk has it as its fingerprint: its bits are the complement of one.
    pub fn name_of_copy(&self, id: ContainerId) -> Fingerprint {
        let name = self.fingerprints.fingerprint(container_name(id).as_bytes());
        Fingerprint(name.0.map(|byte| !byte))
    }

    fn directory(
        &self,
        shape: &Shape,
        place: RegionPlace,
        copies: Copies,
    ) -> Result<(Directory, Vec<u8>)> {
        let end = match shape.header.parity {
            Some(parity) => (parity.section_at() / SECTOR_BYTES as usize) as u32,
            None => (shape.header.blob_bytes / SECTOR_BYTES).saturating_sub(1),
        };
        let hint = end.saturating_sub(place.sector).max(1);
        let by = &mut ReadBy::leaving(copies);
        let (header, stored) = self.stored_by(place, hint, by)?;
        let directory = self.directory_of(shape, &header, place, stored.clone())?;
        Ok((directory, stored))
    }

    fn restored_directory(&self, place: RegionPlace) -> Option<Directory> {
        let (shape, header, stored) = self.restored_bytes(place)?;
        self.directory_of(&shape, &header, place, stored).ok()
    }

    fn directory_of(
        &self,
        shape: &Shape,
        header: &RegionHeader,
        place: RegionPlace,
        stored: Vec<u8>,
    ) -> Result<Directory> {
        if header.index != DIRECTORY_INDEX {
            return Err(place_error(place, "this is not a directory"));
        }
        let raw = self.raw(shape, header, place, stored)?;
        Directory::decode(&raw).map_err(|e| place_error(place, e))
    }
}

fn directory_place(shape: &Shape) -> RegionPlace {
    RegionPlace {
        container: shape.header.id,
        sector: shape.header.directory_sector,
    }
}

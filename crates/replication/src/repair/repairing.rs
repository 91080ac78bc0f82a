//! Repairs lost parts: chunks, recipe nodes, directories. The walk over an object's recipe calls
//! this.
//!
//! Invariant: only bytes whose fingerprint in this pool is the lost one are stored.

use super::naming::{name_directory, name_range};
use super::place::Place;
use super::round::Round;
use format::recipe::{Layout, ObjectRoot};
use std::ops::ControlFlow;
use store::{ChunkRef, LostPart, Reader, RegionKind, Repairing, Result};
use units::Fingerprint;

/// Repairs parts of user data.
pub(super) struct ObjectRepair<'m, 'a> {
    pub layout: Layout,
    pub round: &'m mut Round<'a>,
    pub place: &'m mut Place,
}

/// Repairs parts of a directory's object.
pub(super) struct DirectoryRepair<'m, 'a> {
    pub root: &'m ObjectRoot,
    pub round: &'m mut Round<'a>,
    pub place: &'m mut Place,
    /// Once a part was lost: whether any part was repaired.
    pub came_back: &'m mut Option<bool>,
}

impl Repairing for ObjectRepair<'_, '_> {
    fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        self.round.holds(fingerprint)
    }

    fn repair(&mut self, part: &LostPart) -> Result<bool> {
        self.round.check()?;
        let is_node = part.level > 0;
        let bytes = match self.round.is_one_domain {
            true => self.round.of_one_domain(part),
            false => match self.theirs() {
                Some(theirs) if is_node => self.node(&theirs, part)?,
                Some(theirs) => self.chunk(&theirs, part),
                None => None,
            },
        };
        match is_node {
            true => self.round.store_node(part, bytes),
            false => self.round.store_chunk(part, bytes, self.layout),
        }
    }
}

impl ObjectRepair<'_, '_> {
    fn theirs(&mut self) -> Option<ObjectRoot> {
        let found = self.place.theirs(self.round.replica);
        self.round.given(found).flatten()
    }

    fn chunk(&mut self, theirs: &ObjectRoot, part: &LostPart) -> Option<Vec<u8>> {
        let read = piece(self.round.replica, theirs, part);
        let chunk = self.round.given(read).flatten()?;
        self.round.counts.read_bytes += chunk.len() as u64;
        Some(chunk.to_vec())
    }

    /// Reads everything below the node, to compute its fingerprints in this pool.
    fn node(&mut self, theirs: &ObjectRoot, part: &LostPart) -> Result<Option<Vec<u8>>> {
        let range = part.offset..part.offset.saturating_add(part.len);
        let mut top = Vec::new();
        let Some(builder) = name_range(self.round, theirs, range, &mut top)? else {
            return Ok(None);
        };
        let lane = self.round.session.main();
        let finished = builder.finish_node(part.level, &mut |node| {
            top = node.to_vec();
            Ok(lane.fingerprint(node))
        });
        // If the replica's object has other chunk boundaries, there is no such node.
        Ok(finished.is_ok().then_some(top))
    }
}

/// Returns the replica's chunk that covers exactly the part.
fn piece(replica: &Reader, theirs: &ObjectRoot, part: &LostPart) -> Result<Option<ChunkRef>> {
    let mut found = None;
    let end = part.offset.saturating_add(part.len);
    replica.visit_pieces(theirs, part.offset, end, &mut |offset, len, fingerprint| {
        let is_it = (offset, len) == (part.offset, part.len) && !fingerprint.is_hole();
        found = is_it.then_some(fingerprint);
        Ok(ControlFlow::Break(()))
    })?;
    let chunk = found.map(|fingerprint| replica.piece(theirs, &fingerprint, part.len));
    chunk.transpose()
}

impl Repairing for DirectoryRepair<'_, '_> {
    fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        self.round.holds(fingerprint)
    }

    fn repair(&mut self, part: &LostPart) -> Result<bool> {
        self.round.check()?;
        if self.round.is_one_domain {
            let bytes = self.round.of_one_domain(part);
            let stored = self.round.store_node(part, bytes)?;
            *self.came_back = Some(stored);
            return Ok(stored);
        }
        // The directory is repaired as a whole, or not at all.
        let came_back = match *self.came_back {
            Some(came_back) => came_back,
            None => self.directory()?,
        };
        *self.came_back = Some(came_back);
        Ok(came_back)
    }
}

impl DirectoryRepair<'_, '_> {
    /// Repairs the directory from the replica's one, with fingerprints of this pool.
    fn directory(&mut self) -> Result<bool> {
        let Self {
            root, round, place, ..
        } = self;
        let theirs = place.theirs(round.replica);
        let named = match round.given(theirs).flatten() {
            Some(theirs) => {
                let neighbour = place.neighbour(round.pool.reader(), round.replica);
                name_directory(round, &theirs, neighbour, 0)?
            }
            None => None,
        };
        let Some(bytes) = named else {
            round.counts.missing += 1;
            return Ok(false);
        };
        let lane = round.session.main();
        if lane.name_object(&bytes)? != **root {
            round.counts.refused += 1;
            return Ok(false);
        }
        lane.store_object(&bytes, true)?;
        round.found_more = true;
        Ok(true)
    }
}

impl Round<'_> {
    /// Reads a part by the fingerprint that both pools share.
    fn of_one_domain(&mut self, part: &LostPart) -> Option<Vec<u8>> {
        let read = self.replica.chunk(&part.fingerprint);
        let chunk = self.given(read)?;
        self.counts.read_bytes += chunk.len() as u64;
        Some(chunk.to_vec())
    }

    /// Stores a node, or a part of a directory, if its fingerprint is the lost one.
    fn store_node(&mut self, part: &LostPart, bytes: Option<Vec<u8>>) -> Result<bool> {
        let Some(bytes) = self.is_it(part, bytes) else {
            return Ok(false);
        };
        self.session.main().store_node(&bytes)?;
        self.found_more = true;
        Ok(true)
    }

    /// Stores a chunk of an object with this layout if its fingerprint is the lost one.
    fn store_chunk(
        &mut self,
        part: &LostPart,
        bytes: Option<Vec<u8>>,
        layout: Layout,
    ) -> Result<bool> {
        let Some(bytes) = self.is_it(part, bytes) else {
            return Ok(false);
        };
        let lane = self.session.main();
        lane.pack_in(RegionKind::of_layout(layout))?;
        lane.store_chunk(&bytes)?;
        Ok(true)
    }

    /// Returns the bytes if they are the lost part, and counts them otherwise.
    fn is_it(&mut self, part: &LostPart, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let Some(bytes) = bytes else {
            self.counts.missing += 1;
            return None;
        };
        if self.session.main().fingerprint(&bytes) != part.fingerprint {
            self.counts.refused += 1;
            return None;
        }
        Some(bytes)
    }
}

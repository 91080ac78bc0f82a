//! The lanes into which a round packs its copies. `copy` calls this.
//!
//! Invariant: chunks from small regions, which are read randomly, are packed into small regions
//! again, never next to data from large ones.

use crate::pool::{Pool, Purpose};
use crate::write_path::{Lane, LaneOptions, WriteSession};
use chunk_store::Result;
use chunk_store::container::Contents;
use format::container::{ContainerClass, DirectoryRegion};

/// Data whose regions have fewer raw bytes on average counts as randomly read: volumes.
const FINE_BYTES_MAX: u64 = 128 << 10;
/// Raw size of the regions for such data, bytes. Smaller ones exist only after commits of a few
/// pages.
pub(super) const FINE_REGION_BYTES: usize = 16 << 10;

/// Size of the regions into which the contents of a container are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// As the options of the round say.
    Large,
    /// Small: data that is read randomly.
    Fine,
}

impl LaneKind {
    /// Returns the kind for the contents of this container.
    pub fn of(contents: &Contents) -> Self {
        let regions = &contents.directory.regions;
        let bytes: u64 = regions.iter().map(raw_bytes).sum();
        let is_fine = bytes < FINE_BYTES_MAX.saturating_mul(regions.len() as u64);
        match contents.class == ContainerClass::Data && is_fine {
            true => Self::Fine,
            false => Self::Large,
        }
    }
}

/// A session with its own lane for large regions, and a lane for small ones once there are any.
pub(super) struct Lanes {
    session: WriteSession,
    fine: Option<Lane>,
    options: LaneOptions,
}

impl Lanes {
    pub fn begin(pool: &Pool, options: LaneOptions) -> Result<Self> {
        Ok(Self {
            session: pool.begin_for(Purpose::Collect, options)?,
            fine: None,
            options,
        })
    }

    /// Returns the lane for contents of this kind.
    pub fn of(&mut self, kind: LaneKind) -> Result<&mut Lane> {
        if kind == LaneKind::Large {
            return Ok(self.session.main());
        }
        let lane = match self.fine.take() {
            Some(lane) => lane,
            None => self.session.lane(LaneOptions {
                region_bytes: self.options.region_bytes.min(FINE_REGION_BYTES),
                ..self.options
            })?,
        };
        Ok(self.fine.insert(lane))
    }

    /// Returns the size of a full container, bytes.
    pub fn container_bytes(&self) -> u64 {
        self.options.container_bytes as u64
    }

    /// Returns an upper limit of the copied bytes that are not in a container that was put.
    pub fn open_bytes(&mut self) -> u64 {
        let fine = self.fine.as_ref().map_or(0, Lane::open_bytes);
        self.session.main().open_bytes().saturating_add(fine)
    }

    /// Returns the session with all copies and with closed data containers.
    pub fn finish(mut self) -> Result<WriteSession> {
        if let Some(fine) = self.fine {
            self.session.retire(fine)?;
        }
        self.session.seal_data()?;
        Ok(self.session)
    }
}

fn raw_bytes(region: &DirectoryRegion) -> u64 {
    region.chunks.iter().map(|(_, len)| u64::from(*len)).sum()
}

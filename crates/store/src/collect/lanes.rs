//! The lanes into which a round packs its copies. `copy` calls this.
//!
//! Invariant: chunks from small regions, which are read randomly, are packed into small regions
//! again, never next to data from larger ones. Regions that do not compress say nothing: they are
//! small wherever they come from, and a lane makes them small again.

use crate::pool::{Pool, Purpose};
use crate::write_path::{IMAGE_REGION_BYTES, Lane, LaneOptions, WriteSession};
use chunk_store::Result;
use chunk_store::container::Contents;
use format::container::{ContainerClass, DirectoryRegion};

/// Data whose compressed regions have fewer raw bytes on average counts as randomly read: volumes.
const FINE_BYTES_MAX: u64 = 64 << 10;
/// Raw size of the regions for such data, bytes. Smaller ones exist only after commits of a few
/// pages.
pub(super) const FINE_REGION_BYTES: usize = 16 << 10;
/// Data whose compressed regions have fewer raw bytes on average counts as read randomly and
/// sequentially: images.
const MIDDLE_BYTES_MAX: u64 = 256 << 10;

/// Size of the regions into which the contents of a container are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// As the options of the round say.
    Large,
    /// Middle-sized: images.
    Middle,
    /// Small: data that is read randomly.
    Fine,
}

impl LaneKind {
    /// Returns the kind for the contents of this container.
    pub fn of(contents: &Contents) -> Self {
        if contents.class != ContainerClass::Data {
            return Self::Large;
        }
        let raw_bytes = contents.directory.regions.iter().filter_map(|region| {
            let raw_bytes = raw_bytes(region);
            (u64::from(region.stored_bytes) < raw_bytes).then_some(raw_bytes)
        });
        let (regions, bytes) = raw_bytes.fold((0, 0), |(n, sum), bytes| (n + 1, sum + bytes));
        match regions {
            0 => Self::Middle,
            _ if bytes < FINE_BYTES_MAX.saturating_mul(regions) => Self::Fine,
            _ if bytes < MIDDLE_BYTES_MAX.saturating_mul(regions) => Self::Middle,
            _ => Self::Large,
        }
    }

    fn region_bytes(self, options: &LaneOptions) -> usize {
        match self {
            Self::Large => options.region_bytes,
            Self::Middle => options.region_bytes.min(IMAGE_REGION_BYTES),
            Self::Fine => options.region_bytes.min(FINE_REGION_BYTES),
        }
    }
}

/// A session with its own lane for large regions, and lanes for smaller ones once there are any.
pub(super) struct Lanes {
    session: WriteSession,
    middle: Option<Lane>,
    fine: Option<Lane>,
    options: LaneOptions,
}

impl Lanes {
    pub fn begin(pool: &Pool, options: LaneOptions) -> Result<Self> {
        Ok(Self {
            session: pool.begin_for(Purpose::Collect, options)?,
            middle: None,
            fine: None,
            options,
        })
    }

    /// Returns the lane for contents of this kind.
    pub fn of(&mut self, kind: LaneKind) -> Result<&mut Lane> {
        let lane = match kind {
            LaneKind::Large => return Ok(self.session.main()),
            LaneKind::Middle => &mut self.middle,
            LaneKind::Fine => &mut self.fine,
        };
        Ok(match lane {
            Some(lane) => lane,
            None => lane.insert(self.session.lane(LaneOptions {
                region_bytes: kind.region_bytes(&self.options),
                ..self.options
            })?),
        })
    }

    /// Returns the size of a full container, bytes.
    pub fn container_bytes(&self) -> u64 {
        self.options.container_bytes as u64
    }

    /// Returns an upper limit of the copied bytes that are not in a container that was put.
    pub fn open_bytes(&mut self) -> u64 {
        let lanes = [&self.middle, &self.fine].into_iter().flatten();
        let smaller: u64 = lanes.map(Lane::open_bytes).sum();
        self.session.main().open_bytes().saturating_add(smaller)
    }

    /// Returns the session with all copies and with closed data containers.
    pub fn finish(mut self) -> Result<WriteSession> {
        for lane in [self.middle, self.fine].into_iter().flatten() {
            self.session.retire(lane)?;
        }
        self.session.seal_data()?;
        Ok(self.session)
    }
}

fn raw_bytes(region: &DirectoryRegion) -> u64 {
    region.chunks.iter().map(|(_, len)| u64::from(*len)).sum()
}

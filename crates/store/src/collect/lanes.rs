//! The lanes into which a round packs its copies. `copy` calls this.
//!
//! Invariant: chunks that are read randomly are packed into small regions, never next to data from
//! larger ones. `RegionKind` says which they are.

use crate::pool::{Pool, Purpose};
use crate::write_path::{Lane, LaneOptions, RegionKind, WriteSession};
use chunk_store::Result;

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
    pub fn of(&mut self, kind: RegionKind) -> Result<&mut Lane> {
        let lane = match kind {
            RegionKind::Large => return Ok(self.session.main()),
            RegionKind::Middle => &mut self.middle,
            RegionKind::Fine => &mut self.fine,
        };
        if let Some(lane) = lane {
            return Ok(lane);
        }
        let mut made = self.session.lane(self.options)?;
        made.pack_in(kind)?;
        Ok(lane.insert(made))
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

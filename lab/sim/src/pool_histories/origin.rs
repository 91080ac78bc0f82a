//! The source pool of replication, on its own disk, which has no faults. `process` uses it.
//!
//! Invariant: it keeps its contents, whatever happens to the explored pool. The next replication
//! completes an interrupted one.

use super::ops::What;
use super::setup::{MEMORY_BYTES, init_options, lane_options, media, snapshot};
use super::source::Source;
use crate::{Image, SimDisk};
use format::snapshot::Snapshot;
use maintenance::{CopyLimits, CopyOptions};
use std::sync::Arc;
use store::{OpenMode, Pool, Result};

/// Bytes of a step, so that objects take several.
pub const COPY_STEP_BYTES: u64 = 5000;

/// A snapshot and its contents.
pub type Original = (Snapshot, Arc<Source>);

/// See the module's head.
#[derive(Default)]
pub struct Origin {
    disk: Option<Arc<SimDisk>>,
    stored: Vec<Original>,
}

impl Origin {
    /// Stores a source. Returns the pool and all of its snapshots, oldest first. `salt` decides
    /// keys and names, and is unique.
    pub fn store(
        &mut self,
        what: What,
        source: Source,
        salt: u64,
    ) -> Result<(Arc<Pool>, Vec<Original>)> {
        let disk = match &self.disk {
            Some(disk) => Arc::clone(disk),
            None => {
                let disk = SimDisk::unrecorded(Image::new());
                Pool::init(&media(Arc::clone(&disk) as _, salt), &init_options(&[]))?;
                Arc::clone(self.disk.insert(disk))
            }
        };
        let media = media(disk as _, salt);
        let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES)?;
        let mut session = pool.begin(lane_options())?;
        let root = source.put(&mut session, 0, lane_options())?;
        let record = snapshot(&pool, what, &source, root);
        pool.commit(session, std::slice::from_ref(&record), &[])?;
        self.stored.push((record, Arc::new(source)));
        Ok((Arc::new(pool), self.stored.clone()))
    }
}

/// Packing as in the explored pool.
pub fn copy_options() -> CopyOptions {
    CopyOptions {
        lane: lane_options(),
        bytes_per_s: None,
        // Each part is put into the recipe, and committed, by itself; streams and trees have many
        // pieces.
        limits: CopyLimits {
            runs_max: 1,
            nodes_max: 0,
            piece_bytes: 10_000,
            ..CopyLimits::default()
        },
        volumes: None,
    }
}

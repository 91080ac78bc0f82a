//! The pool that copies come from: on a disk of its own, which nothing happens to.
//!
//! Invariant: it keeps what it was given, whatever becomes of the pool that is explored; a copy that was
//! cut short is made up for by the next one. Called by `process`.

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

/// A snapshot and what it holds.
pub type Original = (Snapshot, Arc<Source>);

/// See the module's head.
#[derive(Default)]
pub struct Origin {
    disk: Option<Arc<SimDisk>>,
    stored: Vec<Original>,
}

impl Origin {
    /// Stores it; all that is there now, oldest first. `salt` decides keys and
    /// names: nobody else has it.
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

/// As the explored pool packs.
pub fn copy_options() -> CopyOptions {
    CopyOptions {
        lane: lane_options(),
        bytes_per_s: None,
        // Each part is put into the recipe, and committed, by itself.
        limits: CopyLimits {
            runs_max: 1,
            nodes_max: 0,
        },
        volumes: None,
    }
}

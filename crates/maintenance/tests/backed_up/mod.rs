//! Pools with backups on simulated disks, for histories of maintenance.

use sim::pool_histories::{MEMORY_BYTES, Source, What, lane_options, media, snapshot};
use sim::{Seed, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool};

pub fn open(disk: &Arc<SimDisk>, salt: u64) -> Result<Arc<Pool>, String> {
    let media = media(Arc::clone(disk) as _, salt);
    let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES);
    pool.map(Arc::new).map_err(|e| e.to_string())
}

pub fn back_up(pool: &Arc<Pool>, seed: u64) -> Result<(), String> {
    let source = Source::new(What::Image, &mut Seed::new(seed));
    let mut session = pool.begin(lane_options()).map_err(|e| e.to_string())?;
    let root = source
        .put(&mut session, 0, lane_options())
        .map_err(|e| e.to_string())?;
    let record = snapshot(pool, What::Image, &source, root);
    pool.commit(session, &[record], &[])
        .map_err(|e| e.to_string())?;
    Ok(())
}

//! A whole run of garbage collection from the primitives, for tests here and in `volumes`: purges,
//! deletes and copies everything that it can, at once.
//!
//! Invariant: it does nothing that the run in `maintenance` would not do.

use duet::Access;
use store::{
    CopyCounts, CopyRound, Deletion, Expiry, GcStep, LaneOptions, Mark, NothingCached, OpenVolumes,
    Pool, Retired, SnapshotExpiry,
};

const STEP_BYTES: u64 = 1 << 20;

/// Runs once. Calls `before_copying` after everything else. Returns the counts of copies.
pub fn collect(
    pool: &Pool,
    volumes: Option<&dyn OpenVolumes>,
    lane: LaneOptions,
    before_copying: impl FnOnce(),
) -> CopyCounts {
    let permit = pool.gc_permit().expect("alone");
    let expiry = SnapshotExpiry::new(pool, 0, None).expect("minimum");
    pool.purge(&permit, &expiry).expect("purge");
    let mut mark = Mark::begin(pool, volumes).expect("begin");
    while mark.step(pool, STEP_BYTES).expect("mark") == GcStep::Working {}
    let deletable = mark.deletable(pool, &Expiry::new(0, None));
    if !deletable.containers().is_empty() {
        let deletion = Deletion::begin(pool, &permit, &mark, deletable);
        let mut deletion = deletion.expect("begin");
        while deletion.step(pool, &mut mark, STEP_BYTES).expect("delete") == GcStep::Working {}
    }
    let (mut sparse, mut all) = (Vec::new(), Vec::new());
    mark.visit_containers(pool, &mut |container| {
        let usage = container.usage;
        let is_full = usage.is_some_and(|usage| usage.live_bytes == usage.plain_bytes);
        if !container.in_trash && !is_full {
            sparse.push(container.id);
        }
        if container.in_trash && usage.is_some() || !container.in_trash && !is_full {
            all.push(container.id);
        }
        Ok(())
    })
    .expect("visit");
    before_copying();
    let mut retired = Retired::new(pool, &permit, sparse);
    let mut round = CopyRound::begin(pool, lane, &mark, &all).expect("begin");
    let mut step = || {
        round.step(
            pool,
            &mark,
            &mut retired,
            &NothingCached,
            (STEP_BYTES, Access::Device),
        )
    };
    while step().expect("copy") == Some(GcStep::Working) {}
    let counts = round.counts();
    round.commit(pool, &mut retired).expect("commit");
    counts
}

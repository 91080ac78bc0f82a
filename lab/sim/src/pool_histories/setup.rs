//! A small pool over a simulated disk: media, options, records. `process`, `examine` and fault
//! tests call this.
//!
//! Invariant: nothing depends on the machine or the time.

use super::ops::What;
use super::source::Source;
use crate::Seed;
use chunking::Compression;
use format::recipe::ObjectRoot;
use format::snapshot::Snapshot;
use maintenance::{Collector, GcCounts, GcPolicy};
use media::{Disk, Media};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, CheckReport, InitOptions, LaneOptions, NewSecret, Pool};
use units::UnixNanos;
use volumes::Volumes;

/// Budget of an open pool: the minimum for the index.
pub const MEMORY_BYTES: usize = 2 << 20;

/// Media over `disk`; `salt` decides identifiers, salts and the time of day.
pub fn media(disk: Arc<dyn Disk>, salt: u64) -> Media {
    // Long explorations have large salts: any time will do.
    let now = UnixNanos((salt as i64).wrapping_mul(1_000_000_000_000));
    // Neighbouring seeds give overlapping streams, so salts are hashed first.
    Media::seeded(disk, now, Seed::new(salt).draw())
}

/// Regions and containers so small that small pools have several of each.
pub fn lane_options() -> LaneOptions {
    LaneOptions {
        compression: Compression::Lz4,
        region_bytes: 4 << 10,
        container_bytes: 12 << 10,
    }
}

/// The smallest chunks.
pub fn init_options<'a>(secrets: &'a [NewSecret<'a>]) -> InitOptions<'a> {
    InitOptions {
        secrets,
        chunk_bytes_average: 4 << 10,
        parity_percent: 0,
    }
}

/// The same; a third of the histories, by seed, have containers with parity.
pub fn init_options_of<'a>(seed: u64, secrets: &'a [NewSecret<'a>]) -> InitOptions<'a> {
    InitOptions {
        parity_percent: if seed.is_multiple_of(3) { 2 } else { 0 },
        ..init_options(secrets)
    }
}

/// Collects for any gain, and waits for nothing.
pub fn for_any_gain() -> GcPolicy {
    GcPolicy {
        live_percent_max: 100,
        unused_percent_max: 0,
        by_owner_percent_min: Some(0),
        ..GcPolicy::with_trash_period(0)
    }
}

/// Runs gc to its end, in steps of `step_bytes`.
pub fn finish_gc(
    pool: &Pool,
    volumes: Option<&Volumes>,
    run: &mut Collector,
    step_bytes: u64,
) -> store::Result<GcCounts> {
    while !crate::gc::steps(run, pool, volumes, (usize::MAX, step_bytes))? {}
    Ok(run.counts())
}

/// Collects everything possible, merges everything that is not full, and waits for nothing.
pub fn at_once() -> GcPolicy {
    GcPolicy {
        small_percent_max: 100,
        merge_ratio_min: 3,
        ..for_any_gain()
    }
}

/// Checks everything that a pool stores.
pub fn check_all(pool: &Pool) -> store::Result<CheckReport> {
    pool.check(CheckDepth::ALL, &mut |_, _| ControlFlow::Continue(()))
}

/// Creates a snapshot's record.
pub fn snapshot(pool: &Pool, what: What, source: &Source, root: ObjectRoot) -> Snapshot {
    Snapshot {
        name: format!("{what:?}").to_lowercase(),
        host: "host".to_owned(),
        program: "sim".to_owned(),
        paths: vec![b"/source".to_vec()],
        ..Snapshot::new(pool.new_snapshot_id(), pool.now(), source.kind(), root)
    }
}

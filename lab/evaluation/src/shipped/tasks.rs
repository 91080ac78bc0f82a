//! The real maintenance tasks, each run by the real controller in a thread of its own.
//!
//! The world starts them.
//! Invariant: without events a task is the one of a command that has no server beside it: it does
//! not learn what is in memory. Everything else is the same.

use super::link::{Done, Link, VirtualHost};
use super::pool::{FILES, Machine, receiver};
use super::settings::LANE;
use duet::Duet;
use format::snapshot::Snapshot;
use maintenance::{
    Access, Collecting, Collector, CopyLimits, CopyNews, CopyOptions, DefragOptions, DefragSource,
    Defragmenter, GcPolicy, MaintenanceTask, Replication, RunEnd, Scrubber, StepSizes, TaskStep,
    run_task,
};
use media::IoOrigin;
use qos::Flow;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{GcStep, NothingCached, Pool, Result, StoreError};
use units::Origin;
use volumes::Volumes;

/// A task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Verifies all containers.
    Scrub,
    /// Replicates the snapshot of the files to another pool.
    Replication,
    /// Defragments the volume of the files.
    Defragmentation,
    /// Garbage collection.
    Collection,
}

/// Sizes of the server's threads and commands.
const SIZES: StepSizes = StepSizes::new(4 << 20);
const GC_SIZES: StepSizes = StepSizes::scattered(256 << 10, 256 << 10);

impl Kind {
    /// Returns its flow.
    pub fn flow(self) -> Flow {
        match self {
            Self::Scrub => Flow::Scrub,
            Self::Replication => Flow::Replication,
            Self::Defragmentation => Flow::Defragment,
            Self::Collection => Flow::Collect,
        }
    }

    fn origin(self) -> Origin {
        match self {
            Self::Scrub => Origin::Scrub,
            Self::Replication => Origin::Replication,
            Self::Defragmentation => Origin::Defragment,
            Self::Collection => Origin::Collect,
        }
    }

    /// Starts the task.
    pub fn start(self, machine: &Machine, snapshot: &Snapshot, has_events: bool) -> Link {
        let volumes = Arc::clone(&machine.volumes);
        let snapshot = snapshot.clone();
        Link::start(&machine.medium, move |host| {
            let _origin = IoOrigin::of(self.origin()).begin();
            let done = match self {
                Self::Scrub => scrub(host, &volumes, has_events),
                Self::Replication => replicate(host, &volumes, &snapshot, has_events),
                Self::Defragmentation => defragment(host, &volumes, has_events),
                Self::Collection => collect(host, &volumes, has_events),
            };
            done.unwrap_or(Done {
                has_failed: true,
                ..Done::default()
            })
        })
    }
}

/// Runs a task until it is complete, says that it is, or is stopped.
fn run<T: MaintenanceTask>(
    host: &VirtualHost,
    task: &mut T,
    sizes: StepSizes,
    is_last: impl Fn(&T::News) -> bool,
) -> std::result::Result<bool, T::Error> {
    let mut is_complete = false;
    let ended = run_task(task, host, sizes, |_, news| {
        is_complete = news.is_some_and(|news| is_last(&news));
        Ok::<_, T::Error>(match is_complete {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    Ok(is_complete || ended == RunEnd::Finished)
}

fn scrub(host: &VirtualHost, volumes: &Arc<Volumes>, has_events: bool) -> Result<Done> {
    let duet = match has_events {
        true => Arc::clone(volumes.duet()),
        false => Duet::silent(),
    };
    let mut scrubber = Scrubber::new(Arc::clone(volumes.pool()), duet);
    scrubber.start(None).map_err(other)?;
    let is_complete = run(host, &mut scrubber, SIZES, |_| false)?;
    let status = scrubber.status();
    let pass = if is_complete {
        status.last
    } else {
        status.pass
    };
    Ok(Done {
        is_complete: is_complete && pass.damaged == 0,
        has_failed: pass.damaged > 0,
        work_bytes: pass.read_bytes + pass.cached_bytes,
    })
}

fn replicate(
    host: &VirtualHost,
    volumes: &Arc<Volumes>,
    snapshot: &Snapshot,
    has_events: bool,
) -> Result<Done> {
    let options = CopyOptions {
        lane: LANE,
        bytes_per_s: None,
        limits: CopyLimits::default(),
        volumes: has_events.then(|| Arc::clone(volumes)),
    };
    let from = Arc::clone(volumes.pool());
    let snapshots = from.snapshots()?;
    let mut copy = Replication::new(from, snapshots, receiver(50)?, options)
        .map_err(maintenance::CopyError::into_cause)?;
    let begun = copy.begin(snapshot);
    begun.map_err(maintenance::CopyError::into_cause)?;
    let is_last = |news: &CopyNews| matches!(news, CopyNews::Copied(_));
    let is_complete = run(host, &mut copy, SIZES, is_last);
    let is_complete = is_complete.map_err(maintenance::CopyError::into_cause)?;
    let (counts, _) = copy.counts();
    Ok(Done {
        is_complete,
        has_failed: false,
        work_bytes: counts.read_bytes + counts.cached_bytes,
    })
}

fn defragment(host: &VirtualHost, volumes: &Arc<Volumes>, has_events: bool) -> Result<Done> {
    let source = match has_events {
        true => DefragSource::Volumes(Arc::clone(volumes)),
        false => DefragSource::Pool(Arc::clone(volumes.pool())),
    };
    let files = volumes.list().into_iter();
    let root = files
        .map(|volume| volume.record)
        .find(|record| record.name == FILES)
        .map(|record| record.root);
    let all = source.fragmentables()?;
    let chosen: Vec<u64> = all
        .iter()
        .filter(|one| Some(one.root) == root)
        .map(|one| one.key)
        .collect();
    let options = DefragOptions {
        hot_percent: 100,
        moves_shared: true,
        rewrites_all: false,
        dry_run: false,
        bytes_per_s: None,
        lane: LANE,
    };
    let mut defragmenter = Defragmenter::new(source, &chosen, None, options)?;
    let is_complete = run(host, &mut defragmenter, SIZES, |_| false)?;
    let moved = defragmenter.report().counts.moved;
    Ok(Done {
        is_complete,
        has_failed: false,
        work_bytes: 2 * moved.bytes,
    })
}

/// A run without events: the volumes are open, but nothing is known of their memory.
struct Unheard<'a> {
    collector: &'a mut Collector,
    pool: &'a Pool,
    volumes: &'a Volumes,
}

impl MaintenanceTask for Unheard<'_> {
    type News = Infallible;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Collect
    }

    fn step_with(&mut self, _: u64, bytes: u64, access: Access) -> Result<TaskStep<Infallible>> {
        if access == Access::Memory {
            return Ok(TaskStep::NeedsDevice);
        }
        let volumes = Some(self.volumes);
        let step = self
            .collector
            .step(self.pool, volumes, &NothingCached, bytes)?;
        Ok(match step {
            GcStep::Working => TaskStep::Worked { bytes },
            GcStep::Done => TaskStep::Finished,
        })
    }
}

fn collect(host: &VirtualHost, volumes: &Arc<Volumes>, has_events: bool) -> Result<Done> {
    let pool = volumes.pool();
    let mut collector = Collector::new(pool, GcPolicy::with_trash_period(0), LANE)?;
    let is_complete = match has_events {
        true => {
            let mut task = Collecting {
                collector: &mut collector,
                pool,
                volumes: Some(volumes),
            };
            run(host, &mut task, GC_SIZES, |_| false)?
        }
        false => {
            let mut task = Unheard {
                collector: &mut collector,
                pool,
                volumes,
            };
            run(host, &mut task, GC_SIZES, |_| false)?
        }
    };
    let counts = collector.counts();
    if !is_complete {
        collector.give_up(pool);
    }
    Ok(Done {
        is_complete,
        has_failed: false,
        work_bytes: 2 * counts.copied_bytes,
    })
}

fn other(error: impl std::error::Error) -> StoreError {
    StoreError::new(store::StoreErrorKind::Invalid, error.to_string())
}

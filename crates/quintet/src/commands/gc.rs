//! `gc`: frees the space that no snapshot or volume needs, beside other activity. [`super::run`]
//! calls this.
//!
//! Invariant: it takes no writer lock: the store keeps collectors and writers apart. An interrupted
//! run loses nothing, and the next one continues. Damage to metadata stops the run before it
//! deletes containers. A container is kept if needed chunks of it cannot be read.

use super::backup::REGION_BYTES;
use super::invocation::Invocation;
use super::opened::Opened;
use super::{failure, full};
use crate::progress::ArchiveProgress;
use command_line::GcArgs;
use maintenance::{
    CollectMemory, Collecting, Collector, GcCounts, GcPolicy, GcRun, GcStage, RunEnd, StepSizes,
    Urgency, run_task,
};
use server::state::{ServerState, TaskHost, checkpoint_all};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use store::{Discarded, LaneOptions, OpenMode, Pool};
use terminal::exit::Exit;
use terminal::interrupt::Interrupted;
use terminal::json::Object;
use terminal::sizes;
use units::count;
use volumes::Volumes;

/// Step sizes: the work between two checks for a stop request. The second size is for steps beside
/// clients of the device.
const SIZES: StepSizes = StepSizes::scattered(16 << 20, 256 << 10);
/// Maximum number of runs: one moves containers to the trash, one deletes them, and two delete what
/// holds blocked meanwhile.
const RUNS_MAX: usize = 4;
/// Maximum number of runs on a full disk. Each run frees space for the copies of the next one.
const RUNS_MAX_FULL: usize = 64;
/// Maximum number of runs that may find the disk full: other writers use the freed space too.
const FAILURES_MAX: usize = 3;
/// Minimum gain of a run's copies, bytes. Less is not worth a commit.
const GAIN_BYTES_MIN: u64 = 64 << 10;

/// Sets the minimum trash period.
fn set_minimum(invocation: &Invocation, seconds: u64) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Write)?;
    let (_, opened_with) = invocation.keys(&pool)?;
    let before = pool.trash_minimum()?.seconds;
    pool.set_trash_minimum(seconds, opened_with.as_ref())?;
    let console = &invocation.console;
    console.message(
        Object::message("summary")
            .integer("trash_minimum_s", seconds)
            .integer("trash_minimum_before_s", before),
    )?;
    console.line(format!(
        "forgotten snapshots stay for at least {seconds} s (before: {before} s)"
    ))?;
    Ok(Exit::Done)
}

/// Warns if the pool's minimum trash period exceeds the period that the user gave.
fn tell_minimum(invocation: &Invocation, args: &GcArgs, pool: &Pool) -> anyhow::Result<()> {
    let minimum = pool.trash_minimum()?.seconds;
    if args.trash_period.seconds < minimum {
        invocation.console.warn(format_args!(
            "the pool keeps forgotten snapshots for at least {minimum} s, so a trash period of {} s \
             has no effect (see gc --set-trash-minimum)",
            args.trash_period.seconds
        ));
    }
    Ok(())
}

pub(super) fn run(invocation: &Invocation, args: &GcArgs) -> anyhow::Result<Exit> {
    if let Some(period) = args.set_trash_minimum {
        return set_minimum(invocation, period.seconds);
    }
    let policy = GcPolicy {
        copy_bytes_max: args.max_copy.unwrap_or(u64::MAX),
        gain_bytes_min: GAIN_BYTES_MIN,
        unused_percent_max: args.max_unused,
        dry_run: args.dry_run,
        ..GcPolicy::with_trash_period(args.trash_period.nanoseconds())
    };
    let lane = invocation.lane(None, REGION_BYTES)?;
    let run = Run {
        invocation,
        lane,
        policy,
        rate: args.limit.filter(|rate| *rate > 0),
    };
    if args.dry_run {
        let pool = invocation.open(OpenMode::Read)?;
        tell_minimum(invocation, args, &pool)?;
        let run = run.knowing(CollectMemory::of(&pool).ahead());
        let (mut counts, _) = run.once(&pool, None)?;
        if run.policy.reader_period_ns == 0 {
            // As in `Run::all`: containers that no hold keeps are deleted by the second run.
            counts.deleted_containers += std::mem::take(&mut counts.trash_containers);
            counts.deleted_bytes += std::mem::take(&mut counts.trash_bytes);
        }
        return show(invocation, args, &counts);
    }
    let opened = invocation.open_to_collect()?;
    let pool: &Pool = match &opened {
        Opened::Pool(pool) => pool,
        Opened::Volumes(volumes) => volumes.pool(),
    };
    tell_minimum(invocation, args, pool)?;
    let counts = match &opened {
        Opened::Pool(pool) => run.alone(pool, None)?,
        Opened::Volumes(volumes) => match &volumes.server {
            Some(server) => run.in_server(server)?,
            None => run.alone(volumes.pool(), Some(volumes))?,
        },
    };
    let shown = show(invocation, args, &counts);
    pool.keep_reserve();
    if is_nearly_full(pool) {
        let advice = full::advice(pool);
        invocation.console.warn(format_args!(
            "the pool's disk is still nearly full. To free space: {advice}"
        ));
    }
    shown
}

/// Returns true if writers are refused for lack of space, or will be soon.
fn is_nearly_full(pool: &Pool) -> bool {
    pool.reserved().is_some_and(|r| r.is_nearly_full())
}

struct Run<'a> {
    invocation: &'a Invocation,
    lane: LaneOptions,
    policy: GcPolicy,
    rate: Option<u64>,
}

impl Run<'_> {
    /// Runs gc in a server, after a run of the server itself has ended.
    fn in_server(&self, server: &ServerState) -> anyhow::Result<GcCounts> {
        let collection = server.tasks.collecting.begin(&self.invocation.interrupt)?;
        let run = self.knowing(server.tasks.collecting.ahead());
        let ran = run.all(&server.pool, Some(&server.volumes));
        if let Ok(counts) = &ran {
            collection.tell(GcStage::Done, *counts, 0);
        }
        collection.end(ran.is_ok());
        ran
    }

    /// Returns the run with the trash entries with future times that earlier runs have seen.
    fn knowing(&self, ahead: Option<Discarded>) -> Self {
        let policy = GcPolicy {
            ahead,
            ..self.policy
        };
        Self { policy, ..*self }
    }

    /// Runs gc in this process and records the run for the next server.
    fn alone(&self, pool: &Pool, volumes: Option<&Volumes>) -> anyhow::Result<GcCounts> {
        let mut memory = CollectMemory::of(pool);
        let mut recorded = GcRun::new(pool, Urgency::WhenIdle, true);
        // If the record cannot be written, the next server examines the pool again.
        let _ = CollectMemory::write(pool, memory.begin(recorded.begun));
        let ran = self.knowing(memory.ahead()).all(pool, volumes);
        recorded.counts = ran.as_ref().copied().unwrap_or_default();
        let ended = memory.end(recorded.ended(pool, ran.is_ok()));
        let _ = CollectMemory::write(pool, ended);
        ran
    }

    /// Makes one run. Makes another one if the trash period is 0, to delete what the first one
    /// moved there. Makes further runs on a full disk, and when holds that blocked deletion have
    /// ended.
    fn all(&self, pool: &Pool, volumes: Option<&Volumes>) -> anyhow::Result<GcCounts> {
        let mut counts = GcCounts::default();
        let (mut was_full, mut others, mut failures) = (false, 0, 0);
        for run in 0..RUNS_MAX_FULL {
            was_full |= is_nearly_full(pool);
            if let Some(volumes) = volumes.filter(|_| was_full) {
                checkpoint_all(volumes, &self.invocation.interrupt);
            }
            let (ran, is_worth_another) = match self.for_disk(was_full).once(pool, volumes) {
                // Another writer took the space that was found. Plan again with the present space.
                Err(e) if was_full && failure::is_full(&e) && failures < FAILURES_MAX => {
                    failures += 1;
                    continue;
                }
                ran => ran?,
            };
            counts = counts.followed_by(ran);
            let is_over_at_once = run == 0 && self.policy.reader_period_ns == 0;
            let goes_next = (is_over_at_once || was_full) && ran.discarded_containers > 0;
            others += usize::from(is_worth_another);
            if !goes_next && (!is_worth_another || others >= RUNS_MAX) {
                break;
            }
        }
        super::readers::tell(&self.invocation.console, pool)?;
        Ok(counts)
    }

    /// On a full disk, containers do not wait in the trash for readers in other processes, as in a
    /// server. Forgotten snapshots keep their trash period even then.
    fn for_disk(&self, is_full: bool) -> Self {
        let mut policy = self.policy;
        if is_full {
            policy.reader_period_ns = 0;
        }
        Self { policy, ..*self }
    }

    /// Makes one run. Returns its counts, and true if holds that blocked deletion have ended since.
    fn once(&self, pool: &Pool, volumes: Option<&Volumes>) -> anyhow::Result<(GcCounts, bool)> {
        let mut collector = Collector::new(pool, self.policy, self.lane)?;
        match self.steps(pool, volumes, &mut collector) {
            Ok(()) => Ok((collector.counts(), collector.is_worth_another(pool))),
            Err(e) => {
                collector.give_up(pool);
                Err(e)
            }
        }
    }

    fn steps(
        &self,
        pool: &Pool,
        volumes: Option<&Volumes>,
        collector: &mut Collector,
    ) -> anyhow::Result<()> {
        let progress = self.invocation.progress("collecting");
        let server = self.invocation.server_state();
        let host = TaskHost::new(
            server.map(|server| &*server.tasks),
            &self.invocation.interrupt,
        );
        let started = Instant::now();
        let (mut shown, mut before) = (GcStage::Done, 0);
        let mut task = Collecting {
            collector,
            pool,
            volumes,
        };
        let ended = run_task(&mut task, &host, SIZES, |task, _| {
            let collector = &*task.collector;
            let counts = collector.counts();
            if collector.stage() != shown {
                shown = collector.stage();
                tell(&progress, shown, collector);
            }
            progress.add_bytes(counts.copied_bytes - before);
            before = counts.copied_bytes;
            if let Some(server) = server.filter(|_| !self.policy.dry_run) {
                let left_bytes = collector.bytes_to_copy();
                server
                    .tasks
                    .collecting
                    .tell(collector.stage(), counts, left_bytes);
            }
            self.hold_back(started, counts.copied_bytes);
            Ok::<_, anyhow::Error>(ControlFlow::Continue(()))
        })?;
        match ended {
            RunEnd::Finished => Ok(()),
            RunEnd::Stopped | RunEnd::Idle => Err(Interrupted.into()),
        }
    }

    /// Waits until the copies are below the rate limit, or the user interrupts.
    fn hold_back(&self, started: Instant, copied_bytes: u64) {
        let Some(rate) = self.rate.filter(|rate| *rate > 0) else {
            return;
        };
        let due = Duration::from_secs_f64(copied_bytes as f64 / rate as f64);
        if let Some(early) = due.checked_sub(started.elapsed()) {
            self.invocation.interrupt.wait(early);
        }
    }
}

fn tell(progress: &ArchiveProgress, stage: GcStage, collector: &Collector) {
    let words: &[u8] = match stage {
        GcStage::Purging => b"purging forgotten snapshots",
        GcStage::Marking => b"marking what is needed",
        GcStage::Deleting => b"deleting from the trash",
        GcStage::Choosing => b"choosing containers",
        GcStage::Ordering => b"ordering what is copied",
        GcStage::Copying => b"copying what is needed",
        GcStage::Done => b"",
    };
    progress.set_current(words);
    if stage == GcStage::Copying {
        progress.expect(0, progress.bytes_done() + collector.bytes_to_copy());
    }
}

fn show(invocation: &Invocation, args: &GcArgs, counts: &GcCounts) -> anyhow::Result<Exit> {
    let console = &invocation.console;
    console.message(
        Object::message("summary")
            .boolean("dry_run", args.dry_run)
            .integers(counts.fields()),
    )?;
    let would = if args.dry_run { "would be " } else { "" };
    let size = sizes::display;
    if counts.snapshots_purged > 0 {
        let purged = count(counts.snapshots_purged, "forgotten snapshot");
        console.line(format!("{purged} {would}purged"))?;
    }
    console.line(format!(
        "{} needed, in {}",
        size(counts.live_stored_bytes),
        count(counts.containers, "container")
    ))?;
    console.line(format!(
        "{} of {} {would}put into the trash; {} before compression {would}copied out of \
         them, {} of it from memory",
        count(counts.discarded_containers, "container"),
        size(counts.discarded_bytes),
        size(counts.copied_bytes),
        size(counts.cached_bytes)
    ))?;
    if counts.merged_containers > 0 {
        let merged = counts.merged_containers;
        console.line(format!("{merged} of these because they are small"))?;
    }
    console.line(format!(
        "{} of {} {would}deleted from the trash",
        count(counts.deleted_containers, "container"),
        size(counts.deleted_bytes)
    ))?;
    if counts.trash_containers > 0 {
        console.line(format!(
            "{} of {} in the trash; later runs delete them",
            count(counts.trash_containers, "container"),
            size(counts.trash_bytes)
        ))?;
    }
    if counts.held_snapshots > 0 {
        let keep = if args.dry_run { "would keep" } else { "keep" };
        console.line(format!(
            "{} that clients have open {keep} {} before compression in {} (see quintet status)",
            count(counts.held_snapshots, "purged snapshot"),
            size(counts.held_bytes),
            count(counts.held_containers, "container")
        ))?;
    }
    if counts.containers_without_room > 0 {
        console.line(format!(
            "{} kept, because there is no space to copy the needed data out of them",
            count(counts.containers_without_room, "container")
        ))?;
    }
    if counts.kept_back_containers > 0 {
        console.warn(format_args!(
            "{} kept, because they cannot be read in part: run quintet repair",
            count(counts.kept_back_containers, "container")
        ));
        return Ok(Exit::Damaged);
    }
    Ok(Exit::Done)
}

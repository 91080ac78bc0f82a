//! A replication run. The program calls this.
//!
//! Invariant: snapshots are copied one after the other, each in bounded steps and with its own
//! commit. A failure leaves the others as they are.

use super::carrier::{Carrier, CopyCounts};
use super::pairs::Pairs;
use super::receiver::Receiver;
use super::task::{Copied, CopyTask};
use super::{CopyError, CopyLimits};
use duet::{Driver, DriverOptions, Members, NothingPresent, Present};
use duet::{DriverStep, Processed, Scope, Session, Space, Task, TaskProgress};
use format::snapshot::Snapshot;
use maintenance::{Access, MaintenanceTask, TaskStep, listen, silent};
use media::IoOrigin;
use qos::Flow;
use std::sync::Arc;
use store::{LaneOptions, Pool, StoreError, StoreErrorKind, WriteCounts};
use units::Origin;
use volumes::Volumes;

/// Bits of the part numbers of a disk: 2^64 bytes in parts of a MiB.
const PART_BITS: u32 = 44;

/// Options of a run.
#[derive(Clone)]
pub struct CopyOptions {
    /// Packing in the receiving pool.
    pub lane: LaneOptions,
    /// Maximum bytes sent in a second: compressed, as the receiving pool stores them.
    pub bytes_per_s: Option<u64>,
    /// Memory limits.
    pub limits: CopyLimits,
    /// Volumes of the server that runs the copy: what its clients have brought into memory is
    /// copied first.
    pub volumes: Option<Arc<Volumes>>,
}

/// See the module's head.
pub struct Replication {
    task: CopyTask,
    pairs: Pairs,
    options: CopyOptions,
    run: Option<Run>,
}

/// A snapshot in progress.
struct Run {
    snapshot: Snapshot,
    driver: Driver,
    /// The page cache replays what it has to the session.
    replays: bool,
    /// All of it is sent: the snapshot to commit.
    sent: Option<Snapshot>,
    before: (CopyCounts, WriteCounts),
}

/// Milestones of a run.
#[derive(Debug)]
pub enum CopyNews {
    /// All of the snapshot is sent; this is its entry in the receiving pool. The next step commits
    /// it.
    Sent(Box<Snapshot>),
    /// The snapshot is in the receiving pool, durable.
    Copied(Box<CopiedSnapshot>),
}

/// A copied snapshot, or in a dry run, one that would be copied.
#[derive(Clone, Debug)]
pub struct CopiedSnapshot {
    /// Its entry in the receiving pool.
    pub snapshot: Snapshot,
    /// Cost of reading it.
    pub counts: CopyCounts,
    /// Data that the receiving pool stored for it.
    pub stored: WriteCounts,
}

/// Volumes that number their chunks like the snapshot.
struct Like(Vec<u64>);

impl Members for Like {
    fn contains(&self, object: u64, _: u32) -> bool {
        self.0.contains(&object)
    }
}

impl MaintenanceTask for Replication {
    type News = CopyNews;
    /// After an error the caller abandons the snapshot, or begins another.
    type Error = CopyError;

    fn flow(&self) -> Flow {
        Flow::Replication
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<CopyNews>, CopyError> {
        // Regions that are read for copies are known by this.
        let _origin = IoOrigin::of(Origin::Replication).begin();
        let Some(run) = &mut self.run else {
            return Ok(TaskStep::Idle);
        };
        if run.sent.is_some() {
            if let Some(until_ns) = run.driver.waits_until(now_ns) {
                return Ok(TaskStep::Waiting { until_ns });
            }
            if access == Access::Memory {
                return Ok(TaskStep::NeedsDevice);
            }
            let copied = Box::new(self.commit()?);
            return Ok(TaskStep::News(CopyNews::Copied(copied)));
        }
        let volumes = self.options.volumes.as_ref().filter(|_| run.replays);
        let present = volumes.map_or(&NothingPresent as &dyn Present, |v| v.present());
        let budget = (budget_bytes, access);
        self.task.access = access;
        Ok(
            match run.driver.step(&mut self.task, present, now_ns, budget)? {
                DriverStep::Worked { processed, .. } => TaskStep::Worked {
                    bytes: processed.bytes_read + processed.bytes_cached,
                },
                DriverStep::Looked => TaskStep::Worked { bytes: 0 },
                DriverStep::NeedsDevice => TaskStep::NeedsDevice,
                DriverStep::Failed { error, .. } => return Err(error),
                DriverStep::Waiting { until_ns } => TaskStep::Waiting { until_ns },
                DriverStep::Paused | DriverStep::Cancelled => TaskStep::Idle,
                DriverStep::Finished => TaskStep::News(CopyNews::Sent(Box::new(self.finish()?))),
            },
        )
    }
}

impl Replication {
    /// Prepares copies between two open pools. Nothing else may write to `to`. `snapshots` are all
    /// of `from`.
    pub fn new(
        from: Arc<Pool>,
        snapshots: Vec<Snapshot>,
        to: Arc<Pool>,
        options: CopyOptions,
    ) -> Result<Self, CopyError> {
        let there = to.snapshots().map_err(CopyError::Receiver)?;
        let is_one_domain = from.shares_fingerprints_with(&to);
        let receiver = Receiver::new(to, options.lane);
        let carrier = Carrier {
            from,
            memory: options.volumes.clone().map(|volumes| volumes as _),
            bytes: Vec::new(),
            to: receiver,
            is_one_domain,
            counts: CopyCounts::default(),
        };
        Ok(Self {
            task: CopyTask {
                carrier,
                copied: None,
                access: Access::Device,
                paid_bytes: 0,
            },
            pairs: Pairs::new(snapshots, there),
            options,
            run: None,
        })
    }

    /// Returns true if the receiving pool has the snapshot and knows of no damage: nothing needs to
    /// be sent.
    pub fn is_there(&self, snapshot: &Snapshot) -> bool {
        self.pairs.there(snapshot).is_some() && !self.task.carrier.to.reader().knows_damage()
    }

    /// Returns the snapshot there that has this one's name.
    pub fn namesake(&self, snapshot: &Snapshot) -> Option<&Snapshot> {
        self.pairs.namesake(snapshot)
    }

    /// Begins to copy a snapshot; abandons one in progress.
    pub fn begin(&mut self, snapshot: &Snapshot) -> Result<(), CopyError> {
        self.give_up()?;
        let before = (self.task.carrier.counts, self.task.carrier.to.counts());
        let base = self.pairs.base(snapshot);
        let carrier = &self.task.carrier;
        let mut copied = Copied::new(snapshot, base, carrier, self.options.limits);
        let part_bits = match &copied {
            Copied::Disk(_) => PART_BITS,
            Copied::Ordered(_) => 0,
        };
        let heard = self.session(snapshot, &copied, part_bits);
        let mut options = DriverOptions {
            bytes_per_s: self.options.bytes_per_s,
            ..DriverOptions::default()
        };
        let replays = heard.is_some() && matches!(copied, Copied::Disk(_));
        if let Copied::Ordered(ordered) = &mut copied {
            if heard.is_some() {
                ordered.listen();
            }
            // The next piece costs reads of recipes and directories.
            options.lookahead = Some(ordered.lookahead());
            options.asks_max = 1;
            options.interleaves = true;
        }
        let session = match heard {
            Some(session) => session,
            None => silent(Space::Chunks, part_bits).map_err(CopyError::Source)?,
        };
        self.task.copied = Some(copied);
        self.run = Some(Run {
            snapshot: snapshot.clone(),
            replays,
            sent: None,
            driver: Driver::new(session, options, TaskProgress::new(part_bits)),
            before,
        });
        Ok(())
    }

    /// Returns a session for events of what clients bring into memory, if there can be any.
    fn session(&self, snapshot: &Snapshot, copied: &Copied, part_bits: u32) -> Option<Session> {
        let volumes = self.options.volumes.as_ref()?;
        let (space, scope) = match copied {
            Copied::Disk(_) => {
                let like = volumes.objects_like(snapshot);
                if like.is_empty() {
                    return None;
                }
                (Space::Chunks, Scope::Snapshot(Box::new(Like(like))))
            }
            Copied::Ordered(_) => (Space::Containers, Scope::Everything),
        };
        listen(volumes.duet(), space, scope, part_bits).ok()
    }

    fn finish(&mut self) -> Result<Snapshot, CopyError> {
        let carrier = &mut self.task.carrier;
        let root = match self.task.copied.take() {
            Some(copied) => copied.finish(carrier)?,
            None => None,
        };
        let (Some(run), Some(root)) = (&mut self.run, root) else {
            return Err(nothing_to_commit());
        };
        let mut snapshot = Snapshot {
            root,
            added_bytes: 0,
            ..run.snapshot.clone()
        };
        carrier.to.seal()?;
        snapshot.added_bytes = carrier.to.counts().stored_bytes - run.before.1.stored_bytes;
        run.driver
            .spend(self.task.limited_bytes(&Processed::default()));
        Ok(run.sent.insert(snapshot).clone())
    }

    fn commit(&mut self) -> Result<CopiedSnapshot, CopyError> {
        let carrier = &mut self.task.carrier;
        let run = self.run.take().ok_or_else(nothing_to_commit)?;
        let snapshot = run.sent.ok_or_else(nothing_to_commit)?;
        match self.pairs.there(&snapshot).is_some() {
            // Damaged chunks are stored again; the snapshot keeps its identifier.
            true => carrier.to.commit(&[])?,
            false => {
                carrier.to.refuse_namesake(&snapshot)?;
                carrier.to.commit(std::slice::from_ref(&snapshot))?;
            }
        }
        verify(&snapshot, carrier)?;
        self.pairs.add(snapshot.clone());
        let (counts, stored) = run.before;
        Ok(CopiedSnapshot {
            snapshot,
            counts: less(carrier.counts, &counts),
            stored: carrier.to.counts() - stored,
        })
    }

    /// Abandons the current snapshot. Its copies are stored for the next run to find.
    pub fn give_up(&mut self) -> Result<(), CopyError> {
        self.run = None;
        self.task.copied = None;
        self.task.carrier.to.abandon()
    }

    /// Totals so far.
    pub fn counts(&self) -> (CopyCounts, WriteCounts) {
        (self.task.carrier.counts, self.task.carrier.to.counts())
    }
}

fn nothing_to_commit() -> CopyError {
    let why = StoreError::new(StoreErrorKind::Invalid, "nothing is being copied");
    CopyError::Receiver(why)
}

/// Verifies that the topmost node, or chunk, of a committed snapshot can be read back.
fn verify(snapshot: &Snapshot, carrier: &Carrier) -> Result<(), CopyError> {
    let root = snapshot.root.fingerprint;
    // A dry run has nothing to read back.
    if root.is_hole() || carrier.to.pool.is_dry_run() {
        return Ok(());
    }
    let read = carrier.to.reader().chunk(&root);
    read.map(drop).map_err(CopyError::Receiver)
}

fn less(a: CopyCounts, b: &CopyCounts) -> CopyCounts {
    CopyCounts {
        read_bytes: a.read_bytes - b.read_bytes,
        cached_bytes: a.cached_bytes - b.cached_bytes,
        known_bytes: a.known_bytes - b.known_bytes,
    }
}

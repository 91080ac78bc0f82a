//! Runs a history: consecutive processes on one disk, and their acknowledgements. `PoolHistory` and
//! fault tests call this.
//!
//! Invariant: a change is acknowledged to the explorer when the store has acknowledged it, never
//! before. After a kill the next process finds out whether a change in flight took place. If so, it
//! must survive from the next durable change on.

use super::examine::FoundPool;
use super::model::{Change, Model, Truth, secret};
use super::ops::{Ending, PoolOp, What};
use super::origin::{COPY_STEP_BYTES, Origin, copy_options};
use super::setup::{at_once, init_options_of, lane_options, media, snapshot};
use super::source::Source;
use crate::history::Ticket;
use crate::{History, Seed, SimDisk, gc};
use format::container::{ContainerClass, ContainerHeader, RegionHeader};
use format::container::{HEADER_BYTES, REGION_HEADER_BYTES, SECTOR_BYTES, next_region};
use maintenance::{Collector, MaintenanceTask, TaskStep};
use media::{Barrier, Disk, Media};
use replication::{CopyNews, Replication};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, NewSecret, OpenMode, Pool, SecretKey, StoreError};

/// Result of an operation: a store's error, or a text for a violation.
pub type OperationResult<T> = Result<T, Box<dyn std::error::Error>>;

/// A process that uses a pool. See the module's head.
pub struct Process<'h> {
    disk: Arc<SimDisk>,
    history: &'h History<Change>,
    pool: Option<Arc<Pool>>,
    /// The source pool of replication.
    origin: Origin,
    /// A gc run beside other operations.
    collector: Option<Collector>,
    seed: Seed,
    salt: u64,
    sources: Vec<(What, Source)>,
    keys_made: u32,
    model: Model,
    /// Begun and not acknowledged when the process died.
    in_flight: Option<(Ticket, Change)>,
    /// Found to have taken place after a kill; durable with the next change.
    unsettled: Vec<Ticket>,
}

impl<'h> Process<'h> {
    /// Creates the first process on an empty disk.
    pub fn new(disk: &Arc<SimDisk>, history: &'h History<Change>, seed: u64) -> Self {
        Self {
            disk: Arc::clone(disk),
            history,
            pool: None,
            origin: Origin::default(),
            collector: None,
            seed: Seed::new(seed),
            salt: seed << 16,
            sources: Vec::new(),
            keys_made: 0,
            model: Model::default(),
            in_flight: None,
            unsettled: Vec::new(),
        }
    }

    /// Opens a pool with known contents in a new process.
    pub fn on(
        disk: &Arc<SimDisk>,
        history: &'h History<Change>,
        seed: u64,
        model: Model,
    ) -> OperationResult<Self> {
        let mut process = Self::new(disk, history, seed);
        process.keys_made = 1 + model.keys.last().copied().unwrap_or(0);
        process.model = model;
        process.reopen()?;
        Ok(process)
    }

    /// Allowed models: the known one, and the same with the change in flight when it failed.
    pub fn allowed(&self) -> Vec<Model> {
        let mut allowed = vec![self.model.clone()];
        if let Some((_, change)) = &self.in_flight {
            let mut with = self.model.clone();
            with.apply(change);
            allowed.push(with);
        }
        allowed
    }

    /// Runs one operation; an error is a failure of the store or of this process.
    pub fn run(&mut self, op: &PoolOp) -> OperationResult<()> {
        let PoolOp::Killed(after, op) = op else {
            return self.act(op);
        };
        self.disk.kill_after(*after);
        let result = self.act(op);
        let dead = self.disk.list("").is_err();
        self.collector = None;
        self.pool = None;
        self.disk = self.disk.kill();
        match result {
            Err(why) if !dead => Err(why),
            _ => self.look_around(),
        }
    }

    /// Closes the pool and checks it.
    pub fn finish(&mut self) -> OperationResult<()> {
        self.reopen()
    }

    fn act(&mut self, op: &PoolOp) -> OperationResult<()> {
        match op {
            PoolOp::Init(keys) => self.init(*keys),
            PoolOp::AddKey => self.add_key(),
            PoolOp::RemoveKey => self.remove_key(),
            PoolOp::ChangeKey => {
                self.add_key()?;
                self.remove_key()
            }
            PoolOp::Backup(what, lanes) => self.back_up(*what, *lanes),
            PoolOp::Copy(what) => self.copy(*what),
            PoolOp::Interrupted(what, lanes, ending) => self.interrupt(*what, *lanes, *ending),
            PoolOp::Forget(count) => {
                let removed = self.model.oldest(*count);
                self.replace(&removed, Vec::new())
            }
            PoolOp::Discard(count) => self.discard(*count),
            PoolOp::Undelete => self.undelete(),
            PoolOp::Collect => {
                self.collector = None;
                self.collect(usize::MAX)
            }
            PoolOp::CollectSteps(count) => self.collect(*count),
            PoolOp::Tag => self.tag(),
            PoolOp::Rot => self.rot(),
            PoolOp::Repair => self.repair(),
            PoolOp::Tags(count) => (0..*count).try_for_each(|_| self.tag()),
            PoolOp::Reopen => self.reopen(),
            PoolOp::LoseIndex => {
                self.collector = None;
                self.pool = None;
                let _ = self.disk.remove("cache/fpi");
                self.reopen()
            }
            PoolOp::Killed(_, op) => self.act(op),
        }
    }

    fn media(&mut self) -> Media {
        self.salt += 1;
        media(Arc::clone(&self.disk) as _, self.salt)
    }

    fn init(&mut self, count: u32) -> OperationResult<()> {
        if self.model.exists {
            return Ok(());
        }
        let numbers: Vec<u32> = (0..count).map(|n| self.keys_made + n).collect();
        self.keys_made += count;
        let keys: Vec<(SecretKey, String)> = numbers
            .iter()
            .map(|n| (secret(*n), n.to_string()))
            .collect();
        let secrets: Vec<NewSecret<'_>> = keys
            .iter()
            .map(|(secret, label)| NewSecret { secret, label })
            .collect();
        let media = self.media();
        let options = init_options_of(self.salt >> 16, &secrets);
        self.tell(Change::Init(numbers), |_| Pool::init(&media, &options))?;
        self.reopen()
    }

    fn add_key(&mut self) -> OperationResult<()> {
        if self.model.keys.is_empty() {
            return Ok(());
        }
        let number = self.keys_made;
        self.keys_made += 1;
        let label = number.to_string();
        let secret = secret(number);
        let new = NewSecret {
            secret: &secret,
            label: &label,
        };
        self.tell(Change::AddKey(number), |this| this.pool()?.keys().add(&new))?;
        Ok(())
    }

    fn remove_key(&mut self) -> OperationResult<()> {
        let oldest = match self.model.keys.first() {
            Some(oldest) if self.model.keys.len() > 1 => *oldest,
            _ => return Ok(()),
        };
        let label = oldest.to_string();
        let slots = self.pool()?.keys().list()?;
        let Some(slot) = slots.iter().find(|info| info.slot.label == label) else {
            return Err(format!("key {oldest} has no slot").into());
        };
        self.tell(Change::RemoveKey(oldest), |this| {
            this.pool()?.keys().remove(&slot.name())
        })?;
        Ok(())
    }

    fn back_up(&mut self, what: What, lanes: usize) -> OperationResult<()> {
        let source = self.changed(what);
        let pool = self.pool()?;
        let mut session = pool.begin(lane_options())?;
        let root = source.put(&mut session, lanes, lane_options())?;
        let truth = Truth {
            snapshot: snapshot(pool, what, &source, root),
            source: Arc::new(source),
        };
        let record = truth.snapshot.clone();
        let change = Change::Commit {
            add: vec![truth],
            remove: Vec::new(),
        };
        self.tell(change, |this| this.pool()?.commit(session, &[record], &[]))?;
        Ok(())
    }

    fn interrupt(&mut self, what: What, lanes: usize, ending: Ending) -> OperationResult<()> {
        let source = self.changed(what);
        let mut session = self.pool()?.begin(lane_options())?;
        source.put(&mut session, lanes, lane_options())?;
        match ending {
            Ending::Abandon => session.abandon()?,
            Ending::Drop => drop(session),
        }
        Ok(())
    }

    fn copy(&mut self, what: What) -> OperationResult<()> {
        let source = self.changed(what);
        self.salt += 1;
        let (from, truths) = self.origin.store(what, source, self.salt)?;
        let to = Arc::clone(self.pool.as_ref().ok_or("not open")?);
        let all = from.snapshots()?;
        let mut run = Replication::new(from, all, to, copy_options())?;
        for (snapshot, source) in truths {
            if run.is_there(&snapshot) {
                continue;
            }
            run.begin(&snapshot)?;
            let snapshot = loop {
                match run.step(0, COPY_STEP_BYTES)? {
                    TaskStep::News(CopyNews::Sent(snapshot)) => break *snapshot,
                    TaskStep::Worked { .. } => {}
                    other => return Err(format!("{other:?}").into()),
                }
            };
            let change = Change::Commit {
                add: vec![Truth { snapshot, source }],
                remove: Vec::new(),
            };
            self.tell(change, |_| match run.step(0, COPY_STEP_BYTES) {
                Ok(TaskStep::News(CopyNews::Copied(_))) => Ok(()),
                Ok(other) => panic!("{other:?} instead of a commit"),
                Err(e) => Err(e.into_cause()),
            })?;
        }
        Ok(())
    }

    fn tag(&mut self) -> OperationResult<()> {
        let Some(old) = self.model.newest().cloned() else {
            return Ok(());
        };
        let mut new = old.clone();
        new.snapshot.tags = vec![format!("tag {}", self.seed.below(1000))];
        self.replace(&[old], vec![new])
    }

    fn replace(&mut self, old: &[Truth], new: Vec<Truth>) -> OperationResult<()> {
        let records = |truths: &[Truth]| truths.iter().map(|t| t.snapshot.clone()).collect();
        let (remove, add): (Vec<_>, Vec<_>) = (records(old), records(&new));
        let change = Change::Commit {
            add: new,
            remove: old.iter().map(|t| t.snapshot.id).collect(),
        };
        self.tell(change, |this| this.pool()?.change_snapshots(&add, &remove))?;
        Ok(())
    }

    fn discard(&mut self, count: usize) -> OperationResult<()> {
        let removed = self.model.oldest(count);
        let records: Vec<_> = removed.iter().map(|t| t.snapshot.clone()).collect();
        let change = Change::Commit {
            add: Vec::new(),
            remove: records.iter().map(|record| record.id).collect(),
        };
        self.tell(change, |this| this.pool()?.forget(&records))?;
        Ok(())
    }

    fn undelete(&mut self) -> OperationResult<()> {
        let (forgotten, _) = self.pool()?.trash()?;
        let mut known = forgotten
            .iter()
            .filter_map(|f| self.model.removed.get(&f.snapshot.id));
        let Some(truth) = known.next_back().cloned() else {
            return Ok(());
        };
        let id = truth.snapshot.id;
        let change = Change::Commit {
            add: vec![truth],
            remove: Vec::new(),
        };
        self.tell(change, |this| this.pool()?.undelete(&[id]))?;
        Ok(())
    }

    /// Runs gc in small steps. A run changes nothing that users see.
    fn collect(&mut self, steps: usize) -> OperationResult<()> {
        if !self.model.is_collected {
            let ticket = self.history.begin(Change::Collect);
            self.history.ack(ticket);
            self.model.apply(&Change::Collect);
        }
        let pool = self.pool.as_ref().ok_or("not open")?;
        let collector = match &mut self.collector {
            Some(collector) => collector,
            none => none.insert(Collector::new(pool, at_once(), lane_options())?),
        };
        if gc::steps(collector, pool, None, (steps, 3000))? {
            self.collector = None;
        }
        Ok(())
    }

    /// Inverts a bit of every region of user data.
    fn rot(&mut self) -> OperationResult<()> {
        assert!(self.model.snapshots.is_empty(), "somebody needs the data");
        self.collector = None;
        self.pool = None;
        let ticket = self.history.begin(Change::Rot);
        for (name, _) in self.disk.image().files_below("containers") {
            let file = self.disk.open(&name, false)?;
            let mut head = [0; HEADER_BYTES];
            file.read_at(0, &mut head)?;
            let container = ContainerHeader::decode(&head, false)?;
            if container.class != ContainerClass::Data {
                continue;
            }
            let mut bytes = vec![0; (container.directory_sector * SECTOR_BYTES) as usize];
            file.read_at(0, &mut bytes)?;
            let mut at = HEADER_BYTES;
            while at < bytes.len() {
                let end = at + RegionHeader::decode(&bytes[at..])?.region_bytes();
                let payload = at + REGION_HEADER_BYTES;
                file.write_at(payload as u64, &[bytes[payload] ^ 0x10])?;
                at = next_region(&bytes, container.id, at, end);
            }
            file.sync(Barrier::BlobBeforeName)?;
        }
        self.history.ack(ticket);
        self.model.apply(&Change::Rot);
        self.reopen()
    }

    /// Repairs, and expects the repair to be done once it is acknowledged. A repair without work,
    /// because a killed process did it, is durable with the next commit.
    fn repair(&mut self) -> OperationResult<()> {
        let before = self.pool()?.generation();
        let ticket = self.history.begin(Change::Repair);
        let depth = CheckDepth::ALL;
        let go_on = &mut |_, _| ControlFlow::Continue(());
        match self.pool()?.repair(depth, lane_options(), go_on) {
            Err(e) => {
                self.in_flight = Some((ticket, Change::Repair));
                return Err(e.into());
            }
            Ok(repair) if !repair.remaining.is_sound() => {
                return Err(format!("repair leaves {:?}", repair.remaining).into());
            }
            Ok(_) => self.unsettled.push(ticket),
        }
        if self.pool()?.generation() != before {
            self.unsettled
                .drain(..)
                .for_each(|ticket| self.history.ack(ticket));
        }
        self.model.apply(&Change::Repair);
        Ok(())
    }

    /// Returns the next state of a source, slightly changed.
    fn changed(&mut self, what: What) -> Source {
        let mut seed = self.seed.part(self.seed.clone().draw());
        self.seed.draw();
        if let Some((_, source)) = self.sources.iter_mut().find(|(w, _)| *w == what) {
            source.change(&mut seed);
            return source.clone();
        }
        let source = Source::new(what, &mut seed);
        self.sources.push((what, source.clone()));
        source
    }

    /// Runs `work` as `change`.
    fn tell<T>(
        &mut self,
        change: Change,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> OperationResult<T> {
        let ticket = self.history.begin(change.clone());
        let done = work(self);
        match done {
            Ok(value) => {
                for earlier in self.unsettled.drain(..) {
                    self.history.ack(earlier);
                }
                self.history.ack(ticket);
                self.model.apply(&change);
                Ok(value)
            }
            Err(e) => {
                self.in_flight = Some((ticket, change));
                Err(e.into())
            }
        }
    }

    fn pool(&self) -> Result<&Pool, StoreError> {
        let none = || StoreError::new(store::StoreErrorKind::NoPool, "not open");
        self.pool.as_deref().ok_or_else(none)
    }

    fn reopen(&mut self) -> OperationResult<()> {
        self.collector = None;
        self.pool = None;
        self.look_around()
    }

    /// Opens the pool for writing in a new process and finds out whether a change in flight took
    /// place.
    fn look_around(&mut self) -> OperationResult<()> {
        let mut with = self.model.clone();
        let in_flight = self.in_flight.take();
        if let Some((_, change)) = &in_flight {
            with.apply(change);
        }
        self.salt += 1;
        let candidates = [&self.model, &with];
        let found = FoundPool::open(&self.disk, self.salt, OpenMode::Write, &candidates)?;
        if found.is(&self.model) {
            if let Some((ticket, _)) = in_flight {
                self.history.forget(ticket);
            }
        } else if found.is(&with) {
            self.unsettled.extend(in_flight.map(|(ticket, _)| ticket));
            self.model = with;
        } else {
            let found = found.against(&candidates);
            return Err(format!("after a process that died: {found}").into());
        }
        self.pool = found.pool.map(Arc::new);
        Ok(())
    }
}

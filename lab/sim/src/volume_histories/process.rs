//! Runs a history of volumes: consecutive processes on one disk, and their acknowledgements.
//! `VolumeHistory` calls this.
//!
//! Invariant: a change is acknowledged to the explorer when the store has acknowledged it, never
//! before.

use super::model::{SECTOR_BYTES, VolumeChange, VolumeContents, renamed};
use super::ops::VolumeOp;
use super::setup::{
    CONTEXT, Files, bytes_of, fast_files, init, open_placed, pages_of, placement, read_volume,
    step_caches,
};
use crate::pool_histories::{at_once, lane_options};
use crate::{History, SimDisk};
use format::journal_place::JournalPlace;
use format::snapshot::Snapshot;
use maintenance::Collector;
use media::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Mover;
use volume::{Durability, Volume};
use volumes::{CheckpointStep, VolumeHandle, Volumes};

/// A process that serves volumes. See the module's head.
pub struct VolumeProcess<'h> {
    disk: Arc<SimDisk>,
    history: &'h History<VolumeChange>,
    volumes: Option<Volumes>,
    /// A gc run beside other operations.
    collector: Option<Collector>,
    seed: u64,
    /// Where the journal is to be; `None` without a fast device.
    place: Option<JournalPlace>,
    /// Contents of the fast device when each process had opened it.
    pub opened: Vec<Files>,
    salt: u64,
    /// Contents as a reader sees them.
    now: BTreeMap<String, VolumeContents>,
    snapshots: Vec<(Snapshot, VolumeContents)>,
    names: u64,
    tags: u64,
}

fn words(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl<'h> VolumeProcess<'h> {
    /// Creates a pool and opens it. `place`: where the journal is, with a fast device.
    pub fn start(
        disk: &Arc<SimDisk>,
        history: &'h History<VolumeChange>,
        seed: u64,
        place: Option<JournalPlace>,
    ) -> Result<Self, String> {
        init(disk, seed).map_err(words)?;
        let mut process = Self {
            disk: Arc::clone(disk),
            history,
            volumes: None,
            collector: None,
            seed,
            place,
            opened: Vec::new(),
            salt: seed << 11,
            now: BTreeMap::new(),
            snapshots: Vec::new(),
            names: 0,
            tags: 0,
        };
        process.open()?;
        Ok(process)
    }

    /// Drops the last process without a flush. Returns what the fast device had when each process
    /// had opened it.
    pub fn finish(mut self) -> Vec<Files> {
        self.volumes = None;
        self.opened
    }

    fn open(&mut self) -> Result<(), String> {
        self.collector = None;
        self.volumes = None;
        self.salt += 1;
        let placement = placement(&self.disk, self.place);
        let volumes = open_placed(&self.disk, self.seed, self.salt, &placement).map_err(words)?;
        let number = self.opened.len();
        self.opened.push(fast_files(&self.disk));
        let ticket = self.history.begin(VolumeChange::Opened(number));
        self.history.ack(ticket);
        if let Some(damage) = volumes.damage().first() {
            return Err(format!("damage without a cause: {damage:?}"));
        }
        // Writes that the last process had not flushed may be there or not: read them.
        for (name, contents) in &mut self.now {
            let volume = volumes.volume(name).ok_or("a volume is gone")?;
            let found = read_volume(&volume)?;
            let pages = found.pages.iter().copied().enumerate().collect();
            let change = VolumeChange::Write(name.clone(), pages);
            let ticket = self.history.begin(change);
            self.history.ack(ticket);
            *contents = found;
        }
        self.volumes = Some(volumes);
        Ok(())
    }

    /// Runs `op`.
    pub fn run(&mut self, op: &VolumeOp) -> Result<(), String> {
        let VolumeOp::Killed(after, op) = op else {
            self.act(op)?;
            step_caches(self.volumes()?);
            return Ok(());
        };
        self.disk.kill_after(*after);
        let result = self.act(op);
        let dead = self.disk.list("").is_err();
        self.collector = None;
        self.volumes = None;
        self.disk = self.disk.kill();
        match result {
            Err(why) if !dead => Err(why),
            _ => self.open(),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    fn act(&mut self, op: &VolumeOp) -> Result<(), String> {
        match op {
            VolumeOp::Create(sectors, log2) => {
                let name = self.new_name();
                let contents = VolumeContents::zeroes(sectors * SECTOR_BYTES as u64);
                let change = VolumeChange::Put(name.clone(), contents.clone());
                let size = contents.size;
                self.tell(change, |volumes| volumes.create(&name, size, *log2))?;
                self.now.insert(name, contents);
            }
            VolumeOp::Write(volume, first, count) => {
                self.write(*volume, *first, *count, false, Durability::Volatile)?;
            }
            VolumeOp::WriteKnown(volume, first, count) => {
                self.write(*volume, *first, *count, true, Durability::Volatile)?;
            }
            VolumeOp::Collect => {
                self.collector = None;
                self.collect(usize::MAX)?;
            }
            VolumeOp::Defragment => self.defragment()?,
            VolumeOp::CollectSteps(count) => self.collect(*count)?,
            VolumeOp::WriteDurable(volume, first, count) => {
                self.write(*volume, *first, *count, false, Durability::Durable)?;
            }
            VolumeOp::Discard(volume, first, count) => self.discard(*volume, *first, *count)?,
            VolumeOp::Flush(volume) => {
                if let Some((name, handle)) = self.pick(*volume)? {
                    let change = VolumeChange::Flush(name);
                    self.history
                        .op(change, || handle.flush(CONTEXT))
                        .map_err(words)?;
                }
            }
            VolumeOp::Step(budget) => drop(self.volumes()?.step(*budget).map_err(words)?),
            VolumeOp::Close => {
                self.collector = None;
                self.volumes()?.close().map_err(words)?;
                self.open()?;
            }
            VolumeOp::MoveJournal(place) => {
                self.place = Some(*place);
                self.open()?;
            }
            VolumeOp::Part(room) => {
                let volumes = self.volumes()?;
                while volumes.step_within(8192, *room).map_err(words)? == CheckpointStep::Working {}
            }
            VolumeOp::Checkpoint => self.volumes()?.checkpoint().map_err(words)?,
            VolumeOp::Snapshot(volume) => {
                if let Some((name, _)) = self.pick(*volume)? {
                    self.names += 1;
                    let label = format!("s{}", self.names);
                    let contents = self.now[&name].clone();
                    let full = format!("{name}@{label}");
                    let change = VolumeChange::Snapshot(full, contents.clone());
                    let made = self.tell(change, |volumes| volumes.snapshot(&name, &label))?;
                    self.snapshots.push((made, contents));
                }
            }
            VolumeOp::Clone(volume) => {
                if let Some((source, _)) = self.pick(*volume)? {
                    let name = self.new_name();
                    let contents = self.now[&source].clone();
                    let change = VolumeChange::Put(name.clone(), contents.clone());
                    self.tell(change, |volumes| volumes.clone_volume(&name, &source))?;
                    self.now.insert(name, contents);
                }
            }
            VolumeOp::CloneSnapshot => {
                if let Some((snapshot, contents)) = self.snapshots.last().cloned() {
                    let name = self.new_name();
                    let change = VolumeChange::Put(name.clone(), contents.clone());
                    self.tell(change, |volumes| volumes.clone_snapshot(&name, &snapshot))?;
                    self.now.insert(name, contents);
                }
            }
            VolumeOp::Resize(volume, sectors) => {
                if let Some((name, _)) = self.pick(*volume)? {
                    let size = sectors * SECTOR_BYTES as u64;
                    let contents = self.now[&name].resized(size);
                    let change = VolumeChange::Put(name.clone(), contents.clone());
                    self.tell(change, |volumes| volumes.resize(&name, size))?;
                    self.now.insert(name, contents);
                }
            }
            VolumeOp::Rollback(volume) => self.roll_back(*volume)?,
            VolumeOp::Delete(volume) => {
                if let Some((name, _)) = self.pick(*volume)? {
                    let change = VolumeChange::Delete(name.clone());
                    self.tell(change, |volumes| volumes.delete(&name))?;
                    self.now.remove(&name);
                }
            }
            VolumeOp::Rename(volume) => {
                if let Some((name, _)) = self.pick(*volume)? {
                    let new = self.new_name();
                    let change = VolumeChange::Rename(name.clone(), new.clone());
                    self.tell(change, |volumes| volumes.rename(&name, &new))?;
                    if let Some(contents) = self.now.remove(&name) {
                        self.now.insert(new.clone(), contents);
                    }
                    for (snapshot, _) in &mut self.snapshots {
                        snapshot.name = renamed(&snapshot.name, &name, &new);
                    }
                }
            }
            VolumeOp::Reopen => self.open()?,
            VolumeOp::Killed(_, op) => self.act(op)?,
        }
        Ok(())
    }

    fn roll_back(&mut self, volume: usize) -> Result<(), String> {
        let Some((name, _)) = self.pick(volume)? else {
            return Ok(());
        };
        let own = format!("{name}@");
        let found = self.snapshots.iter().rev();
        let found = found.clone().find(|(s, _)| s.name.starts_with(&own));
        if let Some((snapshot, contents)) = found.cloned() {
            let change = VolumeChange::Put(name.clone(), contents.clone());
            self.tell(change, |volumes| volumes.rollback(&name, &snapshot))?;
            self.now.insert(name, contents);
        }
        Ok(())
    }

    fn write(
        &mut self,
        volume: usize,
        first: u64,
        count: u64,
        known: bool,
        durability: Durability,
    ) -> Result<(), String> {
        let Some((name, handle)) = self.pick(volume)? else {
            return Ok(());
        };
        let Some((first, count)) = self.range(&name, first, count) else {
            return Ok(());
        };
        self.tags += 1;
        let write = if known { 0 } else { self.tags };
        let names = if known { 0xff } else { self.names };
        let tag = |sector: u64| (write << 32) | (names << 16) | sector;
        let tags: Vec<u64> = (first..first + count).map(tag).collect();
        let pages = pages_of(first, &tags, &self.now[&name]);
        self.note(&name, &pages);
        let change = VolumeChange::Write(name.clone(), pages);
        let bytes = bytes_of(&tags);
        let offset = first * SECTOR_BYTES as u64;
        self.history
            .op(change, || {
                handle.write(CONTEXT, offset, &bytes, Durability::Volatile)
            })
            .map_err(words)?;
        if durability == Durability::Durable {
            // The same write again, durable: it makes these pages durable.
            let contents = &self.now[&name];
            let pages = pages_of(first, &tags, contents);
            let change = VolumeChange::Durable(name, pages);
            self.history
                .op(change, || handle.write(CONTEXT, offset, &bytes, durability))
                .map_err(words)?;
        }
        Ok(())
    }

    fn collect(&mut self, steps: usize) -> Result<(), String> {
        let volumes = self.volumes.as_ref().ok_or("not open")?;
        let pool = volumes.pool();
        let collector = match &mut self.collector {
            Some(collector) => collector,
            none => none.insert(Collector::new(pool, at_once(), lane_options()).map_err(words)?),
        };
        if crate::gc::steps(collector, pool, Some(volumes), (steps, 3000)).map_err(words)? {
            self.collector = None;
        }
        Ok(())
    }

    fn defragment(&self) -> Result<(), String> {
        let volumes = self.volumes()?;
        let pool = volumes.pool();
        let mut mover = Mover::begin(pool, lane_options()).map_err(words)?;
        for one in volumes.fragmentables().map_err(words)? {
            let whole = 0..one.root.len;
            let moved = mover.move_parts(pool, volumes, &one.root, &[whole]);
            moved.map_err(words)?;
        }
        mover.commit(pool).map(drop).map_err(words)
    }

    fn discard(&mut self, volume: usize, first: u64, count: u64) -> Result<(), String> {
        let Some((name, handle)) = self.pick(volume)? else {
            return Ok(());
        };
        let Some((first, count)) = self.range(&name, first, count) else {
            return Ok(());
        };
        let tags = vec![0; count as usize];
        let pages = pages_of(first, &tags, &self.now[&name]);
        self.note(&name, &pages);
        let change = VolumeChange::Write(name, pages);
        let (offset, len) = (first * SECTOR_BYTES as u64, count * SECTOR_BYTES as u64);
        self.history
            .op(change, || handle.discard(CONTEXT, offset, len))
            .map_err(words)
    }

    /// Returns the range inside the volume; `None` if that has no sectors.
    fn range(&self, name: &str, first: u64, count: u64) -> Option<(u64, u64)> {
        let sectors = self.now[name].size / SECTOR_BYTES as u64;
        let first = first.checked_rem(sectors)?;
        Some((first, count.min(sectors - first)))
    }

    fn note(&mut self, name: &str, pages: &[(usize, super::Page)]) {
        if let Some(contents) = self.now.get_mut(name) {
            for (number, page) in pages {
                contents.pages[*number] = *page;
            }
        }
    }

    fn pick(&self, number: usize) -> Result<Option<(String, VolumeHandle)>, String> {
        let Some(at) = number.checked_rem(self.now.len()) else {
            return Ok(None);
        };
        let name = self.now.keys().nth(at).cloned().unwrap_or_default();
        let handle = self.volumes()?.volume(&name).ok_or("no such volume")?;
        Ok(Some((name, handle)))
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn volumes(&self) -> Result<&Volumes, String> {
        self.volumes.as_ref().ok_or_else(|| "not open".to_owned())
    }

    fn tell<T>(
        &self,
        change: VolumeChange,
        work: impl FnOnce(&Volumes) -> store::Result<T>,
    ) -> Result<T, String> {
        let volumes = self.volumes()?;
        self.history.op(change, || work(volumes)).map_err(words)
    }
}

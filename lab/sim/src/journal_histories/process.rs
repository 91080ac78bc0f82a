//! Runs the operations of a history and records the acknowledgements. The scenario calls this.
//!
//! Invariant: it reports to the history what a volume would acknowledge to its clients, no more.

use super::checkpoint::{Checkpoint, text};
use super::records::{open, with_record};
use super::{Fact, JournalOp, Size};
use crate::{History, SimDisk};
use format::config::Seal;
use std::sync::Arc;
use store::{StoreError, StoreErrorKind};
use units::JournalPosition;
use volumes::Journal;

/// The process that has the journal open, and its successors.
pub(super) struct Process<'a> {
    disk: Arc<SimDisk>,
    history: &'a History<Fact>,
    seal: Seal,
    journal: Journal,
    checkpoint: Checkpoint,
    /// Number and position of all records that may still be needed.
    records: Vec<(u64, JournalPosition)>,
    /// Number of the next record.
    next: u64,
}

/// Reason why an operation ended.
enum Stopped {
    /// The process died.
    Dead,
    Wrong(String),
}

impl From<StoreError> for Stopped {
    fn from(e: StoreError) -> Self {
        match e.kind {
            StoreErrorKind::Media(_) => Self::Dead,
            _ => Self::Wrong(e.to_string()),
        }
    }
}

impl<'a> Process<'a> {
    /// Starts the first process.
    pub(super) fn start(
        disk: &Arc<SimDisk>,
        history: &'a History<Fact>,
        seal: Seal,
    ) -> Result<Self, String> {
        let checkpoint = Checkpoint::default();
        Ok(Self {
            journal: open(disk, seal, checkpoint.from)?.journal,
            disk: Arc::clone(disk),
            history,
            seal,
            checkpoint,
            records: Vec::new(),
            next: 0,
        })
    }

    /// Runs an operation. Starts another process if this one dies.
    pub(super) fn run(&mut self, op: &JournalOp) -> Result<(), String> {
        let result = match *op {
            JournalOp::Append(count, size) => (0..count).try_for_each(|_| self.append(size)),
            JournalOp::Flush => self.flush(),
            JournalOp::Checkpoint(back) => self.checkpoint(back),
            JournalOp::Kill => Err(Stopped::Dead),
            JournalOp::KillAfter(operations) => {
                self.disk.kill_after(operations);
                Ok(())
            }
        };
        match result {
            Ok(()) => Ok(()),
            Err(Stopped::Wrong(why)) => Err(why),
            Err(Stopped::Dead) => self.follow(),
        }
    }

    fn append(&mut self, size: Size) -> Result<(), Stopped> {
        let number = self.next;
        let append = |journal: &Journal| with_record(number, size, |r| journal.append(r));
        let at = match append(&self.journal) {
            Err(e) if e.kind == StoreErrorKind::JournalFull => {
                self.checkpoint(0)?;
                append(&self.journal)?
            }
            appended => appended?,
        };
        self.next += 1;
        self.records.push((number, at));
        Ok(self.journal.write_out()?)
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        let fact = Fact::Flushed(self.next, self.journal.head());
        self.history.op(fact, || self.journal.flush())?;
        self.tell(Fact::Reached(self.journal.reached()));
        Ok(())
    }

    fn checkpoint(&mut self, back: u64) -> Result<(), Stopped> {
        let kept = self.records.len().saturating_sub(back as usize);
        let (first, from) = match self.records.get(kept) {
            Some(record) => *record,
            None => (self.next, self.journal.head()),
        };
        self.checkpoint = Checkpoint {
            generation: self.checkpoint.generation + 1,
            from,
            first,
        };
        self.store_checkpoint().map_err(|_| Stopped::Dead)?;
        self.journal.trim(from);
        self.records.drain(..kept);
        Ok(())
    }

    fn store_checkpoint(&self) -> Result<(), String> {
        let fact = Fact::Needless(self.checkpoint.first);
        self.history.op(fact, || self.checkpoint.store(&self.disk))
    }

    /// Starts the next process, which finds the contents of the page cache.
    fn follow(&mut self) -> Result<(), String> {
        self.disk = self.disk.kill();
        self.checkpoint = Checkpoint::newest(&self.disk)?;
        if self.checkpoint.generation > 0 {
            // Its process may have died before it was durable: store it again under another name.
            self.checkpoint.generation += 1;
            self.store_checkpoint()?;
        }
        let found = open(&self.disk, self.seal, self.checkpoint.from)?;
        if !found.damage.is_empty() {
            return Err(text(&found.damage[0]));
        }
        self.records
            .retain(|(number, _)| *number >= self.checkpoint.first);
        let survivors = found.records.len();
        if self.records.get(..survivors) != Some(&found.records) {
            return Err(format!(
                "the next process finds {:?} of {:?}",
                found.records, self.records
            ));
        }
        self.records.truncate(survivors);
        let first_lost = found
            .records
            .last()
            .map_or(self.checkpoint.first, |(n, _)| n + 1);
        self.tell(Fact::Lost(first_lost..self.next));
        if let Some((_, last)) = found.records.last()
            && found.journal.head() <= *last
        {
            return Err(format!("positions begin again at {}", found.journal.head()));
        }
        self.journal = found.journal;
        Ok(())
    }

    fn tell(&self, fact: Fact) {
        self.history.ack(self.history.begin(fact));
    }
}

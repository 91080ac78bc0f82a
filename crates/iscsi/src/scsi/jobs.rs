//! Runs the jobs of commands on the volume. Workers call this, and sessions for jobs that need not
//! wait.
//!
//! Invariant: a job that compares before it writes sees no change of another command in between.
//! Memory beside the data of the command is at most [`PIECE_BYTES`].

use super::action::{Job, Refusal, Span, Work};
use super::admission::{context, in_range};
use super::cdb::Compare;
use super::inquiry::UNMAP_BYTES_MAX;
use super::mode::{self, Mode};
use super::parameters;
use super::reservations::{Nexus, Port, Use};
use super::sense::Sense;
use super::task_set::{Facts, Ticket};
use super::unit::Unit;
use std::ops::{ControlFlow, Range};
use units::IoClass;
use volume::{Durability, Volume, VolumeError};

/// Largest read of a comparison, and largest write of a pattern, bytes.
const PIECE_BYTES: usize = 256 << 10;
/// Largest range that is zeroed or freed before another look at whether to go on, bytes.
const FREED_PIECE_BYTES: u64 = 64 << 20;
/// Maximum number of descriptors of GET LBA STATUS.
const STATUSES_MAX: u64 = 1024;
/// Service action of PERSISTENT RESERVE OUT. It waits for tasks of others.
const PREEMPT_AND_ABORT: u8 = 5;

fn reading(error: VolumeError) -> Refusal {
    Sense::of(error.kind, false).into()
}

fn writing(error: VolumeError) -> Refusal {
    Sense::of(error.kind, true).into()
}

/// Fails if the task was aborted.
fn go_on(ticket: &Ticket) -> Result<(), Refusal> {
    match ticket.is_stopping() {
        true => Err(Refusal::Aborted),
        false => Ok(()),
    }
}

/// Returns the use of the unit that reservations may forbid.
fn use_of(work: &Work) -> Use {
    match work {
        Work::Verify { .. } | Work::LbaStatus { .. } => Use::Read,
        Work::PersistentOut { .. } => Use::Status,
        _ => Use::Write,
    }
}

impl Unit {
    /// Runs a job with its data. Returns the data for the initiator, or `None` if the job would
    /// have to wait although it has no ticket; then nothing was done.
    pub(crate) fn run(
        &self,
        nexus: &Nexus,
        job: &Job,
        data: &[u8],
        ticket: Option<&Ticket>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(ticket) = ticket else {
            let _at_once = nexus.tasks.at_once();
            self.recheck(nexus, use_of(&job.work))?;
            return self.run_now(nexus, job, data);
        };
        self.recheck(nexus, use_of(&job.work))?;
        match job.work {
            Work::Write { span, fua, verify } => {
                let _shared = self.changes.shared(span.bytes());
                self.store(span, data, fua)?;
                if let Some(compare) = verify {
                    self.compare(span, compare, data, ticket)?;
                }
            }
            Work::OrWrite { span, fua } => {
                let _alone = self.changes.alone(span.bytes());
                let mut merged = vec![0; data.len()];
                let volume = self.volume();
                let read = volume.read(span.context, span.offset_bytes, &mut merged);
                read.map_err(reading)?;
                merged
                    .iter_mut()
                    .zip(data)
                    .for_each(|(old, new)| *old |= new);
                self.store(span, &merged, fua)?;
            }
            Work::CompareAndWrite { span, fua } => {
                let half = (span.len_bytes as usize).min(data.len());
                let (old, new) = data.split_at(half);
                let _alone = self.changes.alone(span.bytes());
                self.compare(span, Compare::All, old, ticket)?;
                self.store(span, new, fua)?;
            }
            Work::Verify { span, compare } => self.compare(span, compare, data, ticket)?,
            Work::WriteSame {
                span,
                unmap,
                no_data,
            } => {
                let pattern = if no_data { &[][..] } else { data };
                self.write_same(span, unmap, pattern, ticket)?;
            }
            Work::Unmap { class } => self.unmap(class, data, ticket)?,
            Work::Flush { class } => {
                let flushed = self.volume().flush(context(class.0));
                flushed.map_err(writing)?;
            }
            Work::LbaStatus { lba, allocation } => {
                return self.lba_status(lba, allocation).map(Some);
            }
            Work::ModeSelect { long } => self.select_mode(nexus, long, data)?,
            Work::PersistentOut { .. } => self.settle(nexus, job, data)?,
        }
        Ok(Some(Vec::new()))
    }

    /// Runs a job if that need not wait.
    fn run_now(&self, nexus: &Nexus, job: &Job, data: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        match job.work {
            Work::Write {
                span,
                fua: false,
                verify: None,
            } => {
                let Some(_shared) = self.changes.try_shared(span.bytes()) else {
                    return Ok(None);
                };
                if !self.mode().write_cache {
                    return Ok(None);
                }
                let abilities = self.volume().capabilities();
                let written = abilities.write_now(span.context, span.offset_bytes, data);
                Ok(written.map_err(writing)?.then(Vec::new))
            }
            // Otherwise it may have to be durable first.
            Work::PersistentOut {
                action: 0..=4 | 6, ..
            } if !self.keeps_reservations() => {
                self.settle(nexus, job, data)?;
                Ok(Some(Vec::new()))
            }
            _ => Ok(None),
        }
    }

    /// Changes the mode. When the write cache goes off, its writes become durable before this
    /// returns (SBC-3, 6.4.5). If that fails, the write cache stays on.
    fn select_mode(&self, nexus: &Nexus, long: bool, data: &[u8]) -> Result<(), Refusal> {
        let had_cache = self.mode().write_cache;
        let sizes = self.geometry().sizes();
        self.set_mode(nexus, |mode| mode::select(mode, long, data, sizes))?;
        let settled = self.settle_cache(had_cache);
        if settled.is_err() {
            self.set_mode(nexus, |mode| {
                Ok(Mode {
                    write_cache: true,
                    ..mode
                })
            })?;
        }
        settled
    }

    /// Resets the unit ([`Unit::reset`]). When that switches the write cache off, its writes become
    /// durable.
    pub(crate) fn reset_and_settle(&self) -> Result<(), Refusal> {
        let had_cache = self.mode().write_cache;
        self.reset();
        self.settle_cache(had_cache)
    }

    /// Makes writes durable if the write cache has been switched off.
    fn settle_cache(&self, had_cache: bool) -> Result<(), Refusal> {
        if !had_cache || self.mode().write_cache || self.is_read_only {
            return Ok(());
        }
        // Those that still saw the cache end first.
        drop(self.changes.alone(0..u64::MAX));
        self.volume().flush(context(0)).map_err(writing)
    }

    /// Runs PERSISTENT RESERVE OUT.
    fn settle(&self, nexus: &Nexus, job: &Job, data: &[u8]) -> Result<(), Refusal> {
        let Work::PersistentOut {
            action,
            scope,
            kind,
        } = job.work
        else {
            return Ok(());
        };
        let keys = parameters::keys(data)?;
        let notices = self.change_reservations(nexus, (action, scope, kind), &keys)?;
        if action == PREEMPT_AND_ABORT {
            let is_preempted = |port: &Port| {
                let mut all = notices.iter();
                all.any(|n| *n.0 == *port && n.1 == Sense::REGISTRATIONS_PREEMPTED)
            };
            self.abort_others(nexus, |other| is_preempted(&other.port));
        }
        Ok(())
    }

    fn store(&self, span: Span, data: &[u8], fua: bool) -> Result<(), Refusal> {
        // The write cache may have been switched off since the command was admitted.
        let durability = if fua || !self.mode().write_cache {
            Durability::Durable
        } else {
            Durability::Volatile
        };
        let volume = self.volume();
        let written = volume.write(span.context, span.offset_bytes, data, durability);
        written.map_err(writing)
    }

    /// Compares the blocks of a span with data, or only reads them.
    fn compare(
        &self,
        span: Span,
        compare: Compare,
        data: &[u8],
        ticket: &Ticket,
    ) -> Result<(), Refusal> {
        let len = match compare {
            Compare::All => data.len() as u64,
            Compare::Medium | Compare::One => span.len_bytes,
        };
        let mut bytes = vec![0; PIECE_BYTES.min(len as usize)];
        let mut at = 0;
        while at < len {
            go_on(ticket)?;
            let now = (len - at).min(bytes.len() as u64) as usize;
            let piece = bytes.get_mut(..now).unwrap_or_default();
            let read = self
                .volume()
                .read(span.context, span.offset_bytes + at, piece);
            read.map_err(reading)?;
            let wanted = data.get(at as usize..).unwrap_or_default();
            let differs = match compare {
                Compare::Medium => None,
                Compare::All => difference(piece, wanted.iter()),
                // Pieces are whole blocks.
                Compare::One => difference(piece, data.iter().cycle()),
            };
            if let Some(differs) = differs {
                let of_block = match compare {
                    Compare::One => (at + differs) % self.block_bytes(),
                    Compare::All | Compare::Medium => at + differs,
                };
                return Err(Sense::miscompare(of_block).into());
            }
            at += now as u64;
        }
        Ok(())
    }

    /// Writes a pattern, or zeroes, or frees.
    fn write_same(
        &self,
        span: Span,
        unmap: bool,
        pattern: &[u8],
        ticket: &Ticket,
    ) -> Result<(), Refusal> {
        let (volume, context) = (self.volume(), span.context);
        let is_zero = pattern.iter().all(|byte| *byte == 0);
        if is_zero && unmap {
            self.in_pieces(span.bytes(), FREED_PIECE_BYTES, ticket, |offset, len| {
                volume.discard(context, offset, len)
            })?;
        } else if is_zero {
            self.in_pieces(span.bytes(), FREED_PIECE_BYTES, ticket, |offset, len| {
                volume.write_zeroes(context, offset, len, true, Durability::Volatile)
            })?;
        } else {
            let len = (PIECE_BYTES as u64).min(span.len_bytes);
            let piece = pattern.iter().copied().cycle();
            let piece: Vec<u8> = piece.take(len as usize).collect();
            self.in_pieces(span.bytes(), len, ticket, |offset, len| {
                let bytes = piece.get(..len as usize).unwrap_or_default();
                volume.write(context, offset, bytes, Durability::Volatile)
            })?;
        }
        self.settle_volatile(context.class)
    }

    /// Changes bytes in pieces, each with its offset and length. Other commands may come between
    /// them: one that compares waits for a piece, not for all.
    fn in_pieces(
        &self,
        bytes: Range<u64>,
        piece_bytes: u64,
        ticket: &Ticket,
        change: impl Fn(u64, u64) -> Result<(), VolumeError>,
    ) -> Result<(), Refusal> {
        let mut at = bytes.start;
        while at < bytes.end {
            go_on(ticket)?;
            let now = (bytes.end - at).min(piece_bytes);
            let _shared = self.changes.shared(at..at + now);
            change(at, now).map_err(writing)?;
            at += now;
        }
        Ok(())
    }

    fn unmap(&self, class: IoClass, list: &[u8], ticket: &Ticket) -> Result<(), Refusal> {
        let ranges = parameters::unmap(list)?;
        let size = self.blocks();
        let mut total = 0_u64;
        for (lba, blocks) in &ranges {
            in_range(*lba, *blocks, size)?;
            total = total.saturating_add(*blocks);
        }
        if total.saturating_mul(self.block_bytes()) > UNMAP_BYTES_MAX {
            return Err(Sense::INVALID_FIELD_IN_LIST.into());
        }
        for (lba, blocks) in ranges {
            let (offset, len) = (lba * self.block_bytes(), blocks * self.block_bytes());
            let bytes = offset..offset + len;
            self.in_pieces(bytes, FREED_PIECE_BYTES, ticket, |offset, len| {
                self.volume().discard(context(class.0), offset, len)
            })?;
        }
        self.settle_volatile(class)
    }

    /// Makes what a command did durable if the write cache is off: once, not for each piece.
    fn settle_volatile(&self, class: IoClass) -> Result<(), Refusal> {
        match self.mode().write_cache {
            true => Ok(()),
            false => self.volume().flush(context(class.0)).map_err(writing),
        }
    }

    /// Returns the data of GET LBA STATUS (SBC-4, 5.7): which blocks are mapped, from `lba` on.
    fn lba_status(&self, lba: u64, allocation: u64) -> Result<Vec<u8>, Refusal> {
        let block = self.block_bytes();
        let size = self.blocks();
        in_range(lba, 1, size)?;
        let count_max = (allocation.saturating_sub(8) / 16).clamp(1, STATUSES_MAX) as usize;
        let end = size.min(lba + UNMAP_BYTES_MAX / block);
        // Runs of blocks: first block, and whether it is a hole. The first byte of a block decides
        // for data; a block is a hole only as a whole.
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut until = lba;
        let (offset, len) = (lba * block, (end - lba) * block);
        let visit = &mut |extent: volume::Extent| {
            let extent_end = extent.offset_bytes + extent.len_bytes;
            let (first, last) = match extent.hole {
                true => (extent.offset_bytes.div_ceil(block), extent_end / block),
                false => (extent.offset_bytes / block, extent_end.div_ceil(block)),
            };
            let (first, last) = (first.max(until), last.min(end));
            if first >= last {
                return ControlFlow::Continue(());
            }
            if first > until && runs.last().is_none_or(|(_, hole)| *hole) {
                // A block that is a hole only in part.
                runs.push((until, false));
            }
            if runs.last().is_none_or(|(_, hole)| *hole != extent.hole) {
                runs.push((first, extent.hole));
            }
            until = last;
            match runs.len() > count_max {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let visited = self.volume().extents(context(0), offset, len, visit);
        visited.map_err(reading)?;
        let ends = runs.iter().skip(1).map(|(first, _)| *first);
        let ends: Vec<u64> = ends.chain([until]).collect();
        let mut out = vec![0; 8];
        for ((first, hole), next) in runs.iter().zip(ends).take(count_max) {
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&((next - first).min(u64::from(u32::MAX)) as u32).to_be_bytes());
            out.extend_from_slice(&[u8::from(*hole), 0, 0, 0]);
        }
        let len = (out.len() as u32 - 4).to_be_bytes();
        out[..4].copy_from_slice(&len);
        out.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
        Ok(out)
    }
}

/// Returns the first position where `bytes` differ from what is wanted.
fn difference<'a>(bytes: &[u8], wanted: impl Iterator<Item = &'a u8>) -> Option<u64> {
    let mut pairs = bytes.iter().zip(wanted);
    pairs.position(|(a, b)| a != b).map(|at| at as u64)
}

impl Unit {
    /// Admits a command and runs it with this data, for fuzzers.
    pub(crate) fn admit_and_run(&self, nexus: &Nexus, cdb: &super::cdb::Cdb, data: &[u8]) {
        let Ok(action) = self.admit(nexus, cdb, &[0]) else {
            return;
        };
        if let super::action::Action::Job(job) = action
            && job.data_bytes <= 1 << 20
        {
            let mut data = data.to_vec();
            data.resize(job.data_bytes as usize, 0);
            let _ = self.run(nexus, &job, &data, None);
            let ticket = nexus.tasks.enter(Facts::default());
            let _ = self.run(nexus, &job, &data, Some(&ticket));
        }
    }
}

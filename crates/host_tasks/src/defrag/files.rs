//! The files of a run, and their units: planned in the order of the tree, moved in the driver's.
//! `host_defrag` owns it, `duet`'s driver calls it.
//!
//! Invariant: a unit is moved only if its path still names the file that was planned. A file with
//! several names is looked at once. A file is done when all of it is planned and no unit waits.

use super::HostDefragOptions;
use super::outcome::{HostDefragOutcome, HostFile};
use duet::{Page, Processed, Task, Work};
use linux_host::{
    FileId, Histogram, Limits, MigrationError, Mirror, STEP_BYTES, Skipped, SpanOptions, Target,
    Walked, WalkedFile, Walker, Wanted, defragment_file, plan_span,
};
use machine::{Mount, PAGE_BYTES, cached};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that are looked at in a step at most.
pub(super) const FILES_AT_ONCE: usize = 64;
/// A part is the first page of a unit.
pub(super) const PART_BITS: u32 = 52;
/// Ranges of a unit at most: those that share a donor.
const RANGES_MAX: usize = 64;

/// No unit was found among [`FILES_AT_ONCE`] files. Ask again.
#[derive(Debug)]
pub(super) struct StillLooking;

/// Ranges of a file that are moved together.
struct Unit {
    ranges: Vec<Range<u64>>,
    bytes: u64,
    /// Pages in memory, and the look at which that was asked.
    asked: Cell<(u64, u64)>,
}

impl Unit {
    fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE_BYTES)
    }
}

/// A file of which units wait, or that is being planned.
struct Planned {
    path: PathBuf,
    id: FileId,
    /// By first page.
    units: BTreeMap<u64, Unit>,
    before: Histogram,
    is_planned: bool,
    /// Nothing more is moved of it.
    is_given_up: bool,
    outcome: HostDefragOutcome,
}

/// The file that is being planned.
struct Planning {
    number: u64,
    file: WalkedFile,
    from: u64,
    /// First pages of units that the driver has not been given.
    found: VecDeque<u64>,
}

/// See the module's head.
pub(super) struct Files {
    options: HostDefragOptions,
    mount: Mount,
    walker: Walker,
    is_walked: bool,
    planning: Option<Planning>,
    /// By the number that stands for a file in units of work.
    planned: BTreeMap<u64, Planned>,
    numbers: HashMap<FileId, u64>,
    /// The same, by the object that stands for the file in events.
    objects: HashMap<u64, u64>,
    next_number: u64,
    /// Files with several names that were looked at.
    seen: HashSet<(u64, u64)>,
    target: Option<(u64, Target)>,
    /// Number of the present look: what was asked before may have changed.
    look: u64,
    failed: Vec<(PathBuf, io::Error)>,
    pub before: Histogram,
    pub after: Histogram,
    pub looked_at: u64,
    pub waiting_bytes: u64,
    pub total: HostDefragOutcome,
    pub news: VecDeque<HostFile>,
}

impl Files {
    pub fn new(top: &Path, options: HostDefragOptions) -> io::Result<Self> {
        Ok(Self {
            options,
            mount: Mount::of(top)?,
            walker: Walker::once(top)?,
            is_walked: false,
            planning: None,
            planned: BTreeMap::new(),
            numbers: HashMap::new(),
            objects: HashMap::new(),
            next_number: 0,
            seen: HashSet::new(),
            target: None,
            look: 1,
            failed: Vec::new(),
            before: Histogram::default(),
            after: Histogram::default(),
            looked_at: 0,
            waiting_bytes: 0,
            total: HostDefragOutcome::default(),
            news: VecDeque::new(),
        })
    }

    /// Asks again about pages in memory, once for each unit that an event names.
    pub fn asks_again(&mut self, mirror: Option<&Mirror>) {
        self.look += 1;
        self.objects.clear();
        if let Some(mirror) = mirror {
            let objects = self
                .numbers
                .iter()
                .filter_map(|(id, number)| Some((mirror.object(*id)?, *number)));
            self.objects.extend(objects);
        }
    }

    /// Returns true when no more units come.
    pub fn is_planned(&self) -> bool {
        self.is_walked && self.planning.is_none()
    }

    /// Number of files and directories that could not be asked about, or that failed.
    pub fn failures(&self) -> u64 {
        (self.walker.walked().failed.len() + self.failed.len()) as u64
    }

    pub fn end(mut self) -> (Vec<HostFile>, Walked, Vec<(PathBuf, io::Error)>) {
        self.planning = None;
        let numbers: Vec<u64> = self.planned.keys().copied().collect();
        for number in numbers {
            self.finish(number);
        }
        (self.news.into(), self.walker.into_walked(), self.failed)
    }

    /// Takes the next file of the tree; none if it needs nothing.
    fn next_file(&mut self, walked: WalkedFile) -> io::Result<()> {
        let file = &walked.file;
        let metadata = file.metadata()?;
        let id = (metadata.dev(), metadata.ino());
        if metadata.nlink() > 1 && !self.seen.insert(id) {
            return Ok(());
        }
        let before = Histogram::of(file)?;
        self.looked_at += 1;
        self.before.add(&before);
        if before.pieces() <= 1 {
            self.total.add_pieces(before.pieces(), before.pieces());
            self.after.add(&before);
            return Ok(());
        }
        let id = FileId::of(file, &self.mount)?;
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(id, number);
        let planned = Planned {
            path: walked.path.clone(),
            id,
            units: BTreeMap::new(),
            before,
            is_planned: false,
            is_given_up: false,
            outcome: HostDefragOutcome::default(),
        };
        self.planned.insert(number, planned);
        let (from, found) = (0, VecDeque::new());
        self.planning = Some(Planning {
            number,
            file: walked,
            from,
            found,
        });
        Ok(())
    }

    /// Plans the next span of the file. Returns false at its end.
    fn plan(&mut self) -> io::Result<bool> {
        let Some(planning) = &mut self.planning else {
            return Ok(false);
        };
        let Some(planned) = self.planned.get_mut(&planning.number) else {
            return Ok(false);
        };
        if planned.is_given_up {
            return Ok(false);
        }
        let wanted = match &self.options.heat {
            None => Wanted::Windows,
            Some(ranges) => Wanted::Hot(ranges.of(&planning.file.file)?),
        };
        let options = SpanOptions {
            moves_shared: self.options.moves_shared,
            joins: self.options.joins,
        };
        let Some(span) = plan_span(&planning.file.file, planning.from, wanted, options)? else {
            return Ok(false);
        };
        planning.from = span.end;
        let number = planning.number;
        let mut outcome = HostDefragOutcome::default();
        for skipped in span.skipped {
            outcome.leave(skipped);
        }
        for (first, unit) in units(span.plan.ranges) {
            self.waiting_bytes += unit.bytes;
            planned.units.insert(first, unit);
            planning.found.push_back(first);
        }
        self.account(number, &outcome);
        Ok(true)
    }

    /// The file of `planning` has no more units.
    fn end_planning(&mut self, outcome: io::Result<()>) {
        let Some(planning) = self.planning.take() else {
            return;
        };
        if let Some(planned) = self.planned.get_mut(&planning.number) {
            planned.is_planned = true;
            let path = planned.path.clone();
            self.walker.note(&path, outcome);
        }
        self.finish_if_done(planning.number);
    }

    fn finish_if_done(&mut self, number: u64) {
        let is_done = |file: &Planned| file.is_planned && file.units.is_empty();
        if self.planned.get(&number).is_some_and(is_done) {
            self.finish(number);
        }
    }

    /// Sums a file up.
    fn finish(&mut self, number: u64) {
        let Some(mut planned) = self.planned.remove(&number) else {
            return;
        };
        self.numbers.remove(&planned.id);
        self.objects.retain(|_, of| *of != number);
        self.target.take_if(|(of, _)| *of == number);
        for unit in planned.units.values() {
            self.waiting_bytes -= unit.bytes;
        }
        let now = planned.id.open_at(&planned.path, &self.mount);
        let after = now.and_then(|file| Histogram::of(&file).ok());
        let after = after.unwrap_or_else(|| planned.before.clone());
        let (before, now) = (planned.before.pieces(), after.pieces());
        planned.outcome.add_pieces(before, now);
        self.total.add_pieces(before, now);
        self.after.add(&after);
        if planned.outcome.is_worth_showing() {
            self.news.push_back(HostFile {
                path: planned.path,
                outcome: planned.outcome,
            });
        }
    }

    /// Moves a unit, or decides what would be moved.
    fn move_unit(&mut self, number: u64, unit: Unit) -> HostDefragOutcome {
        let mut outcome = HostDefragOutcome::default();
        let Some(planned) = self.planned.get_mut(&number) else {
            return outcome;
        };
        if planned.is_given_up {
            return outcome;
        }
        let opened = match self.target.take() {
            Some((of, target)) if of == number => Ok(target),
            _ => open_target(planned, &self.mount)
                .map(|target| target.paced(self.options.pacer.clone())),
        };
        let whole = (unit.ranges.len() as u64, unit.bytes);
        let target = match opened {
            Ok(target) => target,
            Err(why) => {
                self.give_up(number, why, whole, &mut outcome);
                return outcome;
            }
        };
        outcome.planned_bytes = unit.bytes;
        if self.options.dry_run {
            let limit = self.options.bytes_max.unwrap_or(u64::MAX);
            let left = limit.saturating_sub(self.total.planned_bytes);
            outcome.is_cut = unit.bytes > left;
            outcome.planned_bytes = unit.bytes.min(left);
            self.target = Some((number, target));
            return outcome;
        }
        let written = self.total.migrated.written_bytes;
        let limit = self.options.bytes_max;
        let limits = Limits {
            bytes_max: limit.map(|limit| limit.saturating_sub(written)),
            moves_shared: self.options.moves_shared,
        };
        let mut report = defragment_file(&target, unit.ranges, limits);
        let stopped_by = report.stopped_by.take();
        outcome.moved(report);
        self.target = Some((number, target));
        if let Some(why) = stopped_by {
            self.give_up(number, why, (1, 0), &mut outcome);
        }
        outcome
    }

    /// Leaves the rest of a file alone. I/O errors are warned of at the end.
    fn give_up(
        &mut self,
        number: u64,
        why: MigrationError,
        (ranges, bytes): (u64, u64),
        outcome: &mut HostDefragOutcome,
    ) {
        if let Some(planned) = self.planned.get_mut(&number) {
            planned.is_given_up = true;
            if let MigrationError::Io { operation, source } = &why {
                let error = io::Error::new(source.kind(), format!("{operation}: {source}"));
                self.failed.push((planned.path.clone(), error));
            }
        }
        outcome.leave(Skipped { why, ranges, bytes });
    }

    fn account(&mut self, number: u64, outcome: &HostDefragOutcome) {
        self.total.add_work(outcome);
        if let Some(planned) = self.planned.get_mut(&number) {
            planned.outcome.add_work(outcome);
        }
    }

    fn unit(&self, work: Work) -> Option<(&Planned, &Unit)> {
        let planned = self.planned.get(&work.object)?;
        Some((planned, planned.units.get(&work.part)?))
    }
}

/// Opens a file for moving its extents, unless its path names another one now.
fn open_target(planned: &Planned, mount: &Mount) -> Result<Target, MigrationError> {
    let target = Target::open(&planned.path)?;
    match FileId::of(target.file(), mount) {
        Ok(id) if id == planned.id => Ok(target),
        _ => Err(MigrationError::Changed),
    }
}

/// Divides ascending ranges into units. Adjacent ranges become one.
fn units(ranges: Vec<Range<u64>>) -> Vec<(u64, Unit)> {
    let mut units: Vec<(u64, Unit)> = Vec::new();
    let mut add = |range: Range<u64>| {
        let bytes = range.end - range.start;
        let last = units.last_mut().map(|(_, unit)| unit);
        if let Some(unit) = last.filter(|unit| unit.bytes + bytes <= STEP_BYTES) {
            let count = unit.ranges.len();
            let before = unit.ranges.last_mut();
            if let Some(before) = before.filter(|before| before.end == range.start) {
                before.end = range.end;
                unit.bytes += bytes;
                return;
            }
            if count < RANGES_MAX {
                unit.ranges.push(range);
                unit.bytes += bytes;
                return;
            }
        }
        let unit = Unit {
            bytes,
            ranges: vec![range.clone()],
            asked: Cell::default(),
        };
        units.push((range.start / PAGE_BYTES, unit));
    };
    for range in ranges {
        let mut start = range.start;
        while range.end - start > STEP_BYTES {
            add(start..start + STEP_BYTES);
            start += STEP_BYTES;
        }
        add(start..range.end);
    }
    units
}

impl Task for Files {
    type Error = StillLooking;

    fn work_of(&self, page: &Page) -> Option<Work> {
        let object = *self.objects.get(&page.object)?;
        let planned = self.planned.get(&object)?;
        let (part, unit) = planned.units.range(..=page.index).next_back()?;
        let at = page.index * PAGE_BYTES;
        let is_in = unit.ranges.iter().any(|range| range.contains(&at));
        let part = *part;
        is_in.then_some(Work { object, part })
    }

    fn resident_pages(&self, work: Work) -> Option<u64> {
        if !self.options.cached_first {
            return Some(0);
        }
        let Some((planned, unit)) = self.unit(work) else {
            return Some(0);
        };
        let (look, pages) = unit.asked.get();
        if look == self.look {
            return Some(pages);
        }
        let pages = match planned.id.open_at(&planned.path, &self.mount) {
            Some(file) => unit
                .ranges
                .iter()
                .map(|range| {
                    cached(&file, range.start, range.end - range.start)
                        .map_or(0, |pages| pages.cached)
                })
                .sum(),
            None => 0,
        };
        unit.asked.set((self.look, pages));
        Some(pages)
    }

    fn pages(&self, work: Work) -> u64 {
        self.unit(work).map_or(1, |(_, unit)| unit.pages())
    }

    fn next(&mut self, _after: Option<Work>) -> Result<Option<Work>, StillLooking> {
        let mut files = 0;
        loop {
            if self.total.is_cut {
                return Ok(None);
            }
            if let Some(planning) = &mut self.planning {
                let object = planning.number;
                if let Some(part) = planning.found.pop_front() {
                    return Ok(Some(Work { object, part }));
                }
                match self.plan() {
                    Ok(true) => continue,
                    Ok(false) => self.end_planning(Ok(())),
                    Err(e) => self.end_planning(Err(e)),
                }
            }
            if self.is_walked {
                return Ok(None);
            }
            if files == FILES_AT_ONCE {
                return Err(StillLooking);
            }
            files += 1;
            match self.walker.next_file() {
                Some(walked) => {
                    let path = walked.path.clone();
                    if let Err(e) = self.next_file(walked) {
                        self.walker.note(&path, Err(e));
                    }
                }
                None => self.is_walked = true,
            }
        }
    }

    fn process(&mut self, work: Work, _budget_bytes: u64) -> Result<Processed, StillLooking> {
        let planned = self.planned.get_mut(&work.object);
        let unit = planned.and_then(|planned| planned.units.remove(&work.part));
        let mut processed = Processed {
            is_done: true,
            ..Processed::default()
        };
        let Some(unit) = unit else {
            return Ok(processed);
        };
        self.waiting_bytes -= unit.bytes;
        if self.total.is_cut {
            return Ok(processed);
        }
        let outcome = self.move_unit(work.object, unit);
        self.account(work.object, &outcome);
        let moved = &outcome.migrated;
        processed.bytes_cached = moved.cached_bytes.min(moved.read_bytes);
        processed.bytes_read = moved.read_bytes - processed.bytes_cached;
        processed.bytes_written = moved.written_bytes;
        self.finish_if_done(work.object);
        Ok(processed)
    }
}

#[cfg(test)]
mod tests;

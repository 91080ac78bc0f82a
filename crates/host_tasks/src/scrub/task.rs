//! The task: a unit is a part of a file, or the names of a directory. The driver calls this.
//!
//! Pages that came into memory since the scrub began were read from the medium by others. A chunk
//! of which all pages are such is compared in memory. Parts with most of those go first.
//!
//! Invariant: a part is done when each of its pieces was compared with bytes that the medium
//! returned since the scrub began (or that have none), or when its file needs no comparison. A file
//! that has bytes in memory that are not on the disk is left for the end, then left out.

use super::HostScrubNews;
use super::compare::{Compared, Comparison, Piece, pieces};
use super::opened::{Opened, OpenedFile, Place};
use super::ranges::add;
use super::tree::{FileTree, Numbered, join};
use archive::backup::Pacer;
use archive::filesystem::PathError;
use duet::{Access, Item, News, Page, Processed, Task, Work};
use format::host_scrub::{FileVerdict, HostScrubCounts, HostScrubFile, HostScrubFinding};
use format::recipe::ObjectRoot;
use format::tree::EntryKind;
use linux_host::{FileId, Watch};
use machine::{PAGE_BYTES, unwritten};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use std::sync::Arc;
use store::{Pool, Result, StoreError};

/// Bytes of a part. A scrub that is killed loses at most so much of each file in progress.
pub(crate) const PART_BYTES: u64 = 64 << 20;
/// Bits of a part's number: files of a PiB. The last part of a longer file has the rest.
pub(crate) const PART_BITS: u32 = 24;

/// See the module's head.
pub(crate) struct Scrub<'s> {
    pub pool: Arc<Pool>,
    pub tree: FileTree,
    pub pacer: Option<&'s dyn Pacer>,
    /// `None` without page events.
    pub watch: Option<Rc<RefCell<Watch>>>,
    /// Resources that this step may use.
    pub access: Access,
    pub counts: HostScrubCounts,
    pub files: BTreeMap<u64, HostScrubFile>,
    pub findings: BTreeMap<u64, HostScrubFinding>,
    pub news: VecDeque<HostScrubNews>,
    /// Identities of files of which pages came into memory.
    heard: HashMap<u64, FileId>,
    opened: Opened,
    file: Option<OpenedFile>,
    /// The result of the last look ahead at a file, unless it is open.
    found: Option<(u64, FileVerdict)>,
    at: Option<Cursor>,
}

/// Where a part that is in progress goes on.
struct Cursor {
    work: Work,
    at: u64,
    /// End of the hole that is being looked at.
    hole_end: Option<u64>,
}

/// Result of a step over a part of a file.
#[derive(Default)]
struct Tally {
    processed: Processed,
    all: Compared,
    /// Bytes that others read and that were compared in memory.
    by_others: u64,
    failed: Option<io::Error>,
}

impl Tally {
    fn bytes(&self) -> u64 {
        self.all.bytes_read + self.all.bytes_unproven + self.by_others
    }
}

impl<'s> Scrub<'s> {
    pub fn new(pool: Arc<Pool>, tree: FileTree, pacer: Option<&'s dyn Pacer>) -> Self {
        Self {
            pool,
            tree,
            pacer,
            watch: None,
            access: Access::Device,
            counts: HostScrubCounts::default(),
            files: BTreeMap::new(),
            findings: BTreeMap::new(),
            news: VecDeque::new(),
            heard: HashMap::new(),
            opened: Opened::default(),
            file: None,
            found: None,
            at: None,
        }
    }

    fn parts(&self, number: u64) -> u64 {
        let parts = self.tree.len(number).div_ceil(PART_BYTES);
        parts.clamp(1, 1 << PART_BITS)
    }

    /// Returns the bytes of a part.
    fn range(&self, work: Work) -> Range<u64> {
        let start = work.part * PART_BYTES;
        let is_last = work.part + 1 == self.parts(work.object);
        let len = self.tree.len(work.object);
        start..if is_last { len } else { start + PART_BYTES }
    }

    fn page_range(range: &Range<u64>) -> Range<u64> {
        range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
    }

    /// Returns the file and identity that a page belongs to.
    fn known(&self, page: &Page) -> Option<(u64, FileId)> {
        let watch = self.watch.as_ref()?.borrow();
        let id = watch.mirror().file(page.object)?;
        Some((self.tree.with_inode(id.inode)?, id))
    }

    /// Opens a file, or says why it needs no comparison. Keeps it open for its next part.
    fn open(&mut self, number: u64, directory: u32, place: usize) -> Result<Option<FileVerdict>> {
        if self.file.as_ref().is_some_and(|file| file.number == number) {
            return Ok(None);
        }
        if let Some((_, verdict)) = self.found.take().filter(|(known, _)| *known == number) {
            return Ok(Some(verdict));
        }
        self.file = None;
        let found = (number, directory, place);
        let file = self.opened.file(self.pool.reader(), &self.tree, found)?;
        Ok(match file {
            Place::There(file) => {
                self.file = Some(file);
                None
            }
            Place::Deleted => Some(FileVerdict::Deleted),
            Place::Changed => Some(FileVerdict::Changed),
            Place::Failed(e) => {
                self.failed(number, e);
                Some(FileVerdict::Failed)
            }
        })
    }

    /// Reports a failure once for a file.
    fn failed(&mut self, number: u64, error: PathError) {
        let known = self.files.get(&number);
        if known.is_none_or(|file| file.verdict != FileVerdict::Failed) {
            self.news.push_back(HostScrubNews::Failed(error));
        }
    }

    /// Returns true if all pages of a piece came into memory since the scrub began and are clean.
    fn was_read_by_others(&self, piece: &Piece) -> bool {
        let file = self.file.as_ref();
        let (Some(file), Some(watch)) = (file, &self.watch) else {
            return false;
        };
        let Some(id) = self.heard.get(&file.number) else {
            return false;
        };
        let watch = watch.borrow();
        let pages = Self::page_range(&piece.range());
        let wanted = pages.end - pages.start;
        watch.mirror().clean_pages(*id, pages) == wanted
            // The inode may be that of another file system, or of an earlier file.
            && FileId::of(file.medium.file(), watch.mount()).is_ok_and(|found| found == *id)
    }

    /// The part is done; the last one concludes its file.
    fn part_is_done(&mut self, work: Work, verdict: FileVerdict) {
        let parts = self.parts(work.object);
        let file = self.files.entry(work.object).or_default();
        file.parts_done += 1;
        if file.verdict == FileVerdict::Same {
            file.verdict = verdict;
        }
        if file.parts_done < parts {
            return;
        }
        let verdict = file.verdict;
        self.files.remove(&work.object);
        let counts = &mut self.counts;
        let count = match (self.findings.get(&work.object), verdict) {
            (Some(finding), _) => {
                self.news.push_back(HostScrubNews::Found(finding.clone()));
                match finding.rotten.is_empty() {
                    true => &mut counts.files_unreadable,
                    false => &mut counts.files_rotten,
                }
            }
            (None, FileVerdict::Same) => &mut counts.files_same,
            (None, FileVerdict::Changed) => &mut counts.files_changed,
            (None, FileVerdict::Deleted) => &mut counts.files_deleted,
            (None, FileVerdict::Unwritten) => &mut counts.files_unwritten,
            (None, FileVerdict::Failed) => &mut counts.files_failed,
        };
        *count += 1;
    }

    /// Counts the names of a directory that the snapshot does not have.
    fn compare_names(&mut self, index: u32) -> Result<()> {
        let entries = self.opened.entries(self.pool.reader(), &self.tree, index)?;
        let directory = match self.opened.directory(&self.tree, index) {
            Place::There(directory) => directory,
            Place::Deleted | Place::Changed => return Ok(()),
            Place::Failed(e) => {
                self.news.push_back(HostScrubNews::Failed(e));
                return Ok(());
            }
        };
        let known: HashSet<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
        let names = match directory.names() {
            Ok(names) => names,
            Err(e) => {
                self.news.push_back(HostScrubNews::Failed(e));
                return Ok(());
            }
        };
        for name in names.iter().filter(|name| !known.contains(name.to_bytes())) {
            match directory.stat(name).map(|found| found.entry.kind) {
                Ok(EntryKind::File { .. }) => self.counts.files_new += 1,
                Ok(EntryKind::Directory { .. }) => self.counts.directories_new += 1,
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes the result of a step over an open file.
    fn take(&mut self, number: u64, compared: Compared, processed: &mut Processed) {
        let counts = &mut self.counts;
        counts.bytes_read += compared.bytes_read;
        counts.bytes_unproven += compared.bytes_unproven;
        counts.bytes_dropped_first += compared.bytes_dropped_first;
        counts.bytes_in_holes += compared.bytes_in_holes;
        processed.bytes_read += compared.bytes_read;
        processed.bytes_cached += compared.bytes_unproven;
        if compared.rotten.is_empty() && compared.unreadable.is_empty() {
            return;
        }
        let Some(file) = &self.file else { return };
        let path = &file.path;
        let finding = self
            .findings
            .entry(number)
            .or_insert_with(|| HostScrubFinding {
                path: path.clone(),
                ..HostScrubFinding::default()
            });
        let bytes = |finding: &HostScrubFinding| -> u64 {
            let all = finding.rotten.iter().chain(&finding.unreadable);
            all.map(|range| range.end - range.start).sum()
        };
        let before = bytes(finding);
        for range in compared.rotten {
            add(&mut finding.rotten, range);
        }
        for range in compared.unreadable {
            add(&mut finding.unreadable, range);
        }
        counts.bytes_bad += bytes(finding) - before;
    }

    /// Compares about `budget_bytes` of an open file.
    fn compare(&mut self, work: Work, budget_bytes: u64) -> Result<(Processed, FileVerdict)> {
        let range = self.range(work);
        let mut cursor = match self.at.take().filter(|cursor| cursor.work == work) {
            Some(cursor) => cursor,
            None => Cursor {
                work,
                at: range.start,
                hole_end: None,
            },
        };
        let mut tally = Tally::default();
        let root = match self.file.as_ref().map(|file| &file.entry.kind) {
            Some(EntryKind::File { content, .. }) => *content,
            _ => return Ok((tally.processed, FileVerdict::Deleted)),
        };
        let pool = Arc::clone(&self.pool);
        let object = (&**pool.reader(), root);
        while tally.bytes() < budget_bytes.max(1) {
            let ended = match cursor.hole_end {
                Some(end) => self.compare_hole(object, &mut cursor, end, &mut tally),
                None => self.compare_chunks(object, &mut cursor, range.end, &mut tally)?,
            };
            if ended.is_break() || tally.failed.is_some() || tally.all.is_short {
                break;
            }
        }
        let Tally {
            mut processed,
            all,
            by_others,
            failed,
        } = tally;
        processed.bytes_cached += by_others;
        self.counts.bytes_read_by_others += by_others;
        // A file that was written meanwhile is not rotten, whatever was read.
        let is_same = self.file.as_ref().is_some_and(OpenedFile::is_unchanged);
        let verdict = match (failed, is_same) {
            (_, false) => FileVerdict::Changed,
            (Some(e), true) => {
                let error = self
                    .file
                    .as_ref()
                    .map(|file| file.error("read", e, &self.tree));
                error.into_iter().for_each(|e| self.failed(work.object, e));
                FileVerdict::Failed
            }
            (None, true) => {
                self.take(work.object, all, &mut processed);
                FileVerdict::Same
            }
        };
        if !processed.is_done {
            self.at = Some(cursor);
        }
        Ok((processed, verdict))
    }

    /// Compares a hole up to `end`. Breaks if it cannot go on now.
    fn compare_hole(
        &mut self,
        (reader, root): (&store::Reader, ObjectRoot),
        cursor: &mut Cursor,
        end: u64,
        tally: &mut Tally,
    ) -> ControlFlow<()> {
        if self.access == Access::Memory {
            tally.processed.needs_device = true;
            return ControlFlow::Break(());
        }
        match self.comparison(reader, root, |c| c.hole(cursor.at, end)) {
            Some(Ok((at, compared))) => {
                tally.all.absorb(compared);
                cursor.at = at;
                cursor.hole_end = cursor.hole_end.filter(|end| at < *end);
            }
            Some(Err(e)) => tally.failed = Some(e),
            None => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Compares the next chunks before `end`: those that others read just now in memory, or a group
    /// with the medium. Breaks at the end, and if it cannot go on now.
    fn compare_chunks(
        &mut self,
        (reader, root): (&store::Reader, ObjectRoot),
        cursor: &mut Cursor,
        end: u64,
        tally: &mut Tally,
    ) -> Result<ControlFlow<()>> {
        let next = pieces(reader, &root, cursor.at..end)?;
        let Some(first) = next.first() else {
            tally.processed.is_done = true;
            return Ok(ControlFlow::Break(()));
        };
        if first.fingerprint.is_hole() {
            (cursor.at, cursor.hole_end) = (first.offset, Some(first.end()));
            return Ok(ControlFlow::Continue(()));
        }
        let is_read = |piece: &&Piece| self.was_read_by_others(piece);
        let fresh = next.iter().take_while(is_read).count();
        let begun = cursor.at;
        for piece in next.iter().take(fresh) {
            if self.comparison(reader, root, |c| c.in_memory(piece)) != Some(true) {
                break;
            }
            tally.by_others += piece.len;
            cursor.at = piece.end();
        }
        if cursor.at > begun {
            return Ok(ControlFlow::Continue(()));
        }
        if self.access == Access::Memory {
            tally.processed.needs_device = true;
            return Ok(ControlFlow::Break(()));
        }
        // The medium decides about bytes that differ in memory.
        let later = next.iter().skip(1);
        let is_stale = |piece: &&Piece| !self.was_read_by_others(piece);
        let group = next.get(..1 + later.take_while(is_stale).count());
        let group = group.unwrap_or(&next);
        match self.comparison(reader, root, |c| c.chunks(group)) {
            Some(compared) => match compared? {
                Ok(compared) => {
                    tally.all.absorb(compared);
                    cursor.at = group.last().map_or(cursor.at, Piece::end);
                }
                Err(e) => tally.failed = Some(e),
            },
            None => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn comparison<R>(
        &mut self,
        reader: &store::Reader,
        root: ObjectRoot,
        with: impl FnOnce(&mut Comparison<'_>) -> R,
    ) -> Option<R> {
        Some(with(&mut Comparison {
            reader,
            pacer: self.pacer,
            file: self.file.as_mut()?,
            root,
        }))
    }

    fn process_file(&mut self, work: Work, found: (u32, usize), budget: u64) -> Result<Processed> {
        let done = Processed {
            is_done: true,
            ..Processed::default()
        };
        let known = self.files.get(&work.object).map(|file| file.verdict);
        let verdict = match known {
            None | Some(FileVerdict::Same) => self.open(work.object, found.0, found.1)?,
            known => known,
        };
        if let Some(verdict) = verdict {
            self.part_is_done(work, verdict);
            return Ok(done);
        }
        if self.is_unwritten() {
            if self.access == Access::Memory {
                return Ok(Processed {
                    needs_device: true,
                    ..Processed::default()
                });
            }
            self.file = None;
            self.part_is_done(work, FileVerdict::Unwritten);
            return Ok(done);
        }
        let (mut processed, verdict) = self.compare(work, budget)?;
        if verdict != FileVerdict::Same {
            self.file = None;
            processed.is_done = true;
        }
        if processed.is_done {
            self.at = None;
            self.part_is_done(work, verdict);
        }
        Ok(processed)
    }

    /// Returns true if the open file has bytes that are not on the disk. Where the system does not
    /// say it, direct I/O writes them first, and the times say that the file has changed.
    fn is_unwritten(&self) -> bool {
        let file = self.file.as_ref().map(|file| file.medium.file());
        file.is_some_and(|file| {
            !machine::is_memory(file).unwrap_or(false) && unwritten(file).unwrap_or(0) > 0
        })
    }

    /// Notes that the pool cannot say what a file was.
    fn pool_is_damaged(&mut self, work: Work, directory: u32, error: StoreError) {
        self.file = None;
        self.at = None;
        let known = self.files.get(&work.object);
        if known.is_none_or(|file| file.verdict != FileVerdict::Failed) {
            let path = self.tree.path_of(directory);
            let name = self
                .opened
                .entries(self.pool.reader(), &self.tree, directory);
            let name = name
                .ok()
                .and_then(|entries| match self.tree.get(work.object) {
                    Some(Numbered::File { place, .. }) => Some(entries.get(place)?.name.clone()),
                    _ => None,
                });
            let path = join(&path, &name.unwrap_or_default());
            self.news
                .push_back(HostScrubNews::PoolDamaged { path, error });
        }
        self.part_is_done(work, FileVerdict::Failed);
    }
}

impl Task for Scrub<'_> {
    type Error = StoreError;

    fn work_of(&self, page: &Page) -> Option<Work> {
        let (object, _) = self.known(page)?;
        let at = page.index.checked_mul(PAGE_BYTES)?;
        let part = (at / PART_BYTES).min(self.parts(object) - 1);
        (at < self.tree.len(object)).then_some(Work { object, part })
    }

    fn resident_pages(&self, work: Work) -> Option<u64> {
        let id = self.heard.get(&work.object);
        let (Some(id), Some(watch)) = (id, &self.watch) else {
            return Some(0);
        };
        let pages = Self::page_range(&self.range(work));
        Some(watch.borrow().mirror().clean_pages(*id, pages))
    }

    fn pages(&self, work: Work) -> u64 {
        let pages = Self::page_range(&self.range(work));
        (pages.end - pages.start).max(1)
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>> {
        if let Some(Work { object, part }) = after
            && part + 1 < self.parts(object)
        {
            let part = part + 1;
            return Ok(Some(Work { object, part }));
        }
        let next = self.tree.number_after(after.map(|work| work.object));
        Ok(next.map(|object| Work { object, part: 0 }))
    }

    fn is_last(&mut self, work: Work) -> bool {
        let Some(Numbered::File {
            directory, place, ..
        }) = self.tree.get(work.object)
        else {
            return false;
        };
        if self.files.contains_key(&work.object) {
            return false;
        }
        match self.open(work.object, directory, place) {
            Ok(None) => self.is_unwritten(),
            Ok(Some(verdict)) => {
                self.found = Some((work.object, verdict));
                false
            }
            // The unit fails in the same way.
            Err(_) => false,
        }
    }

    fn hear(&mut self, item: &Item) -> News {
        if let Some((number, id)) = self.known(&item.page) {
            self.heard.insert(number, id);
        }
        News::None
    }

    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed> {
        let done = Processed {
            is_done: true,
            ..Processed::default()
        };
        match self.tree.get(work.object) {
            None => Ok(done),
            Some(Numbered::Names { directory }) => match self.compare_names(directory) {
                Err(e) if !e.is_corruption() => Err(e),
                _ => Ok(done),
            },
            Some(Numbered::File {
                directory, place, ..
            }) => match self.process_file(work, (directory, place), budget_bytes) {
                Err(e) if e.is_corruption() => {
                    self.pool_is_damaged(work, directory, e);
                    Ok(done)
                }
                processed => processed,
            },
        }
    }
}

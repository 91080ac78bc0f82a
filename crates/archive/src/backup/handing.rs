//! Hands files to lanes: chooses the next one, groups small ones, and reads long ones here. The
//! walker calls this.
//!
//! Invariant: the order changes what is read when, and nothing that is stored: entries have their
//! places before they come here.

use super::file_work::{FileGroup, FileWork};
use super::kept_open::{KeptOpen, Limits};
use super::reading::Reading;
use super::window::Window;
use crate::filesystem::capture::Captured;
use crate::ingest::{BATCH_BYTES, Context, Cutting, StreamRun};
use std::sync::Arc;
use store::{Lane, RegionKind, StoreError};

/// The walker itself reads longer files and cuts them into pieces for all lanes. One lane reads a
/// shorter file completely.
const LARGE_FILE_BYTES: u64 = 2 * BATCH_BYTES as u64;
/// Maximum number of files by which a file is read before or after its place in the tree, as in
/// Duet's rsync.
const WINDOW_FILES: usize = 100;

/// Order in which a backup reads files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Files with the largest part in memory first, within a window of 100 files.
    #[default]
    Cached,
    /// As the walk finds them.
    Tree,
}

/// See the module's head.
pub(super) struct Handing<'h, 'a> {
    context: &'h Context<'a>,
    reading: Reading<'a>,
    window: Window<Box<FileWork>>,
    group: FileGroup<'a>,
    limits: Arc<Limits>,
}

impl<'h, 'a> Handing<'h, 'a> {
    pub fn new(context: &'h Context<'a>, reading: Reading<'a>, order: Order) -> Self {
        Self {
            context,
            reading,
            window: Window::new(match order {
                Order::Cached => WINDOW_FILES,
                Order::Tree => 0,
            }),
            group: FileGroup::new(reading),
            limits: Arc::default(),
        }
    }

    /// Adds a regular file. Hands out another one, or this.
    pub fn add(&mut self, mut file: FileWork, lane: &mut Lane) -> Result<(), StoreError> {
        if file.captured.len == 0 {
            return self.hand(file, lane);
        }
        self.look(&mut file);
        let score = file.in_memory.share();
        match self.window.push(Box::new(file), score) {
            Some(next) => self.hand(*next, lane),
            None => Ok(()),
        }
    }

    /// Hands out all that wait.
    pub fn end(&mut self, lane: &mut Lane) -> Result<(), StoreError> {
        while let Some(next) = self.window.pop() {
            if self.context.stopped() {
                return Ok(());
            }
            self.hand(*next, lane)?;
        }
        self.hand_out();
        Ok(())
    }

    /// Files that were handed out before an earlier one.
    pub fn ahead(&self) -> u64 {
        self.window.ahead()
    }

    /// Asks how much of the file is in memory.
    fn look(&self, file: &mut FileWork) {
        // A reflink has other pages than its file.
        let device = file.captured.entry.device;
        let frozen = self.reading.frozen.filter(|_| !file.directory.is_frozen());
        if frozen.is_some_and(|frozen| frozen.may_reflink(device)) {
            return;
        }
        // A file that cannot be opened is reported by the thread that reads it.
        let Ok(opened) = file.open() else { return };
        file.in_memory = self.reading.memory.ask(&opened, device);
        file.kept_open = KeptOpen::new(opened, &self.limits);
        // A backup in the background asks for no more than it is about to use.
        if let Some(kept) = &mut file.kept_open
            && self.reading.pacer.is_none()
            && !is_read_here(&file.captured)
        {
            kept.read_ahead(file.in_memory);
        }
    }

    fn hand(&mut self, file: FileWork, lane: &mut Lane) -> Result<(), StoreError> {
        if is_read_here(&file.captured) {
            // This thread will be busy with it for a while.
            self.hand_out();
            self.large_file(file, lane)?;
            let memory = self.reading.memory;
            self.window.score(|file| {
                if let Some(kept) = file.kept_open.as_ref().filter(|kept| !kept.is_read_ahead()) {
                    file.in_memory = memory.ask_again(kept.file(), file.in_memory);
                }
                file.in_memory.share()
            });
            return Ok(());
        }
        if self.group.add(file) {
            self.hand_out();
        }
        Ok(())
    }

    /// Submits the collected small files.
    fn hand_out(&mut self) {
        let group = std::mem::replace(&mut self.group, FileGroup::new(self.reading));
        if !group.is_empty() {
            self.context.submit(Box::new(group));
        }
    }

    /// Reads a long or sparse file here and hands its pieces to lanes.
    fn large_file(&mut self, mut file: FileWork, lane: &mut Lane) -> Result<(), StoreError> {
        let context = self.context;
        context.observer.set_current(
            file.directory
                .path_of(&file.name)
                .as_os_str()
                .as_encoded_bytes(),
        );
        let (opened, segments) = match file
            .opened(self.reading.frozen)
            .and_then(|(opened, _)| Ok((opened.data_map()?, opened)))
        {
            Ok((segments, opened)) => (Arc::new(opened), segments),
            Err(e) => {
                context.observer.path_failed(&e);
                return file.slot.fill(None, lane);
            }
        };
        let read_from = Arc::clone(&opened);
        let mut source = self
            .reading
            .long_source(&read_from, &file.captured, file.in_memory);
        let (slot, len) = (file.slot.clone(), file.captured.len);
        let sparse = segments.iter().any(|s| s.hole);
        let done = Box::new(move |root, lane: &mut Lane, context: &Context<'_>| {
            file.finish(&opened, root, sparse, lane, context)
        });
        let kind = RegionKind::of_file(len);
        let run = StreamRun::new(context, (Cutting::Content(lane.splitter()), kind), done);
        let read = run.read(&mut source, Some(&segments));
        source.finish();
        match read {
            Ok(_) => Ok(()),
            Err(e) => {
                context.observer.path_failed(&e);
                slot.fill(None, lane)
            }
        }
    }
}

/// Returns true for a long or sparse file, which the walker's thread reads.
fn is_read_here(captured: &Captured) -> bool {
    captured.len > LARGE_FILE_BYTES || captured.may_have_holes()
}

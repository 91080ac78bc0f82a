//! Separates durable from pending changes at one position of a log. The explorer moves it from
//! crash point to crash point; `crash` reads it.
//!
//! Invariant: `durable` plus all of `pending`, in order, is the volatile state.

use crate::content::Content;
use crate::image::{Dir, DirId, FileId, Image, Node};
use crate::record::{Effect, Entry, Op, Recording, Slot};
use std::sync::Arc;

/// Maximum number of pending changes. Beyond it the oldest become durable, as by a kernel's
/// write-back: this bounds the work at each crash point.
const PENDING_MAX: usize = 256;

/// The file or directory whose sync makes a change durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    File(FileId),
    Dir(DirId),
}

/// A change that reaches the disk on its own, completely or (a write) torn.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write {
        offset: u64,
        data: Arc<[u8]>,
    },
    SetLen(u64),
    /// Names of one directory that change together.
    Names(Vec<(Arc<str>, Option<Node>)>),
}

/// A change that no sync covers yet.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) target: Target,
    pub(crate) change: Change,
    /// Position in the log.
    pub(crate) position: usize,
}

impl Unit {
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.change, Change::Names(_))
    }
}

/// Walks a log and separates durable from pending changes.
pub struct Walker {
    recording: Recording,
    position: usize,
    pub(crate) durable: Image,
    pub(crate) pending: Vec<Unit>,
}

impl Walker {
    /// Starts at the begin of the log.
    pub fn new(recording: &Recording) -> Self {
        Self {
            recording: recording.clone(),
            position: 0,
            durable: recording.base.clone(),
            pending: Vec::new(),
        }
    }

    /// Number of passed operations.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of changes that a crash here may lose.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Describes the operation at `position`.
    pub fn describe(&self, position: usize) -> String {
        self.recording
            .log
            .get(position)
            .map_or_else(|| "end".to_owned(), Entry::to_string)
    }

    /// Advances to `position`. Never goes back.
    pub fn advance(&mut self, position: usize) {
        let log = Arc::clone(&self.recording.log);
        while self.position < position.min(log.len()) {
            self.pass(&log[self.position].op);
            self.position += 1;
        }
        let surplus = self.pending.len().saturating_sub(PENDING_MAX);
        for unit in self.pending.drain(..surplus) {
            settle(&mut self.durable, &unit);
        }
    }

    fn pass(&mut self, op: &Op) {
        match op {
            Op::Create { at, file } => {
                let pushed = self.durable.files.push(Content::default());
                assert_eq!(pushed, *file, "the log was recorded on another base");
                self.name(at, Some(Node::File(*file)));
            }
            Op::MakeDir { at, dir } => {
                let pushed = self.durable.dirs.push(Dir::new());
                assert_eq!(pushed, *dir, "the log was recorded on another base");
                self.name(at, Some(Node::Dir(*dir)));
            }
            Op::Write { file, offset, data } => {
                let change = Change::Write {
                    offset: *offset,
                    data: Arc::clone(data),
                };
                self.push(Target::File(*file), change);
            }
            Op::SetLen { file, len } => self.push(Target::File(*file), Change::SetLen(*len)),
            Op::Rename { from, to, file } if from.dir == to.dir => {
                let names = vec![
                    (Arc::clone(&to.name), Some(Node::File(*file))),
                    (Arc::clone(&from.name), None),
                ];
                self.push(Target::Dir(to.dir), Change::Names(names));
            }
            Op::Rename { from, to, file } => {
                self.name(to, Some(Node::File(*file)));
                self.name(from, None);
            }
            Op::Remove { at } => self.name(at, None),
            Op::SyncFile { file, effect, .. } => self.sync(Target::File(*file), *effect),
            Op::SyncDir { dir, effect, .. } => self.sync(Target::Dir(*dir), *effect),
            Op::Lock | Op::Kill => {}
        }
    }

    fn name(&mut self, at: &Slot, node: Option<Node>) {
        let names = vec![(Arc::clone(&at.name), node)];
        self.push(Target::Dir(at.dir), Change::Names(names));
    }

    fn push(&mut self, target: Target, change: Change) {
        self.pending.push(Unit {
            target,
            change,
            position: self.position,
        });
    }

    fn sync(&mut self, target: Target, effect: Effect) {
        if effect == Effect::LeftOut {
            return;
        }
        let durable = &mut self.durable;
        self.pending.retain(|unit| {
            let covered = unit.target == target;
            if covered && effect == Effect::Durable {
                settle(durable, unit);
            }
            !covered
        });
    }
}

fn settle(image: &mut Image, unit: &Unit) {
    match unit.target {
        Target::File(file) => change_file(image.files.get_mut(file), &unit.change),
        Target::Dir(dir) => change_dir(image.dirs.get_mut(dir), &unit.change),
    }
}

/// Applies a complete change of a file.
pub(crate) fn change_file(content: &mut Content, change: &Change) {
    match change {
        Change::Write { offset, data } => content.write(*offset, data),
        Change::SetLen(len) => content.set_len(*len),
        Change::Names(_) => {}
    }
}

/// Applies a complete change of a directory.
pub(crate) fn change_dir(dir: &mut Dir, change: &Change) {
    let Change::Names(names) = change else { return };
    for (name, node) in names {
        match node {
            Some(node) => dir.insert(Arc::clone(name), *node),
            None => dir.remove(name),
        };
    }
}

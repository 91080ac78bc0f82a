//! What is durable and what is not, at one place of a write log.
//!
//! Invariant: `durable` plus all of `pending`, in order, is the volatile state. Called by the
//! explorer, which walks a log from crash point to crash point, and by `crash`.

use crate::content::Content;
use crate::image::{Dir, DirId, FileId, Image, Node};
use crate::record::{Effect, Entry, Op, Recording, Slot};
use std::sync::Arc;

/// Beyond this many pending changes the oldest become durable by themselves, as a kernel's
/// write-back does sooner or later: bounds the work at each crash point.
const PENDING_MAX: usize = 256;

/// Whose change it is: the thing whose sync makes it durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    File(FileId),
    Dir(DirId),
}

/// A change that reaches the disk on its own, whole or (a write) torn.
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
    /// Where in the log.
    pub(crate) position: usize,
}

impl Unit {
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.change, Change::Names(_))
    }
}

/// Walks a log and keeps apart what is durable and what is pending.
pub struct Walker {
    recording: Recording,
    position: usize,
    pub(crate) durable: Image,
    pub(crate) pending: Vec<Unit>,
}

impl Walker {
    /// At the start of the log.
    pub fn new(recording: &Recording) -> Self {
        Self {
            recording: recording.clone(),
            position: 0,
            durable: recording.base.clone(),
            pending: Vec::new(),
        }
    }

    /// Operations behind us.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Changes that a crash here may lose.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The operation at `position`, in words.
    pub fn describe(&self, position: usize) -> String {
        self.recording
            .log
            .get(position)
            .map_or_else(|| "end".to_owned(), Entry::to_string)
    }

    /// Goes on until `position` operations are behind us. Never goes back.
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

/// Applies all of a change of a file.
pub(crate) fn change_file(content: &mut Content, change: &Change) {
    match change {
        Change::Write { offset, data } => content.write(*offset, data),
        Change::SetLen(len) => content.set_len(*len),
        Change::Names(_) => {}
    }
}

/// Applies all of a change of a directory.
pub(crate) fn change_dir(dir: &mut Dir, change: &Change) {
    let Change::Names(names) = change else { return };
    for (name, node) in names {
        match node {
            Some(node) => dir.insert(Arc::clone(name), *node),
            None => dir.remove(name),
        };
    }
}

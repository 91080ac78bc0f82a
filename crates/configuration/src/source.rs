//! `[sources.NAME]`: a tree or a stream. [`super::Configuration`] reads it.
//!
//! Invariant: a source is recognized in the pool by its paths or by the name of its stream, so no
//! two sources have the same.

use crate::section::{Notes, Section, absolute};
use crate::when::When;
use crate::{Located, check_name};
use std::path::PathBuf;

/// Default of `silent-after`, in periods.
const SILENT_PERIODS: u64 = 2;

/// A source.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Line of its section.
    pub line: usize,
    /// A tree or a stream.
    pub kind: SourceKind,
    /// Tags of its snapshots.
    pub tags: Vec<String>,
    /// Maximum bytes read each second, as `--limit` takes it.
    pub limit: Option<String>,
    /// Schedule.
    pub when: Option<When>,
    /// `silent-after`, seconds.
    silent_after_s: Option<u64>,
}

/// The contents of a source.
#[derive(Clone, Debug)]
pub enum SourceKind {
    /// Files and directories.
    Tree(TreeSource),
    /// The output of a command.
    Stream(StreamSource),
}

/// A tree.
#[derive(Clone, Debug)]
pub struct TreeSource {
    /// Absolute paths, at least one.
    pub paths: Located<Vec<PathBuf>>,
    /// Patterns of excluded files.
    pub exclude: Vec<String>,
    /// Exclude the contents of directories with a `CACHEDIR.TAG`.
    pub exclude_caches: bool,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// Read a snapshot of the source.
    pub snapshot: bool,
    /// Recognise unchanged files without inode number and status change time.
    pub ignore_inode: bool,
    /// Recognise unchanged files without status change time.
    pub ignore_ctime: bool,
}

/// A stream.
#[derive(Clone, Debug)]
pub struct StreamSource {
    /// The program and its arguments.
    pub command: Located<Vec<String>>,
    /// Name of the stream in the pool.
    pub name: String,
}

impl Source {
    /// Returns the age of the newest snapshot, in seconds, from which on the source is silent.
    /// `None`: it has no schedule, so silence says nothing.
    pub fn silent_after_s(&self) -> Option<u64> {
        let by_period = self.when.map(|when| when.period_s() * SILENT_PERIODS);
        self.silent_after_s.or(by_period)
    }
}

/// Reads all sources.
pub(crate) fn read(sources: Section<'_>, notes: &mut Notes) -> Vec<Source> {
    let mut read: Vec<Source> = Vec::new();
    for (name, section) in sources.sections(notes) {
        check_name(&section, notes, &name);
        let key = section.name.clone();
        let Some(source) = one(name, section, notes) else {
            continue;
        };
        if let Some(other) = read.iter().find(|other| stores_the_same(other, &source)) {
            let what = match source.kind {
                SourceKind::Tree(_) => "the same paths",
                SourceKind::Stream(_) => "the same stdin-filename",
            };
            let why = format!(
                "[sources.{}] has {what}, so they would share their snapshots; change one of them",
                other.name
            );
            notes.add(source.line, key, why);
        }
        read.push(source);
    }
    read
}

fn stores_the_same(a: &Source, b: &Source) -> bool {
    match (&a.kind, &b.kind) {
        (SourceKind::Tree(a), SourceKind::Tree(b)) => {
            let sorted = |tree: &TreeSource| {
                let mut paths = tree.paths.value.clone();
                paths.sort();
                paths
            };
            sorted(a) == sorted(b)
        }
        (SourceKind::Stream(a), SourceKind::Stream(b)) => a.name == b.name,
        _ => false,
    }
}

fn one(name: String, mut section: Section<'_>, notes: &mut Notes) -> Option<Source> {
    let line = section.line;
    let kind = kind(&name, &mut section, notes);
    let tags = section.texts(notes, "tags");
    if let Some(tags) = &tags
        && let Some(tag) = tags.value.iter().find(|tag| tag.contains(','))
    {
        let why = format!("{tag:?} has a comma, which separates tags; write two tags");
        notes.add(tags.line, section.key("tags"), why);
    }
    let limit = section.size(notes, "limit");
    let when = section.when(notes);
    let silent_after_s = section.span(notes, "silent-after");
    section.finish(notes);
    Some(Source {
        name,
        line,
        kind: kind?,
        tags: tags.map_or_else(Vec::new, |tags| tags.value),
        limit,
        when,
        silent_after_s,
    })
}

fn kind(name: &str, section: &mut Section<'_>, notes: &mut Notes) -> Option<SourceKind> {
    match (section.has("paths"), section.has("command")) {
        (true, false) => Some(SourceKind::Tree(tree(section, notes)?)),
        (false, true) => {
            let command = section.command(notes, "command");
            let given = section.text(notes, "stdin-filename");
            Some(SourceKind::Stream(StreamSource {
                command: command?,
                name: given.map_or_else(|| name.to_owned(), |given| given.value),
            }))
        }
        (both, _) => {
            let why = match both {
                true => "paths and command are both set; remove one, or make two sources",
                false => "give paths (a tree) or command (a stream)",
            };
            notes.add(section.line, section.name.clone(), why);
            section.accept_rest();
            None
        }
    }
}

fn tree(section: &mut Section<'_>, notes: &mut Notes) -> Option<TreeSource> {
    let paths = section.texts(notes, "paths");
    let exclude = section.texts(notes, "exclude");
    let exclude_caches = section.flag(notes, "exclude-caches");
    let one_file_system = section.flag(notes, "one-file-system");
    let snapshot = section.flag(notes, "snapshot");
    let ignore_inode = section.flag(notes, "ignore-inode");
    let ignore_ctime = section.flag(notes, "ignore-ctime");
    let paths = paths?;
    let mut checked = Vec::new();
    for path in &paths.value {
        match absolute(path) {
            Ok(path) => checked.push(path),
            Err(why) => notes.add(paths.line, section.key("paths"), why),
        }
    }
    if paths.value.is_empty() {
        let why = "the list is empty; name files or directories";
        notes.add(paths.line, section.key("paths"), why);
    }
    Some(TreeSource {
        paths: Located {
            value: checked,
            line: paths.line,
        },
        exclude: exclude.map_or_else(Vec::new, |exclude| exclude.value),
        exclude_caches,
        one_file_system,
        snapshot,
        ignore_inode,
        ignore_ctime,
    })
}

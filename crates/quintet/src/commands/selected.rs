//! The patterns that a user gave, and what they select of a snapshot. Commands with patterns call
//! this.
//!
//! Invariant: options mean the same in every command. The order is that of
//! `quintet help patterns`, and the last pattern that matches decides.

use super::source_paths::read_list;
use anyhow::Context;
use archive::selection::{Patterns, SnapshotSelection, Verdict};
use command_line::{ExcludeArgs, IncludeArgs};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use terminal::command_context::CommandContext;

/// Returns the patterns of `--exclude` and its variants.
pub(super) fn excludes(context: &CommandContext, args: &ExcludeArgs) -> anyhow::Result<Patterns> {
    let given = [(&args.exclude, false), (&args.iexclude, true)];
    let files = [(&args.exclude_file, false), (&args.iexclude_file, true)];
    patterns(context, given, files)
}

/// Returns the patterns of `--include` and its variants.
pub(super) fn includes(context: &CommandContext, args: &IncludeArgs) -> anyhow::Result<Patterns> {
    let given = [(&args.include, false), (&args.iinclude, true)];
    let files = [(&args.include_file, false), (&args.iinclude_file, true)];
    patterns(context, given, files)
}

/// `true` beside patterns: the case of letters does not count.
fn patterns(
    context: &CommandContext,
    given: [(&Vec<OsString>, bool); 2],
    files: [(&Vec<PathBuf>, bool); 2],
) -> anyhow::Result<Patterns> {
    let mut patterns = Patterns::default();
    for (given, ignore_case) in given {
        for pattern in given {
            patterns.add(pattern.as_bytes(), ignore_case)?;
        }
    }
    for (files, ignore_case) in files {
        for file in files {
            let bytes = read_list(context, file)?;
            let added = patterns.add_lines(&bytes, ignore_case);
            added.with_context(|| file.display().to_string())?;
        }
    }
    Ok(patterns)
}

/// Decides about the entries of a walk, each after its directory.
pub(super) struct Walked<'s> {
    selection: &'s SnapshotSelection,
    /// Where patterns begin, without a `/` at the end.
    top: Vec<u8>,
    /// Directories on the path to the entry, and whether they are selected.
    above: Vec<(Vec<u8>, bool)>,
}

impl<'s> Walked<'s> {
    /// Begins at the directory `from`, which is `top` or below it.
    pub fn new(selection: &'s SnapshotSelection, top: &[u8], from: &[u8]) -> Self {
        let top = top.strip_suffix(b"/").unwrap_or(top).to_vec();
        let mut walked = Self {
            selection,
            top,
            above: Vec::new(),
        };
        let below = from.strip_prefix(walked.top.as_slice()).unwrap_or(from);
        let mut at = walked.top.clone();
        for name in below.split(|b| *b == b'/').filter(|n| !n.is_empty()) {
            at = [at.as_slice(), b"/", name].concat();
            walked.verdict(&at, true);
        }
        walked
    }

    /// Decides about an entry.
    pub fn verdict(&mut self, path: &[u8], is_directory: bool) -> Verdict {
        let is_above = |directory: &[u8]| {
            let below = path.strip_prefix(directory);
            below.is_some_and(|below| below.first() == Some(&b'/'))
        };
        while self.above.pop_if(|(above, _)| !is_above(above)).is_some() {}
        let parent_selected = match self.above.last() {
            Some((_, selected)) => *selected,
            None => self.selection.includes.is_empty(),
        };
        let below = path.strip_prefix(self.top.as_slice()).unwrap_or(path);
        let verdict = self.selection.verdict(below, is_directory, parent_selected);
        if is_directory {
            self.above.push((path.to_vec(), verdict.selected));
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_decides_about_all_below_it() {
        let mut selection = SnapshotSelection::default();
        for line in ["/a", "!/a/not"] {
            selection.includes.add(line.as_bytes(), false).unwrap();
        }
        selection.excludes.add(b"*.o", false).unwrap();
        let mut walked = Walked::new(&selection, b"/top", b"/top");
        for (path, is_directory, expected) in [
            ("/top/a", true, true),
            ("/top/a/file", false, true),
            ("/top/a/file.o", false, false),
            ("/top/a/not", true, false),
            ("/top/a/not/file", false, false),
            ("/top/a/yes", true, true),
            ("/top/a/yes/file", false, true),
            ("/top/ab", true, false),
            ("/top/ab/file", false, false),
        ] {
            let found = walked.verdict(path.as_bytes(), is_directory);
            assert_eq!(found.selected, expected, "{path}");
        }
        let mut within = Walked::new(&selection, b"/top", b"/top/a/b");
        assert!(within.verdict(b"/top/a/b/file", false).selected);
    }
}

//! `host cached`: how much of a tree is in memory. [`super::run`] calls this.
//!
//! Invariant: a directory's line counts every file below it. A file with several names counts once,
//! where its first name is.

use crate::arguments::HostCachedArgs;
use crate::refusals::warn;
use anyhow::Context;
use linux_host::walk_once;
use machine::{PAGE_BYTES, cached};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::sizes;
use terminal::table::Table;

/// Files below a directory.
#[derive(Clone, Copy, Default)]
struct Sum {
    files: u64,
    bytes: u64,
    cached: u64,
    dirty: u64,
}

impl Sum {
    fn share(self) -> f64 {
        match self.bytes {
            0 => 0.0,
            // The last page of a file is rarely full.
            bytes => (self.cached as f64 / bytes as f64).min(1.0),
        }
    }

    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.cached += other.cached;
        self.dirty += other.dirty;
    }

    fn object(self, object: Object) -> Object {
        object
            .integer("files", self.files)
            .integer("bytes", self.bytes)
            .integer("cached_bytes", self.cached)
            .integer("dirty_bytes", self.dirty)
    }
}

pub(super) fn run(shell: &Shell, args: &HostCachedArgs) -> anyhow::Result<Exit> {
    let mut sums = BTreeMap::from([(args.path.clone(), Sum::default())]);
    let walked = walk_once(&args.path, &mut |found| {
        let pages = cached(found.file, 0, 0)?;
        let one = Sum {
            files: 1,
            bytes: found.bytes,
            cached: pages.cached * PAGE_BYTES,
            dirty: pages.dirty * PAGE_BYTES,
        };
        for directory in directories(&args.path, found.path, args.depth) {
            sums.entry(directory).or_default().add(one);
        }
        Ok(())
    })
    .with_context(|| format!("{}", args.path.display()))?;
    let console = &shell.console;
    let heading = ["Cached", "Dirty", "Size", "%", "In memory", "Path"];
    let mut table = Table::new(heading, &[0, 1, 2, 3]);
    let mut lines: Vec<_> = sums.iter().collect();
    // The paths stay in order where nothing is in memory.
    lines.sort_by_key(|(path, sum)| (**path != args.path, Reverse(sum.cached)));
    for (path, sum) in lines {
        let object = Object::message("host_cached").path("path", path.as_os_str().as_bytes());
        console.message(sum.object(object))?;
        table.row([
            sizes::display(sum.cached),
            sizes::display(sum.dirty),
            sizes::display(sum.bytes),
            format!("{:.0}", sum.share() * 100.0),
            bar(sum.share()),
            path.display().to_string(),
        ]);
    }
    for line in table.lines() {
        console.line(line)?;
    }
    let total = sums.get(&args.path).copied().unwrap_or_default();
    let failed = walked.failed.len() as u64;
    console.message(
        total
            .object(Object::message("summary"))
            .integer("failed", failed),
    )?;
    warn(shell, walked.failed);
    Ok(match failed {
        0 => Exit::Done,
        _ => Exit::Partly,
    })
}

/// Returns the directories whose lines count a file: the top, and `depth` levels below it.
fn directories(top: &Path, file: &Path, depth: usize) -> Vec<PathBuf> {
    let mut directories = vec![top.to_owned()];
    let parent = file.strip_prefix(top).ok().and_then(Path::parent);
    let mut path = top.to_owned();
    for name in parent
        .iter()
        .flat_map(|parent| parent.components())
        .take(depth)
    {
        path.push(name);
        directories.push(path.clone());
    }
    directories
}

/// Draws a share in twenty cells.
pub(super) fn bar(share: f64) -> String {
    const CELLS: usize = 20;
    // Something that is not nothing is seen.
    let full = (share * CELLS as f64).round() as usize;
    let full = full.max(usize::from(share > 0.0)).min(CELLS);
    format!("{}{}", "#".repeat(full), ".".repeat(CELLS - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_for_the_directories_above_it() {
        let found = |file, depth| directories(Path::new("/t"), Path::new(file), depth);
        assert_eq!(found("/t/a/b/f", 1), [Path::new("/t"), Path::new("/t/a")]);
        assert_eq!(found("/t/f", 5), [Path::new("/t")]);
        assert_eq!(found("/t", 1), [Path::new("/t")]);
        assert_eq!(found("/t/a/b/f", 2).len(), 3);
    }

    #[test]
    fn bars() {
        assert_eq!(bar(0.0), ".".repeat(20));
        assert_eq!(bar(0.001), format!("#{}", ".".repeat(19)));
        assert_eq!(bar(1.0), "#".repeat(20));
    }
}

//! The progress of a command, as the [`Observer`] of backups, restores, imports, exports and dumps.
//! The crate `archive` calls it.
//!
//! Invariant: every warning is printed and counted once. For a file that was restored in part, JSON
//! has a message with the missing ranges.

use crate::rate_limit::RateLimit;
use archive::restore::DamagedRanges;
use archive::{FileChange, Observer, Warning};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use terminal::console::Console;
use terminal::interrupt::Interrupt;
use terminal::json::Object;
use terminal::progress::Progress as Shown;

/// Counters of a run and their display, for `archive` too.
pub struct ArchiveProgress {
    shown: Shown,
    /// Rate limit of the run.
    limit: Option<Arc<RateLimit>>,
}

impl ArchiveProgress {
    /// See [`Shown::start`].
    pub fn start(
        console: &Arc<Console>,
        interrupt: &Interrupt,
        action: &'static str,
        fps: Option<f64>,
    ) -> Self {
        Shown::start(console, interrupt, action, fps).into()
    }

    /// See [`Shown::counting`].
    pub fn counting(mut self, unit: &'static str) -> Self {
        self.shown = self.shown.counting(unit);
        self
    }

    /// Limits what the run reads and stores to so many bytes a second; 0 or `None`: no limit.
    pub fn limited(mut self, bytes_per_s: Option<u64>) -> Self {
        self.limit = RateLimit::new(bytes_per_s, self.interrupt());
        self
    }
}

impl From<Shown> for ArchiveProgress {
    fn from(shown: Shown) -> Self {
        Self { shown, limit: None }
    }
}

impl Deref for ArchiveProgress {
    type Target = Shown;

    fn deref(&self) -> &Shown {
        &self.shown
    }
}

impl Observer for ArchiveProgress {
    fn stop_requested(&self) -> bool {
        self.interrupt().requested()
    }

    fn add_total(&self, files: u64, bytes: u64) {
        self.shown.add_total(files, bytes);
    }

    fn totals_known(&self) {
        self.shown.totals_known();
    }

    fn expect(&self, files: u64, bytes: u64) {
        self.shown.expect(files, bytes);
    }

    fn add_files(&self, files: u64) {
        self.shown.add_files(files);
    }

    fn add_bytes(&self, bytes: u64) {
        self.shown.add_bytes(bytes);
    }

    fn set_current(&self, path: &[u8]) {
        self.shown.set_current(path);
    }

    /// `-v` lists what is stored, `-vv` everything.
    fn wants(&self, change: FileChange) -> bool {
        let least = match change {
            FileChange::New | FileChange::Changed => 1,
            FileChange::Unchanged | FileChange::Excluded => 2,
        };
        self.console().loudness().verbose >= least
    }

    fn change(&self, change: FileChange, path: &Path) {
        list(self.console(), change.name(), path);
    }

    fn has_read(&self, bytes: u64) {
        if let Some(limit) = &self.limit {
            limit.has_read(bytes);
        }
    }

    fn has_stored(&self, total_bytes: u64) {
        if let Some(limit) = &self.limit {
            limit.has_stored(total_bytes);
        }
    }

    fn warning(&self, warning: &Warning<'_>) {
        match warning {
            Warning::Path(error) => self.warn_path(error),
            Warning::Changed(path) => self.warn_changed(path),
            Warning::Partial { path, lost } => {
                self.warn(warning);
                // A closed output ends the run at its summary.
                let _ = self.console().message(partial(path, lost));
            }
            // Programs get every path.
            Warning::Alike { first, others } if self.console().json() => {
                self.warn_path(first);
                others.iter().for_each(|error| self.warn_path(error));
            }
            Warning::Damaged { .. }
            | Warning::Alike { .. }
            | Warning::LinksCopied { .. }
            | Warning::OwnersNotSet { .. } => self.warn(warning),
        }
    }
}

/// Prints a line about what is done with a name: for `-v`, and for dry runs.
pub fn list(console: &Console, action: &str, path: &Path) {
    let bytes = path.as_os_str().as_bytes();
    let mut line = format!("{action:7} ").into_bytes();
    line.extend(console.name(bytes));
    // A closed output ends the run at its summary.
    let _ = console.line(line);
    let message = Object::message("change").text("action", action);
    let _ = console.message(message.path("path", bytes));
}

fn partial(path: &Path, lost: &DamagedRanges) -> Object {
    let ranges = lost.ranges().iter().map(|range| {
        Object::new()
            .integer("offset", range.start)
            .integer("length", range.end - range.start)
    });
    Object::message("partial")
        .path("item", path.as_os_str().as_bytes())
        .integer("bytes_damaged", lost.bytes())
        .objects("damaged", ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::filesystem::PathError;
    use store::StoreError;
    use terminal::console::Loudness;

    fn tell_all(loudness: Loudness) -> (ArchiveProgress, String, String) {
        let (console, out, err) = Console::captured(loudness);
        let progress = ArchiveProgress::start(&console, &Interrupt::detached(), "testing", None);
        let observer: &dyn Observer = &progress;
        let path = Path::new("/a");
        let mut lost = DamagedRanges::default();
        lost.add(0, 4);
        lost.add(10, 1);
        observer.path_failed(&PathError::new("read", path, std::io::Error::other("why")));
        observer.warning(&Warning::Changed(path));
        observer.warning(&Warning::Damaged {
            path,
            outcome: "not restored",
            error: &StoreError::corruption("chunk", "c1", "bad"),
        });
        observer.warning(&Warning::Partial { path, lost: &lost });
        observer.warning(&Warning::OwnersNotSet { entries: 7 });
        (progress, out.text(), err.text())
    }

    #[test]
    fn warnings_are_said_and_counted_once() {
        let (progress, out, err) = tell_all(Loudness::default());
        assert_eq!(progress.warnings(), 5);
        assert_eq!(out, "");
        assert_eq!(
            err,
            "warning: cannot read /a: why\n\
             warning: /a changed while it was read\n\
             warning: /a is damaged in the pool (not restored): corruption: chunk at c1: bad\n\
             warning: /a is restored in part; 5 bytes are damaged and read as zeroes: 0..4, 10..11\n\
             warning: cannot set the owners of 7 entries: not running as root\n"
        );
    }

    #[test]
    fn programs_get_the_ranges_that_a_file_lacks() {
        let (_progress, out, _) = tell_all(Loudness {
            json: true,
            ..Loudness::default()
        });
        let partial = "{\"message_type\":\"partial\",\"item\":\"/a\",\"bytes_damaged\":5,\
                       \"damaged\":[{\"offset\":0,\"length\":4},{\"offset\":10,\"length\":1}]}";
        assert_eq!(out.lines().filter(|line| *line == partial).count(), 1);
        assert_eq!(out.lines().count(), 6);
    }
}

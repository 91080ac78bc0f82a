//! How far a long run is: counters that drivers add to, and a thread that shows them.
//!
//! Invariant: counting takes no lock and never waits for the terminal. On a terminal there is one
//! line that is rewritten; elsewhere silence, or a line at the rate the user set; in JSON, `status`
//! messages. SIGUSR1 is answered with one line in any case. Drivers own a [`Progress`] each run.

mod observing;
mod render;

pub use render::clock;

use crate::console::Console;
use archive::filesystem::PathError;
use parking_lot::{Condvar, Mutex};
use render::View;
use server::interrupt::Interrupt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a terminal's line is rewritten unless the user says otherwise.
const TERMINAL_FPS: f64 = 10.0;
/// How often programs get a status message unless the user says otherwise.
const JSON_FPS: f64 = 1.0;
/// How long SIGUSR1 may wait for its answer.
const SIGNAL_POLL: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Counters {
    files_done: AtomicU64,
    files_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    warnings: AtomicU64,
    /// From a walk ahead; 0 without one.
    files_expected: AtomicU64,
    bytes_expected: AtomicU64,
    totals_known: AtomicBool,
    current: Mutex<Vec<u8>>,
}

struct Shared {
    console: Arc<Console>,
    interrupt: Interrupt,
    action: &'static str,
    started: Instant,
    counters: Counters,
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// See the module's head. Cheap to share by reference between threads.
pub struct Progress {
    shared: Arc<Shared>,
    shown: bool,
    painter: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts showing. `action` is a verb ("backing up"); `fps` is what the user set.
    pub fn start(
        console: &Arc<Console>,
        interrupt: &Interrupt,
        action: &'static str,
        fps: Option<f64>,
    ) -> Self {
        let shared = Arc::new(Shared {
            console: Arc::clone(console),
            interrupt: interrupt.clone(),
            action,
            started: Instant::now(),
            counters: Counters::default(),
            stopped: Mutex::new(false),
            changed: Condvar::new(),
        });
        let interval = interval(console, fps);
        let painter = {
            let shared = Arc::clone(&shared);
            // Without a thread the run is silent, which is no reason to fail it.
            std::thread::Builder::new()
                .name("progress".to_owned())
                .spawn(move || shared.show(interval))
                .ok()
        };
        Self {
            shared,
            shown: interval.is_some(),
            painter,
        }
    }

    /// More to do was found.
    pub fn add_total(&self, files: u64, bytes: u64) {
        let counters = &self.shared.counters;
        counters.files_total.fetch_add(files, Ordering::Relaxed);
        counters.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Nothing more will be found: from now on there is a percentage and an ETA.
    pub fn totals_known(&self) {
        let known = &self.shared.counters.totals_known;
        known.store(true, Ordering::Relaxed);
    }

    /// So much there is to do, as far as a walk ahead can tell: a percentage and an ETA from now on.
    pub fn expect(&self, files: u64, bytes: u64) {
        let counters = &self.shared.counters;
        counters.files_expected.store(files, Ordering::Relaxed);
        counters.bytes_expected.store(bytes, Ordering::Relaxed);
        self.totals_known();
    }

    /// True when somebody looks.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Bytes were done.
    pub fn add_bytes(&self, bytes: u64) {
        let done = &self.shared.counters.bytes_done;
        done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Files were done.
    pub fn add_files(&self, files: u64) {
        let done = &self.shared.counters.files_done;
        done.fetch_add(files, Ordering::Relaxed);
    }

    /// What is being worked on, for people; skipped when the painter is just looking.
    pub fn set_current(&self, path: &[u8]) {
        if let Some(mut current) = self.shared.counters.current.try_lock() {
            current.clear();
            current.extend_from_slice(path);
        }
    }

    /// A file could not be read or written; the run goes on and ends with exit code 3.
    pub fn warn_path(&self, error: &PathError) {
        self.count_warning();
        self.shared.console.warn_path(error);
    }

    /// As [`Progress::warn_path`], without a path.
    pub fn warn(&self, warning: impl std::fmt::Display) {
        self.count_warning();
        self.shared.console.warn(warning);
    }

    /// A file was read, but changed meanwhile; as [`Progress::warn_path`].
    pub fn warn_changed(&self, path: &std::path::Path) {
        self.warn(format_args!(
            "{}: changed while it was read",
            path.display()
        ));
    }

    /// How many warnings there were.
    pub fn warnings(&self) -> u64 {
        self.shared.counters.warnings.load(Ordering::Relaxed)
    }

    /// Bytes done so far.
    pub fn bytes_done(&self) -> u64 {
        self.shared.counters.bytes_done.load(Ordering::Relaxed)
    }

    /// Files done so far.
    pub fn files_done(&self) -> u64 {
        self.shared.counters.files_done.load(Ordering::Relaxed)
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// To poll between steps.
    pub fn interrupt(&self) -> &Interrupt {
        &self.shared.interrupt
    }

    /// Where warnings and results go.
    pub fn console(&self) -> &Arc<Console> {
        &self.shared.console
    }

    fn count_warning(&self) {
        let warnings = &self.shared.counters.warnings;
        warnings.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.changed.notify_all();
        if let Some(painter) = self.painter.take() {
            // A panicking painter has said so itself.
            let _ = painter.join();
        }
        if self.shared.console.paints() {
            self.shared.console.paint(None);
        }
    }
}

impl Shared {
    fn show(&self, interval: Option<Duration>) {
        let wait = interval.map_or(SIGNAL_POLL, |interval| interval.min(SIGNAL_POLL));
        let mut last = Instant::now();
        let mut stopped = self.stopped.lock();
        while !*stopped {
            self.changed.wait_for(&mut stopped, wait);
            if self.interrupt.take_report_request() {
                self.report();
            }
            if interval.is_some_and(|interval| last.elapsed() >= interval) && !*stopped {
                last = Instant::now();
                match self.console.paints() {
                    true => {
                        let columns = self.console.columns();
                        self.console
                            .paint(Some(&render::line(&self.view(), columns)));
                    }
                    false => self.report(),
                }
            }
        }
    }

    /// One whole line, wherever lines go.
    fn report(&self) {
        let view = self.view();
        if self.console.json() {
            // A closed output ends the run at its next result.
            let _ = self.console.message(render::status(&view));
        } else {
            self.console.say(&render::line(&view, usize::MAX));
        }
    }

    fn view(&self) -> View {
        let counters = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let current = counters.current.lock();
        View {
            action: self.action,
            elapsed: self.started.elapsed(),
            files_done: get(&counters.files_done),
            files_total: get(&counters.files_total).max(get(&counters.files_expected)),
            bytes_done: get(&counters.bytes_done),
            bytes_total: get(&counters.bytes_total).max(get(&counters.bytes_expected)),
            totals_known: counters.totals_known.load(Ordering::Relaxed),
            warnings: get(&counters.warnings),
            current: current.clone(),
        }
    }
}

fn interval(console: &Console, fps: Option<f64>) -> Option<Duration> {
    let fps = match (console.loudness().quiet, console.json(), console.paints()) {
        (true, _, _) => None,
        (_, true, _) => Some(fps.unwrap_or(JSON_FPS)),
        (_, _, true) => Some(fps.unwrap_or(TERMINAL_FPS)),
        _ => fps,
    };
    fps.map(|fps| Duration::from_secs_f64(1.0 / fps.clamp(1e-6, 60.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Loudness;

    fn run(loudness: Loudness, fps: Option<f64>) -> (String, String) {
        let (console, out, err) = Console::captured(loudness);
        let interrupt = Interrupt::detached();
        let progress = Progress::start(&console, &interrupt, "testing", fps);
        progress.add_total(2, 100);
        progress.totals_known();
        progress.add_files(1);
        progress.add_bytes(50);
        progress.set_current(b"/a");
        std::thread::sleep(Duration::from_millis(150));
        drop(progress);
        (out.text(), err.text())
    }

    #[test]
    fn silent_unless_asked() {
        assert_eq!(
            run(Loudness::default(), None),
            (String::new(), String::new())
        );
        let (out, err) = run(Loudness::default(), Some(50.0));
        assert_eq!(out, "");
        assert!(err.lines().count() >= 2 && err.contains("50.0%"), "{err}");
    }

    #[test]
    fn programs_get_status_messages() {
        let json = Loudness {
            json: true,
            ..Loudness::default()
        };
        let (out, err) = run(json, Some(50.0));
        assert_eq!(err, "");
        let first = out.lines().next().unwrap();
        assert!(first.starts_with("{\"message_type\":\"status\""), "{first}");
        let quiet = Loudness {
            quiet: true,
            ..json
        };
        assert_eq!(run(quiet, Some(50.0)).0, "");
    }

    #[test]
    fn warnings_are_counted_and_said() {
        let (console, _, err) = Console::captured(Loudness::default());
        let progress = Progress::start(&console, &Interrupt::detached(), "testing", None);
        progress.warn("one");
        progress.warn_path(&PathError::new("read", "/x", std::io::Error::other("two")));
        assert_eq!(progress.warnings(), 2);
        assert_eq!(err.text().lines().count(), 2);
    }
}

//! Progress of a long run: counters, and a thread that shows them. Commands own a [`Progress`] for
//! each run.
//!
//! Invariant: counting takes no lock, so it never waits for the terminal. A terminal shows one line
//! that is redrawn. Other outputs show nothing, or a line at the rate that the user set. JSON shows
//! `status` messages. Each SIGUSR1 is answered with one line.

mod render;

pub use render::clock;

use crate::console::Console;
use crate::interrupt::Interrupt;
use parking_lot::{Condvar, Mutex};
use render::View;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::PathError;

/// Default redraw rate of a terminal's line, per second.
const TERMINAL_FPS: f64 = 10.0;
/// Default rate of JSON status messages, per second.
const JSON_FPS: f64 = 1.0;
/// Maximum time until SIGUSR1 is answered.
const SIGNAL_POLL: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Counters {
    files_done: AtomicU64,
    files_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    warnings: AtomicU64,
    /// Totals from the scan that runs ahead of a backup. 0 without one.
    files_expected: AtomicU64,
    bytes_expected: AtomicU64,
    totals_known: AtomicBool,
    current: Mutex<Vec<u8>>,
}

struct ProgressState {
    console: Arc<Console>,
    interrupt: Interrupt,
    action: &'static str,
    unit: OnceLock<&'static str>,
    started: Instant,
    counters: Counters,
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// Progress of a run. See the module's head.
pub struct Progress {
    shared: Arc<ProgressState>,
    shown: bool,
    painter: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts showing progress. `action` is a verb ("backing up"); `fps` is the rate that the user
    /// set.
    pub fn start(
        console: &Arc<Console>,
        interrupt: &Interrupt,
        action: &'static str,
        fps: Option<f64>,
    ) -> Self {
        let shared = Arc::new(ProgressState {
            console: Arc::clone(console),
            interrupt: interrupt.clone(),
            action,
            unit: OnceLock::new(),
            started: Instant::now(),
            counters: Counters::default(),
            stopped: Mutex::new(false),
            changed: Condvar::new(),
        });
        let interval = interval(console, fps);
        let painter = {
            let shared = Arc::clone(&shared);
            // Without a thread the run shows no progress. That is no reason to fail.
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

    /// Names what the numbers of files count, if not files ("container"). Called once, at the
    /// start.
    pub fn counting(self, unit: &'static str) -> Self {
        let _ = self.shared.unit.set(unit);
        self
    }

    /// Adds work that was found.
    pub fn add_total(&self, files: u64, bytes: u64) {
        let counters = &self.shared.counters;
        counters.files_total.fetch_add(files, Ordering::Relaxed);
        counters.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Declares that the totals are complete. Progress has a percentage and an ETA from now on.
    pub fn totals_known(&self) {
        let known = &self.shared.counters.totals_known;
        known.store(true, Ordering::Relaxed);
    }

    /// Sets the expected totals from a scan ahead. Progress has a percentage and an ETA from now
    /// on.
    pub fn expect(&self, files: u64, bytes: u64) {
        let counters = &self.shared.counters;
        counters.files_expected.store(files, Ordering::Relaxed);
        counters.bytes_expected.store(bytes, Ordering::Relaxed);
        self.totals_known();
    }

    /// Returns true if progress is shown.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Adds processed bytes.
    pub fn add_bytes(&self, bytes: u64) {
        let done = &self.shared.counters.bytes_done;
        done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds processed files.
    pub fn add_files(&self, files: u64) {
        let done = &self.shared.counters.files_done;
        done.fetch_add(files, Ordering::Relaxed);
    }

    /// Sets the path that is being processed. Skipped if the painter is reading it.
    pub fn set_current(&self, path: &[u8]) {
        if let Some(mut current) = self.shared.counters.current.try_lock() {
            current.clear();
            current.extend_from_slice(path);
        }
    }

    /// Warns about a file that could not be read or written. The run goes on and ends with exit
    /// code 3.
    pub fn warn_path(&self, error: &PathError) {
        self.count_warning();
        self.shared.console.warn_path(error);
    }

    /// Like [`Progress::warn_path`], without a path.
    pub fn warn(&self, warning: impl std::fmt::Display) {
        self.count_warning();
        self.shared.console.warn(warning);
    }

    /// Warns about a file that changed while it was read, like [`Progress::warn_path`].
    pub fn warn_changed(&self, path: &std::path::Path) {
        self.warn(format_args!("{} changed while it was read", path.display()));
    }

    /// Returns the number of warnings.
    pub fn warnings(&self) -> u64 {
        self.shared.counters.warnings.load(Ordering::Relaxed)
    }

    /// Returns the processed bytes.
    pub fn bytes_done(&self) -> u64 {
        self.shared.counters.bytes_done.load(Ordering::Relaxed)
    }

    /// Returns the number of processed files.
    pub fn files_done(&self) -> u64 {
        self.shared.counters.files_done.load(Ordering::Relaxed)
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// Returns the stop request, to poll between steps.
    pub fn interrupt(&self) -> &Interrupt {
        &self.shared.interrupt
    }

    /// Returns the console for warnings and results.
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
            // A panicking thread has already been reported by the panic itself.
            let _ = painter.join();
        }
        if self.shared.console.paints() {
            self.shared.console.paint(None);
        }
    }
}

impl ProgressState {
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

    /// Prints one whole line or message.
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
            unit: self.unit.get().copied().unwrap_or("file"),
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
        let is_visible = fps.is_some() && !loudness.quiet;
        let lines = || out.text().lines().count() + err.text().lines().count();
        let began = Instant::now();
        while is_visible && lines() < 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is said");
            std::thread::yield_now();
        }
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

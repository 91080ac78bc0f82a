//! The record of the last `host defrag run` of a path, for `host defrag status`: a file of JSON and
//! a lock beside it. `run` writes it, `status` reads it.
//!
//! The directory is `STATE_DIRECTORY` (systemd sets it), else `/var/lib/quintet` for root, whose
//! cron jobs and units have no home, else `XDG_STATE_HOME/quintet` or `HOME/.local/state/quintet`.
//!
//! Invariant: a record is replaced atomically. The system frees the lock when its process ends,
//! however it ends: so a record of a run in progress without a holder of the lock is one of a run
//! that was killed. Nothing is synced: a crash of the machine may lose the record, and only that.

use super::outcome::object_of;
use anyhow::{Context, bail};
use host_tasks::HostDefragReport;
use maintenance::TaskReport;
use media::{Clock, SystemClock};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use terminal::environment::Environment;
use terminal::json::Object;
use terminal::shell::Shell;

/// A larger file is no record.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// The record of a run in progress.
pub(super) struct Record<'a> {
    shell: &'a Shell,
    top: PathBuf,
    file: PathBuf,
    _lock: File,
}

/// State of a run, as `status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    /// Its process works.
    Running,
    /// It ended by itself.
    Finished,
    /// It was interrupted.
    Stopped,
    /// Its process ended without a word.
    Killed,
}

impl RunState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}

impl<'a> Record<'a> {
    /// Takes the lock of a path's record.
    pub fn begin(shell: &'a Shell, top: &Path) -> anyhow::Result<Self> {
        let top = top.canonicalize()?;
        let directory = directory(&shell.context.environment)?;
        let cannot = || format!("cannot write {}", directory.display());
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&directory);
        made.with_context(cannot)?;
        let name = blake3::hash(top.as_os_str().as_bytes()).to_hex();
        let file = directory.join(format!("{name}.json"));
        let lock = open(&file.with_extension("lock"), true).with_context(cannot)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another run of the same path is in progress");
        }
        Ok(Self {
            shell,
            top,
            file,
            _lock: lock,
        })
    }

    /// Replaces the record. A full disk costs the record only: the run goes on.
    pub fn write(&mut self, report: &HostDefragReport) {
        self.store(report, RunState::Running);
    }

    /// Writes the last record of the run.
    pub fn end(mut self, report: &HostDefragReport, is_finished: bool) {
        let state = match is_finished {
            true => RunState::Finished,
            false => RunState::Stopped,
        };
        self.store(report, state);
    }

    fn store(&mut self, report: &HostDefragReport, state: RunState) {
        let totals = report.totals().bytes;
        let object = Object::message("host_defrag_status")
            .path("path", self.top.as_os_str().as_bytes())
            .text("state", state.name())
            .integer("process", std::process::id())
            .time("began", report.began())
            .time("recorded", SystemClock.now())
            .integer("files", report.files)
            .integer("failed", report.failed)
            .boolean("planned", report.is_planned)
            .integer("waiting_bytes", report.waiting_bytes)
            .integer("bytes_read_from_disk", totals.disk);
        let mut text = object_of(&report.outcome, object).finish();
        text.push('\n');
        let unfinished = self.file.with_extension("new");
        let written =
            fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, &self.file));
        if let Err(e) = written {
            let file = self.file.display();
            let why = units::reason(&e);
            self.shell.console.detail(format!(
                "cannot write the state of the run to {file}: {why}"
            ));
        }
    }
}

/// Returns the records of this user, with the states of their runs; those of one path, or all.
pub(super) fn records(
    environment: &Environment,
    top: Option<&Path>,
) -> anyhow::Result<Vec<(RunState, serde_json::Map<String, Value>)>> {
    let directory = directory(environment)?;
    let entries = match fs::read_dir(&directory) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| directory.display().to_string())?,
    };
    let top = top.map(Path::canonicalize).transpose()?;
    let mut records = Vec::new();
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        // A lock that is free after the record was read was free when it was written last, or the
        // run has ended since.
        let is_running = is_locked(&file.with_extension("lock"));
        let Some(mut record) = read(&file) else {
            continue;
        };
        let is_wanted = |top: &PathBuf| {
            let name = blake3::hash(top.as_os_str().as_bytes()).to_hex();
            file.file_stem().is_some_and(|stem| stem == name.as_str())
        };
        if top.as_ref().is_none_or(is_wanted) {
            let text = record.get("state").and_then(Value::as_str);
            let state = match text {
                Some("finished") => RunState::Finished,
                Some("stopped") => RunState::Stopped,
                Some("running") if is_running => RunState::Running,
                Some("running") => RunState::Killed,
                _ => continue,
            };
            // A killed run has recorded another state.
            record.insert("state".to_owned(), state.name().into());
            records.push((state, record));
        }
    }
    let began = |record: &serde_json::Map<String, Value>| {
        let began = record.get("began").and_then(Value::as_str);
        began.map(str::to_owned)
    };
    records.sort_by_key(|(_, record)| began(record));
    Ok(records)
}

fn read(file: &Path) -> Option<serde_json::Map<String, Value>> {
    let mut text = String::new();
    let limited = open(file, false).ok()?.take(RECORD_BYTES_MAX);
    { limited }.read_to_string(&mut text).ok()?;
    match serde_json::from_str(&text).ok()? {
        Value::Object(record) => Some(record),
        _ => None,
    }
}

/// Returns true if a process has the lock.
fn is_locked(lock: &Path) -> bool {
    let lock = open(lock, false);
    lock.is_ok_and(|lock| flock(lock, FlockOperation::NonBlockingLockShared).is_err())
}

fn open(file: &Path, creates: bool) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .write(creates)
        .create(creates)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(file)
}

fn directory(environment: &Environment) -> anyhow::Result<PathBuf> {
    let absolute = |name| {
        let path = environment.value(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let is_root = rustix::process::geteuid().is_root();
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let of_user = || absolute("XDG_STATE_HOME").or_else(home);
    let state = match absolute("STATE_DIRECTORY") {
        Some(state) => state,
        None if is_root => PathBuf::from("/var/lib/quintet"),
        None => of_user()
            .context("neither XDG_STATE_HOME nor HOME is an absolute path; set one of them")?
            .join("quintet"),
    };
    Ok(state.join("host-defrag"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_units_and_users() {
        let of = |pairs: &[(&str, &str)]| directory(&Environment::of(pairs));
        let unit = [("STATE_DIRECTORY", "/var/lib/private/q"), ("HOME", "/h")];
        assert_eq!(
            of(&unit).unwrap(),
            Path::new("/var/lib/private/q/host-defrag")
        );
        let user = [
            ("STATE_DIRECTORY", "relative"),
            ("XDG_STATE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        let expected = match rustix::process::geteuid().is_root() {
            true => "/var/lib/quintet/host-defrag",
            false => "/x/quintet/host-defrag",
        };
        assert_eq!(of(&user).unwrap(), Path::new(expected));
    }

    #[test]
    fn a_lock_tells_a_run_in_progress_from_a_killed_one() {
        let state = tempfile::tempdir().unwrap();
        let directory = state.path().join("host-defrag");
        fs::create_dir(&directory).unwrap();
        let top = state.path().canonicalize().unwrap();
        let name = blake3::hash(top.as_os_str().as_bytes()).to_hex();
        let file = directory.join(format!("{name}.json"));
        fs::write(&file, r#"{"state":"running","began":"2026"}"#).unwrap();
        fs::write(directory.join("torn.json"), r#"{"state":"#).unwrap();
        let environment = Environment::of(&[("STATE_DIRECTORY", state.path().to_str().unwrap())]);
        let states = || {
            let found = records(&environment, Some(&top)).unwrap();
            found
                .into_iter()
                .map(|(state, _)| state)
                .collect::<Vec<_>>()
        };
        assert_eq!(states(), [RunState::Killed]);
        let lock = open(&file.with_extension("lock"), true).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(states(), [RunState::Running]);
        drop(lock);
        assert_eq!(states(), [RunState::Killed]);
        assert!(
            records(&environment, Some(Path::new("/")))
                .unwrap()
                .is_empty()
        );
    }
}

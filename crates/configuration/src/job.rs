//! The jobs of a file: names, schedules, timers and command lines. `quintet run` runs them, and
//! `quintet config check` lists them.
//!
//! Invariant: a job is command lines of existing commands, except for `watch`, which compares the
//! pool with the file. The order is that in which a run without names goes through them.

use crate::when::{When, span};
use crate::{Configuration, Copy, Password, Retention, Source, SourceKind};
use std::ffi::OsString;

/// Start of the tag that tells `quintet status` the interval of a source.
const EVERY: &str = "every=";
const HOUR_S: u64 = 3600;

/// A job.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Its name: that of a source, `forget`, `copy:NAME`, `check`, `scrub` or `watch`.
    pub name: String,
    /// Schedule; `None`: it only runs when a user names it or runs all.
    pub when: Option<When>,
    /// The work.
    pub task: Task<'a>,
}

/// The work of a job.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// Back a source up.
    Backup(&'a Source),
    /// Forget by the rules, then collect garbage.
    Forget(&'a Retention),
    /// Copy all snapshots.
    Copy(&'a Copy),
    /// Check, and read one of so many parts.
    Check {
        /// Number of parts.
        parts: u64,
    },
    /// Scrub everything.
    Scrub,
    /// Look for silent sources, damage and a full disk.
    Watch,
}

impl Configuration {
    /// Returns all jobs, in the order of a run.
    pub fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        let mut add = |name: &str, when, task| {
            let name = name.to_owned();
            jobs.push(Job { name, when, task });
        };
        for source in &self.sources {
            add(&source.name, source.when, Task::Backup(source));
        }
        if let Some(retention) = &self.retention {
            add("forget", retention.when, Task::Forget(retention));
        }
        for copy in &self.copies {
            add(&format!("copy:{}", copy.name), copy.when, Task::Copy(copy));
        }
        if let Some(check) = &self.check {
            let parts = check.parts;
            add("check", check.when, Task::Check { parts });
        }
        if let Some(scrub) = &self.scrub {
            add("scrub", scrub.when, Task::Scrub);
        }
        // Without a channel it has no effect by itself.
        let hourly = self.notify.as_ref().map(|_| When::Hourly);
        add("watch", hourly, Task::Watch);
        jobs
    }

    /// Returns the global options of every command: the pool, its password, the memory.
    pub fn options(&self) -> Vec<OsString> {
        let mut options = vec![option("repo", &self.pool.path.value)];
        options.extend(password_options(&self.pool.password, ""));
        options.extend(self.pool.memory.as_ref().map(|size| option("memory", size)));
        options
    }
}

impl Job<'_> {
    /// Returns true if a user who says `name` means this job.
    pub fn is_called(&self, name: &str) -> bool {
        let is_copy = matches!(self.task, Task::Copy(copy) if copy.name == name);
        self.name == name || is_copy
    }

    /// Returns the lines of its systemd timer's section `[Timer]`; none if it has no schedule.
    pub fn timer_lines(&self) -> Vec<String> {
        self.when.map_or_else(Vec::new, |when| when.timer_lines())
    }

    /// Returns its command lines without the program's name and the global options. The second
    /// runs only if the first succeeds. `part`: the part that a check reads, from 1. A watch has
    /// none.
    pub fn commands(&self, part: u64) -> Vec<Vec<OsString>> {
        match self.task {
            Task::Backup(source) => vec![backup(source)],
            Task::Forget(retention) => {
                let rules = retention.rules.iter();
                let rules = rules.map(|(rule, value)| option(rule, value));
                let forget = std::iter::once("forget".into()).chain(rules);
                vec![forget.collect(), vec!["gc".into()]]
            }
            Task::Copy(copy) => {
                let mut words: Vec<OsString> = vec!["copy".into(), "--all".into()];
                words.push(option("to", &copy.to.value));
                words.extend(password_options(&copy.password, "to-"));
                words.extend(copy.limit.iter().map(|limit| option("limit", limit)));
                vec![words]
            }
            Task::Check { parts } => {
                let mut words: Vec<OsString> = vec!["check".into(), "--read-data".into()];
                if parts > 1 {
                    words.push(option("subset", format!("{part}/{parts}")));
                }
                vec![words]
            }
            Task::Scrub => vec![vec!["scrub".into()]],
            Task::Watch => Vec::new(),
        }
    }

    /// Describes the work on one line.
    pub fn describe(&self) -> String {
        match self.task {
            Task::Backup(source) => match &source.kind {
                SourceKind::Tree(tree) => {
                    let paths = tree.paths.value.iter();
                    let paths: Vec<_> = paths.map(|path| path.display().to_string()).collect();
                    format!("back up {}", paths.join(", "))
                }
                SourceKind::Stream(stream) => {
                    let command = stream.command.value.join(" ");
                    format!("store the output of `{command}` as {}", stream.name)
                }
            },
            Task::Forget(retention) => {
                let rules = retention.rules.iter();
                let rules: Vec<_> = rules.map(|(rule, n)| format!("{rule} {n}")).collect();
                format!("forget, then gc: {}", rules.join(", "))
            }
            Task::Copy(copy) => format!("copy all snapshots to {}", copy.to.value.display()),
            Task::Check { parts: 1 } => "check all data".to_owned(),
            Task::Check { parts } => format!("check, and read 1/{parts} of the data"),
            Task::Scrub => "scrub all data".to_owned(),
            Task::Watch => "look for silence, damage and a full disk".to_owned(),
        }
    }
}

fn backup(source: &Source) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["backup".into()];
    words.extend(source.tags.iter().map(|tag| option("tag", tag)));
    let says_interval = source.tags.iter().any(|tag| tag.starts_with(EVERY));
    if let Some(when) = source.when.filter(|_| !says_interval) {
        // The tag counts in hours.
        let hours = when.period_s().div_ceil(HOUR_S);
        words.push(option("tag", format!("{EVERY}{}", span(hours * HOUR_S))));
    }
    words.extend(source.limit.iter().map(|limit| option("limit", limit)));
    match &source.kind {
        SourceKind::Tree(tree) => {
            words.extend(
                tree.exclude
                    .iter()
                    .map(|pattern| option("exclude", pattern)),
            );
            let flags = [
                ("--exclude-caches", tree.exclude_caches),
                ("--one-file-system", tree.one_file_system),
                ("--snapshot", tree.snapshot),
                ("--ignore-inode", tree.ignore_inode),
                ("--ignore-ctime", tree.ignore_ctime),
            ];
            let given = flags.iter().filter(|(_, is_set)| *is_set);
            words.extend(given.map(|(flag, _)| flag.into()));
            words.push("--".into());
            words.extend(tree.paths.value.iter().map(Into::into));
        }
        SourceKind::Stream(stream) => {
            words.push(option("stdin-filename", &stream.name));
            words.push("--stdin-from-command".into());
            words.push("--".into());
            words.extend(stream.command.value.iter().map(Into::into));
        }
    }
    words
}

/// Returns the options of a password's source. `prefix`: of their names.
fn password_options(password: &Password, prefix: &str) -> Vec<OsString> {
    let file = password.file.as_ref();
    let file = file.map(|file| option(&format!("{prefix}password-file"), &file.value));
    let command = password.command.as_ref();
    let command =
        command.map(|command| option(&format!("{prefix}password-command"), &command.value));
    file.into_iter().chain(command).collect()
}

/// Returns `--name=value`: one word, so that a value that begins with a dash stays a value.
fn option(name: &str, value: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}

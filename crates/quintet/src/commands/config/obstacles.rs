//! Finds obstacles that would keep jobs of a configuration file from running. `config check`
//! and `setup` call this.
//!
//! Invariant: no password is read and no program is run.

use crate::commands::invocation::Invocation;
use crate::settings::Settings;
use clap::Parser;
use command_line::Cli;
use configuration::{Configuration, Copy, Located, Password, Source, SourceKind, Task};
use rustix::fs::{Access, access};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use store::{Pool, StoreErrorKind};
use unlocking::{PasswordSource, exposed_secret};

/// One obstacle.
pub(in crate::commands) struct Obstacle {
    /// The job cannot run. Otherwise it may be different when the job runs, or is a risk.
    pub is_error: bool,
    /// Line of the file.
    pub line: usize,
    /// The key.
    pub key: String,
    /// The reason and the remedy.
    pub why: String,
}

/// The obstacles so far.
struct Found<'a> {
    invocation: &'a Invocation,
    list: Vec<Obstacle>,
}

/// Returns all obstacles, in the order of the file.
pub(in crate::commands) fn obstacles(
    invocation: &Invocation,
    configuration: &Configuration,
) -> Vec<Obstacle> {
    let mut found = Found {
        invocation,
        list: Vec::new(),
    };
    let pool = &configuration.pool;
    found.check_pool(&pool.path, &pool.password);
    found.check_password("pool.password", &pool.password);
    for source in &configuration.sources {
        found.check_source(source);
    }
    for copy in &configuration.copies {
        found.check_copy(copy, &pool.path.value);
    }
    let notify = configuration.notify.as_ref();
    if let Some(command) = notify.and_then(|notify| notify.command.as_ref()) {
        found.check_program("notify.command", command.line, command.value.first());
    }
    found.check_command_lines(configuration);
    let mut list = found.list;
    list.sort_by_key(|obstacle| obstacle.line);
    list
}

impl Found<'_> {
    fn add(&mut self, is_error: bool, line: usize, key: &str, why: String) {
        self.list.push(Obstacle {
            is_error,
            line,
            key: key.to_owned(),
            why,
        });
    }

    fn check_pool(&mut self, path: &Located<PathBuf>, password: &Password) {
        const KEY: &str = "pool.path";
        let place = path.value.display();
        let unlocked = Invocation::media_at(&path.value, None, false);
        let unlocked = unlocked.and_then(|media| Ok(Pool::unlock(&media, None)?));
        let Err(error) = unlocked else { return };
        let kind = error.downcast_ref().map(|e: &store::StoreError| e.kind);
        match kind {
            // The environment of this command is not that of a timer.
            Some(StoreErrorKind::WrongKey) => {
                if password.file.is_none() && password.command.is_none() {
                    let why =
                        "the pool is encrypted, and a timer cannot be asked; set password-file";
                    self.add(false, path.line, KEY, why.to_owned());
                }
            }
            Some(StoreErrorKind::NoPool) => {
                let why = format!(
                    "there is no pool in {place}; mount its disk, or make one: quintet -r {place} init"
                );
                self.add(true, path.line, KEY, why);
            }
            _ => {
                let why = crate::commands::failure::text(&error);
                self.add(true, path.line, KEY, why);
            }
        }
    }

    /// `key`: the section and the beginning of the keys.
    fn check_password(&mut self, key: &str, password: &Password) {
        if let Some(file) = &password.file {
            let key = &format!("{key}-file");
            let place = file.value.display();
            match std::fs::File::open(&file.value) {
                Err(e) => {
                    let why = format!("cannot read {place}: {}", units::reason(&e));
                    self.add(
                        true,
                        file.line,
                        key,
                        format!("{why}; create it with mode 0600"),
                    );
                }
                Ok(_) => {
                    let source = PasswordSource::File(file.value.clone());
                    let environment = &self.invocation.context.environment;
                    if let Some(why) = exposed_secret(&source, environment) {
                        self.add(false, file.line, key, why);
                    }
                }
            }
        }
        if let Some(command) = &password.command {
            let program = command.value.split_whitespace().next().map(str::to_owned);
            let key = &format!("{key}-command");
            self.check_program(key, command.line, program.as_ref());
        }
    }

    fn check_source(&mut self, source: &Source) {
        let section = format!("sources.{}", source.name);
        match &source.kind {
            SourceKind::Stream(stream) => {
                let command = &stream.command;
                let key = format!("{section}.command");
                self.check_program(&key, command.line, command.value.first());
            }
            SourceKind::Tree(tree) => {
                let paths = &tree.paths.value;
                let is_missing = |path: &&PathBuf| path.symlink_metadata().is_err();
                let missing: Vec<_> = paths.iter().filter(is_missing).collect();
                let are_all = missing.len() == paths.len();
                for path in missing {
                    let why = format!(
                        "{} does not exist; mount it or correct the path",
                        path.display()
                    );
                    let key = format!("{section}.paths");
                    self.add(are_all, tree.paths.line, &key, why);
                }
            }
        }
    }

    fn check_copy(&mut self, copy: &Copy, pool: &Path) {
        let (to, line) = (&copy.to.value, copy.to.line);
        let key = format!("copies.{}.to", copy.name);
        let place = to.display();
        let is_same = matches!((to.canonicalize(), pool.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if is_same {
            let why = format!("{place} is the pool itself; name another pool");
            self.add(true, line, &key, why);
        } else if !to.is_dir() {
            let why = format!(
                "there is no pool in {place} now; mount its disk, or make one: quintet -r {place} init"
            );
            self.add(false, line, &key, why);
        }
        self.check_password(&format!("copies.{}.to-password", copy.name), &copy.password);
    }

    /// Looks for a program as a run would.
    fn check_program(&mut self, key: &str, line: usize, program: Option<&String>) {
        let Some(program) = program else { return };
        let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
        let environment = &self.invocation.context.environment;
        let directories = environment.value("PATH").unwrap_or_default();
        let is_there = match program.contains('/') {
            true => is_program(Path::new(program)),
            false => std::env::split_paths(directories).any(|dir| is_program(&dir.join(program))),
        };
        if program.contains('/') && !program.starts_with('/') {
            let why = format!("{program} is a relative path; begin it with /");
            self.add(true, line, key, why);
        } else if !is_there {
            let why = format!("there is no program {program}; install it, or give its full path");
            self.add(true, line, key, why);
        }
    }

    /// Parses what the jobs would run, and checks its settings, as the run does.
    fn check_command_lines(&mut self, configuration: &Configuration) {
        let line = configuration.pool.path.line;
        let words = std::iter::once(OsString::from("quintet")).chain(configuration.options());
        if let Ok(cli) = Cli::try_parse_from(words.chain([OsString::from("status")]))
            && let Err(error) = Settings::new(&cli.global, &self.invocation.context)
        {
            self.add(true, line, "pool", error.to_string());
        }
        for job in configuration.jobs() {
            for command in job.commands(1) {
                let words = std::iter::once(OsString::from("quintet"));
                let words = words.chain(configuration.options()).chain(command);
                let Err(error) = Cli::try_parse_from(words) else {
                    continue;
                };
                let line = match job.task {
                    Task::Backup(source) => source.line,
                    _ => 1,
                };
                let error = error.to_string();
                let why = error.lines().next().unwrap_or_default().to_owned();
                self.add(true, line, &job.name, why);
            }
        }
    }
}

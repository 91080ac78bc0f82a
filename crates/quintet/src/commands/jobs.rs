//! `run`: runs jobs of the configuration file, as timers do. [`super::run`] calls this.
//!
//! Invariant: a job is what its command lines would do, parsed by the same parser. A failed job
//! keeps no other from running, its own exit code is never replaced by that of a notification, and
//! the worst code is that of the run.
//!
//! ```text
//! file --> jobs --> command lines --> run_for (asks the pool's server, as every command)
//!             |                          |
//!             +--> watch                 +--> exit code, end of the text --> notifications
//! ```

mod memory;
mod rotation;
mod watch;

use super::configuration_file::ConfigurationFile;
use super::failure;
use super::invocation::Invocation;
use super::notify::notification;
use super::run_for;
use anyhow::{Context, bail};
use clap::Parser;
use command_line::{Cli, GlobalArgs, RunArgs};
use configuration::{Event, Job, Task};
use notifications::{Subject, deliver};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use terminal::command_context::{CommandContext, Streams};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::kept_text::KeptText;

/// Lines of a command's last words in a message.
const LINES_MAX: usize = 3;

pub(super) fn run(
    invocation: &Invocation,
    global: &GlobalArgs,
    args: &RunArgs,
) -> anyhow::Result<Exit> {
    let flags = flags_for_all(global)?;
    let file = ConfigurationFile::read(invocation, &args.file)?;
    let jobs = file.configuration.jobs();
    let chosen = choose(&jobs, &args.names)?;
    let mut run = Run {
        invocation,
        file: &file,
        flags,
        worst: Exit::Done,
        is_undelivered: false,
    };
    for job in &chosen {
        if chosen.len() > 1 {
            let console = &invocation.console;
            console.note(format_args!("{}: {}", job.name, job.describe()));
        }
        let exit = run.job(job)?;
        invocation.console.message(
            Object::message("job_end")
                .text("job", &job.name)
                .integer("code", exit.code()),
        )?;
        run.worst = worse(run.worst, exit);
        if invocation.interrupt.requested() {
            return Ok(worse(run.worst, Exit::Interrupted));
        }
    }
    if run.worst == Exit::Done {
        let names: Vec<&str> = chosen.iter().map(|job| job.name.as_str()).collect();
        run.notify(
            Subject::Success,
            &names.join(", "),
            Some(Exit::Done),
            "done",
        );
    }
    Ok(match (run.worst, run.is_undelivered) {
        (Exit::Done, true) => Exit::Failed,
        (worst, _) => worst,
    })
}

/// Returns the global options that every command of the run gets. Those that the file says are
/// refused: the jobs would not be those that the timers run.
fn flags_for_all(global: &GlobalArgs) -> anyhow::Result<Vec<OsString>> {
    let password = &global.password;
    let of_the_file = [
        ("--repo", global.repo.is_some()),
        ("--repository-file", global.repository_file.is_some()),
        ("--password-file", password.password_file.is_some()),
        ("--password-command", password.password_command.is_some()),
        ("--key-file", password.key_file.is_some()),
        ("--memory", global.memory.is_some()),
    ];
    if let Some((option, _)) = of_the_file.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "the configuration file says what {option} would say; remove the option, or give another --config"
        );
    }
    let flags = [
        ("--json", global.json),
        ("--quiet", global.quiet),
        ("--accept-changed-pool", global.accept_changed_pool),
        ("--insecure-no-password", password.insecure_no_password),
    ];
    let given = flags.iter().filter(|(_, is_given)| *is_given);
    let given = given.map(|(flag, _)| OsString::from(flag));
    let verbose = (0..global.verbose).map(|_| OsString::from("--verbose"));
    let wait = global.wait.map(|wait| format!("--wait={}s", wait.seconds));
    let wait = wait.map(OsString::from);
    Ok(given.chain(verbose).chain(wait).collect())
}

/// Returns the jobs that a user named, in the order given; without a name all.
fn choose<'a>(jobs: &'a [Job<'a>], names: &[String]) -> anyhow::Result<Vec<&'a Job<'a>>> {
    if names.is_empty() {
        return Ok(jobs.iter().collect());
    }
    let one = |name: &String| {
        let job = jobs.iter().find(|job| job.is_called(name));
        job.with_context(|| {
            let known: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
            let known = known.join(", ");
            format!("the configuration file has no job {name:?}; it has {known}")
        })
    };
    names.iter().map(one).collect()
}

/// Returns the worse of two outcomes.
fn worse(a: Exit, b: Exit) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Done => 0,
        Exit::Repaired => 1,
        Exit::Partly => 2,
        Exit::OutputClosed | Exit::Failed => 3,
        Exit::Locked => 4,
        Exit::WrongKey => 5,
        Exit::NoPool => 6,
        Exit::Damaged => 7,
        Exit::Interrupted => 8,
    };
    match rank(b) > rank(a) {
        true => b,
        false => a,
    }
}

/// One run.
struct Run<'a> {
    invocation: &'a Invocation,
    file: &'a ConfigurationFile,
    /// Global options of the user, for every command.
    flags: Vec<OsString>,
    worst: Exit,
    /// A notification was not delivered.
    is_undelivered: bool,
}

impl Run<'_> {
    /// Runs a job, and notifies of its failure. Fails only if the run cannot go on.
    fn job(&mut self, job: &Job<'_>) -> anyhow::Result<Exit> {
        let (exit, text) = match job.task {
            Task::Watch => match watch::run(self) {
                // It has notified of what it found.
                Ok(exit) => return Ok(exit),
                Err(error) => {
                    let text = failure::text(&error);
                    self.invocation.console.warn(format_args!("watch: {text}"));
                    (failure::exit_of(&error), text)
                }
            },
            Task::Check { parts } => {
                let rotation = rotation::Rotation::of(self.invocation, self.pool(), parts)?;
                let outcome = self.commands(job, rotation.part)?;
                // Damage is a result too. A part that was not read is read by the next run.
                if matches!(outcome.0, Exit::Done | Exit::Repaired | Exit::Damaged) {
                    rotation.finish(self.invocation);
                }
                outcome
            }
            _ => self.commands(job, 1)?,
        };
        let event = match exit {
            // The user knows.
            Exit::Done | Exit::Interrupted => return Ok(exit),
            Exit::Repaired | Exit::Damaged => Event::Damage,
            _ => Event::Failure,
        };
        let meaning = Exit::TABLE.iter().find(|(known, _)| *known == exit);
        let meaning = meaning.map_or("failed", |(_, meaning)| meaning);
        let text = match text.is_empty() {
            true => format!("{}: {meaning} (exit code {})", job.name, exit.code()),
            false => format!(
                "{}: {meaning} (exit code {}): {text}",
                job.name,
                exit.code()
            ),
        };
        self.notify(Subject::Problem(event), &job.name, Some(exit), &text);
        Ok(exit)
    }

    fn pool(&self) -> &std::path::Path {
        &self.file.configuration.pool.path.value
    }

    /// Runs the command lines of a job until one fails. Returns its outcome and last words.
    fn commands(&self, job: &Job<'_>, part: u64) -> anyhow::Result<(Exit, String)> {
        for command in job.commands(part) {
            let (exit, text) = self.command(command)?;
            if exit != Exit::Done {
                return Ok((exit, text));
            }
        }
        Ok((Exit::Done, String::new()))
    }

    fn command(&self, command: Vec<OsString>) -> anyhow::Result<(Exit, String)> {
        let arguments = self.arguments(command);
        // `config check` says so too.
        let cli = Cli::try_parse_from(&arguments)?;
        // Both write to the same output.
        self.invocation.console.flush()?;
        let cannot = "cannot prepare the outputs of a job";
        let (context, kept) = self.context().context(cannot)?;
        let exit = run_for(context, cli, &arguments, None);
        let text = kept.map_or_else(String::new, KeptText::end);
        Ok((exit, last_words(&text)))
    }

    /// Returns a whole command line.
    fn arguments(&self, command: Vec<OsString>) -> Vec<OsString> {
        let program = std::iter::once(OsString::from("quintet"));
        let options = self.file.configuration.options();
        let words = program.chain(self.flags.iter().cloned()).chain(options);
        words.chain(command).collect()
    }

    /// Returns a context like that of the run. Its errors are kept too, unless they go to a
    /// terminal: there they share a line with the progress.
    fn context(&self) -> io::Result<(CommandContext, Option<KeptText>)> {
        let own = &self.invocation.context;
        let streams = own.streams();
        let (error, kept) = match streams.error.is_terminal() {
            true => (streams.error.try_clone()?, None),
            false => {
                let (text, error) = io::pipe()?;
                let kept = KeptText::start(text, Some(own.error()?))?;
                (File::from(OwnedFd::from(error)), Some(kept))
            }
        };
        let streams = Streams {
            input: streams.input.try_clone()?,
            output: streams.output.try_clone()?,
            error,
            from_client: None,
        };
        let environment = own.environment.clone();
        let context = CommandContext::new(environment, own.interrupt.clone(), streams);
        Ok((context, kept))
    }

    /// Notifies. Returns true if every channel that is to hear of it has accepted it.
    fn notify(&mut self, subject: Subject, job: &str, exit: Option<Exit>, text: &str) -> bool {
        let Some(notify) = &self.file.configuration.notify else {
            return true;
        };
        let code = exit.map(Exit::code);
        let invocation = self.invocation;
        let notification = notification(invocation, self.pool(), subject, job, code, text);
        let mut are_delivered = true;
        for delivery in deliver(&invocation.context, notify, &notification) {
            if let Err(why) = delivery.outcome {
                are_delivered = false;
                let (word, channel) = (subject.word(), delivery.channel);
                invocation.console.warn(format_args!(
                    "cannot notify {channel} of the {word} of {job}: {why}; try quintet notify --test"
                ));
            }
        }
        self.is_undelivered |= !are_delivered;
        are_delivered
    }
}

/// Returns the error that ended a command, or the last lines that it wrote to standard error.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if let Some(error) = lines.last().and_then(|line| final_error(line)) {
        return error;
    }
    let first = lines.len().saturating_sub(LINES_MAX);
    lines.get(first..).unwrap_or_default().join("; ")
}

/// Returns the message of a line with the error that ended a command, in text or JSON.
fn final_error(line: &str) -> Option<String> {
    if let Some(message) = line.strip_prefix("quintet: ") {
        return Some(message.to_owned());
    }
    let object = serde_json::from_str::<serde_json::Value>(line).ok()?;
    Some(object.get("message")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::Configuration;

    #[test]
    fn the_worst_code_is_that_of_the_run() {
        let all = Exit::TABLE.map(|(exit, _)| exit);
        for exit in all {
            assert_eq!(worse(exit, exit), exit);
            assert_eq!(worse(Exit::Done, exit), exit);
            assert_eq!(worse(exit, Exit::Done), exit);
            assert_eq!(worse(Exit::Partly, exit), worse(exit, Exit::Partly));
        }
        assert_eq!(worse(Exit::Failed, Exit::Partly), Exit::Failed);
        assert_eq!(worse(Exit::Damaged, Exit::NoPool), Exit::Damaged);
        assert_eq!(worse(Exit::Repaired, Exit::Partly), Exit::Partly);
    }

    #[test]
    fn last_words_are_the_message() {
        assert_eq!(last_words("a\nb\n\n  c \nd\n"), "b; c; d");
        assert_eq!(last_words("a\nquintet: it failed: a\n"), "it failed: a");
        let json = "{\"message_type\":\"exit_error\",\"code\":1,\"message\":\"no disk\"}\n";
        assert_eq!(last_words(json), "no disk");
        assert_eq!(last_words(""), "");
    }

    #[test]
    fn the_command_line_accepts_what_the_example_says() {
        let page = include_str!("../../../../docs/tasks.md");
        let example = page.rsplit("```toml\n").next().unwrap();
        let example = example.split("```").next().unwrap();
        let read = Configuration::parse(example).unwrap();
        let mut parsed = 0;
        for job in read.jobs() {
            for command in job.commands(3) {
                let words = std::iter::once(OsString::from("quintet"));
                let words = words.chain(read.options()).chain(command);
                Cli::try_parse_from(words).unwrap();
                parsed += 1;
            }
        }
        assert_eq!(parsed, 7);
    }
}

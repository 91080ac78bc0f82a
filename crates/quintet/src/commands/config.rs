//! `config check`: lists the jobs of the configuration file, and what would keep them from running.
//! [`super::run`] calls this.
//!
//! Invariant: it changes nothing and needs no password. A job that cannot run as the file says is
//! an error; anything that may be different when the job runs, such as a disk that is not mounted,
//! is a warning.

pub(super) mod obstacles;

use super::configuration_file::{ConfigurationFile, tell};
use super::invocation::Invocation;
use anyhow::bail;
use command_line::ConfigCommand;
use configuration::{Job, Notify};
use obstacles::obstacles;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::table::Table;
use units::count;

pub(super) fn run(invocation: &Invocation, command: &ConfigCommand) -> anyhow::Result<Exit> {
    let ConfigCommand::Check(args) = command;
    check(invocation, &ConfigurationFile::read(invocation, args)?)
}

/// Lists jobs and obstacles of a file. Fails if a job cannot run.
pub(super) fn check(invocation: &Invocation, file: &ConfigurationFile) -> anyhow::Result<Exit> {
    let configuration = &file.configuration;
    let console = &invocation.console;
    let mut table = Table::new(["JOB", "WHEN", "WHAT"], &[]);
    let jobs = configuration.jobs();
    for job in &jobs {
        console.message(object(job))?;
        table.row([job.name.clone(), when(job), job.describe()]);
    }
    let channels = configuration.notify.as_ref().map(channels);
    let channels = channels.unwrap_or_else(|| "no channel; problems are only printed".to_owned());
    table.row(["notify".to_owned(), "on problems".to_owned(), channels]);
    for line in table.lines() {
        console.line(line)?;
    }
    let mut errors = 0;
    let obstacles = obstacles(invocation, configuration);
    for obstacle in &obstacles {
        let (line, key) = (obstacle.line, obstacle.key.as_str());
        let why = match obstacle.is_error {
            true => obstacle.why.clone(),
            false => format!("warning: {}", obstacle.why),
        };
        tell(invocation, &file.path, line, key, &why)?;
        errors += u64::from(obstacle.is_error);
    }
    console.message(
        Object::message("summary")
            .integer("jobs", jobs.len() as u64)
            .integer("errors", errors)
            .integer("warnings", obstacles.len() as u64 - errors),
    )?;
    if errors > 0 {
        let what = count(errors, "error");
        bail!(
            "{}: {what}; correct the file or what it names",
            file.path.display()
        );
    }
    Ok(Exit::Done)
}

/// Says when a job runs.
fn when(job: &Job<'_>) -> String {
    match job.when {
        Some(when) => when.to_string(),
        None => "by hand".to_owned(),
    }
}

fn channels(notify: &Notify) -> String {
    let command = notify.command.as_ref();
    let command = command.map(|command| format!("run `{}`", command.value.join(" ")));
    let url = notify.url.as_ref();
    // The rest of a URL may be a secret.
    let url = url.map(|url| format!("tell {}", notifications::host_of(&url.value)));
    let words = notify.on.iter().map(|event| event.word());
    let channels: Vec<String> = command.into_iter().chain(url).collect();
    let words: Vec<_> = words.collect();
    format!("{} of {}", channels.join(" and "), words.join(", "))
}

fn object(job: &Job<'_>) -> Object {
    let message = Object::message("job").text("name", &job.name);
    let message = match job.when {
        Some(when) => message
            .text("when", &when.to_string())
            .integer("period_seconds", when.period_s()),
        None => message,
    };
    message
        .texts("timer", job.timer_lines())
        .text("description", &job.describe())
}

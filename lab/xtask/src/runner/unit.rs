//! The unit and integration tests of all crates: a job for each test.
//!
//! A process for each costs milliseconds. For that, tests cannot disturb each other through the
//! process, a test that hangs ends alone, and tests of all crates fill the processors together.

use super::artifacts::{Program, Programs};
use super::job::{Job, JobKind};
use std::io;
use std::process::Command;

/// Ignored tests that run nevertheless: a plain `cargo test` leaves them out, as they take a
/// minute.
const LONG: &[&str] = &["targets_hold"];
const SECONDS_MAX: u64 = 900;

/// Returns a job for each test of the test harnesses among `programs`.
pub fn jobs(programs: &Programs) -> io::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for harness in programs.0.iter().filter(|p| p.is_test) {
        let ignored = list(harness, &["--ignored"])?;
        for test in list(harness, &[])? {
            let is_long = LONG.contains(&test.as_str());
            if is_long || !ignored.contains(&test) {
                jobs.push(job(harness, &test, is_long));
            }
        }
    }
    Ok(jobs)
}

fn job(harness: &Program, test: &str, is_ignored: bool) -> Job {
    // Integration tests of a crate stand in one harness, `all`, with a module for each file.
    let target = match harness.kind.as_str() {
        "test" if harness.target != "all" => format!("{}::", harness.target),
        _ => String::new(),
    };
    let mut arguments = vec![test.to_owned(), "--exact".into(), "--nocapture".into()];
    if is_ignored {
        arguments.push("--ignored".into());
    }
    Job {
        name: format!("{}::{target}{test}", harness.package),
        program: harness.path.clone(),
        arguments,
        // With backtraces, tests that check panics fill the output.
        environment: vec![("RUST_BACKTRACE".into(), "0".into())],
        directory: Some(harness.directory.clone()),
        seconds_max: SECONDS_MAX,
        is_alone: false,
        judge: JobKind::OneTest,
    }
}

fn list(harness: &Program, flags: &[&str]) -> io::Result<Vec<String>> {
    let mut command = Command::new(&harness.path);
    command
        .args(["--list", "--format", "terse"])
        .args(flags)
        .current_dir(&harness.directory);
    let said = command.output()?;
    if !said.status.success() {
        return Err(io::Error::other(format!(
            "{} does not list its tests",
            harness.path.display()
        )));
    }
    Ok(listed(&String::from_utf8_lossy(&said.stdout)))
}

/// Returns the names in what a harness lists.
pub fn listed(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

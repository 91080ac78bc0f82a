//! Runs the project's tests, several at a time: each unit test in a process of its own, and the
//! behaviour scripts of `tests`. `./test` calls this.
//!
//! ```text
//! artifacts of the build -> unit  \
//!                                  jobs -> queue (longest first) -> report
//! tests/SUITE/*.sh       -> scripts /
//! ```
//!
//! Invariant: a test counts as passed only if it says so itself, so that a name that no longer
//! exists is a failure. Nothing that a test started or mounted outlives it: whatever is left is
//! removed, and the test has failed.

mod artifacts;
mod command;
mod job;
mod queue;
mod report;
mod scratch;
mod scripts;
#[cfg(test)]
mod tests;
mod times;
mod unit;

use job::Job;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A request to run tests.
pub struct Request {
    /// The checkout.
    pub root: PathBuf,
    /// Messages that `cargo build --message-format=json` wrote: they name the programs.
    pub artifacts: PathBuf,
    /// `unit`, `scripts`, or names of suites, scripts, crates and tests.
    pub names: Vec<String>,
    /// Whether scripts take their long forms.
    pub is_long: bool,
}

/// Runs what is asked for. Failure if a test failed, or if a name means nothing.
pub fn run(request: &Request) -> ExitCode {
    match try_run(request) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("tests: {e}");
            ExitCode::from(2)
        }
    }
}

/// Removes the leftovers of killed runs: processes, mounts, loop devices, scratch folders.
pub fn clean() {
    scratch::clear_abandoned(&scratch::parent());
}

fn try_run(request: &Request) -> io::Result<bool> {
    let programs = artifacts::Programs::load(&request.artifacts)?;
    let mut all = Vec::new();
    if request.names.iter().any(|name| name != "scripts") {
        all.extend(unit::jobs(&programs)?);
    }
    all.extend(scripts::jobs(&request.root, &programs, request.is_long)?);
    let mut chosen = choose(all, &request.names)?;
    let path = request.artifacts.with_file_name("test-times");
    let mut times = times::Times::load(&path, &request.root.join("tests/longest"));
    times.sort(&mut chosen);
    let scratch = scratch::Scratch::new(&scratch::parent())?;
    let results = queue::run(chosen, &scratch, report::say);
    for result in results.iter().filter(|r| r.has_passed()) {
        times.note(&result.name, result.seconds);
    }
    times.save(&path)?;
    Ok(report::end(&results))
}

/// Returns the jobs that one of `names` means. An error names those that mean nothing.
fn choose(all: Vec<Job>, names: &[String]) -> io::Result<Vec<Job>> {
    for name in names {
        if !all.iter().any(|job| job.is_meant_by(name)) {
            let near: Vec<_> = all
                .iter()
                .filter(|job| job.name.contains(name.as_str()))
                .take(8)
                .collect();
            let near: Vec<_> = near.iter().map(|job| job.name.as_str()).collect();
            let hint = match near.is_empty() {
                true => "a name is unit, scripts, a suite, a script, a crate or a test of one"
                    .to_owned(),
                false => format!("did you mean {}?", near.join(", ")),
            };
            return Err(io::Error::other(format!("there is no test {name}: {hint}")));
        }
    }
    Ok(all
        .into_iter()
        .filter(|job| names.iter().any(|name| job.is_meant_by(name)))
        .collect())
}

/// Returns the text of a file, or an error that names it.
fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display())))
}

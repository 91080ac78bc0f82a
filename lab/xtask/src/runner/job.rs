//! One test: a command, and how its end is judged.
//!
//! Invariant: a job ends. Whatever it has started is killed with its process group after its time
//! limit.

use super::command;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How the end of a job is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobKind {
    /// A test harness that is to run exactly one test.
    OneTest,
    /// A script: exit code 0 is passed, 77 skipped, anything else failed.
    Script,
}

/// A test to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// As `./test NAME` takes it.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, beside what is inherited.
    pub environment: Vec<(String, String)>,
    /// Where it runs. None: in its scratch folder.
    pub directory: Option<PathBuf>,
    /// After so many seconds it has failed.
    pub seconds_max: u64,
    /// Whether nothing may run beside it.
    pub is_alone: bool,
    /// How its end is judged.
    pub judge: JobKind,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It said that it passed.
    Passed,
    /// This machine cannot run it; why.
    Skipped(String),
    /// It failed; why.
    Failed(String),
}

/// A job that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it ran.
    pub seconds: f64,
    /// Everything that it wrote to both outputs.
    pub output: String,
}

impl Ended {
    /// Returns true if the test itself said that it passed.
    pub fn has_passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
}

impl Job {
    /// Returns true if `name`, an argument of `./test`, means this job or a group that it belongs
    /// to.
    pub fn is_meant_by(&self, name: &str) -> bool {
        let group = match self.judge {
            JobKind::OneTest => "unit",
            JobKind::Script => "scripts",
        };
        let rest = self.name.strip_prefix(name);
        name == group
            || rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || rest.starts_with("::")
            })
            || self
                .name
                .rsplit_once('/')
                .is_some_and(|(_, script)| script == name)
    }

    /// Runs the job with `directory`, which exists, as its scratch folder.
    pub fn run(&self, directory: &Path) -> Ended {
        let begun = Instant::now();
        let log = directory.with_extension("log");
        let mut outcome = match self.status(directory, &log) {
            Ok((code, group)) => {
                // The rest of its process group ends now.
                if self.judge == JobKind::Script {
                    command::run("kill", &["-KILL", "--", &format!("-{group}")]);
                }
                self.judged(code, &text_of(&log))
            }
            Err(e) => Outcome::Failed(format!("cannot be run: {e}")),
        };
        let left = match self.judge {
            JobKind::Script => super::scratch::clear(directory),
            JobKind::OneTest => Vec::new(),
        };
        if !left.is_empty() && matches!(outcome, Outcome::Passed) {
            outcome = Outcome::Failed(format!("left behind: {}", left.join(", ")));
        }
        let output = text_of(&log);
        let _ = std::fs::remove_file(log);
        let seconds = begun.elapsed().as_secs_f64();
        Ended {
            name: self.name.clone(),
            outcome,
            seconds,
            output,
        }
    }

    /// Returns the exit code, 128 and the number of a signal that ended it, and its process group.
    fn status(&self, directory: &Path, log: &Path) -> io::Result<(i32, u32)> {
        let output = File::create(log)?;
        // It makes a process group, and ends the whole of it.
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=10", &self.seconds_max.to_string()])
            .arg(&self.program)
            .args(&self.arguments);
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("TMPDIR", directory);
        command.current_dir(self.directory.as_deref().unwrap_or(directory));
        command
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output);
        let mut child = command.spawn()?;
        let status = child.wait()?;
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok((code, child.id()))
    }

    fn judged(&self, code: i32, text: &str) -> Outcome {
        match (self.judge, code) {
            (_, 124 | 137) => Outcome::Failed(format!(
                "did not end in {} s, or was killed",
                self.seconds_max
            )),
            (JobKind::OneTest, 0) if text.contains("test result: ok. 1 passed;") => Outcome::Passed,
            (JobKind::OneTest, 0) => Outcome::Failed("the harness did not run it".to_owned()),
            (JobKind::Script, 0) => Outcome::Passed,
            (JobKind::Script, 77) => Outcome::Skipped(text.trim().replace('\n', "; ")),
            (_, code) => Outcome::Failed(format!("exit code {code}")),
        }
    }
}

fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
